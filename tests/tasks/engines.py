"""What ``FDBQUEUE`` says of the engine under test."""

from __future__ import annotations

import os
from typing import Any


def engine_setting(engine: str, path: str) -> dict[str, Any]:
    """Return the part of the setting that names the engine."""
    if engine == "foundationdb":
        cluster_file = os.environ["FDB_CLUSTER_FILE"]
        return {
            "ENGINE": "fdbqueue.engines.foundationdb",
            "OPTIONS": {"cluster_file": cluster_file},
        }
    return {"OPTIONS": {"path": path, "durability": "normal"}}
