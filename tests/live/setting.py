"""The ``FDBQUEUE`` setting of these tests, in their own process and in the server's."""

from __future__ import annotations

import os
from typing import Any

from project.settings import FDBQUEUE

#: Longer than any test waits for anything: what ends sooner was ended.
MAX_WAIT_SECONDS = 600


def fdbqueue_setting(
    prefix: str, path: str, max_wait_seconds: float = MAX_WAIT_SECONDS
) -> dict[str, Any]:
    """Return the demo project's setting in a place of its own, and patterns more."""
    cluster_file = os.environ.get("FDB_CLUSTER_FILE")
    space = ("fdbqueue-test", prefix)
    queues = FDBQUEUE["QUEUES"]
    return {
        "ENGINE": FDBQUEUE["ENGINE"],
        "OPTIONS": {"cluster_file": cluster_file} if cluster_file else {"path": path},
        "PREFIX": (*space, "queues"),
        "QUEUES": {
            **queues,
            "legacy": {**queues["legacy"], "subspace": (*space, "legacy")},
            "quakes-*": {"kind": "priority", "priority_type": "float"},
            "killed-*": {"kind": "fifo", "handoff_timeout_seconds": 1},
        },
        "API": {"MAX_WAIT_SECONDS": max_wait_seconds},
    }
