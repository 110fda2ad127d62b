"""The ``FDBQUEUE`` setting of these tests, in their own process and in those they start."""

from __future__ import annotations

import os
from typing import Any


def fdbqueue_setting(prefix: str, path: str) -> dict[str, Any]:
    """Return the setting: on a cluster where there is one, else on the embedded engine."""
    cluster_file = os.environ.get("FDB_CLUSTER_FILE")
    engine = "foundationdb" if cluster_file else "embedded"
    silent = os.environ.get("FDBQUEUE_TEST_ENGINE")
    if silent:
        return {"ENGINE": silent, "QUEUES": {"mail": {"kind": "fifo"}}}
    return {
        "ENGINE": f"fdbqueue.engines.{engine}",
        "OPTIONS": (
            {"cluster_file": cluster_file}
            if cluster_file
            else {"path": path, "durability": "normal"}
        ),
        "PREFIX": ("fdbqueue-test", prefix),
        "QUEUES": {
            "quakes": {"kind": "priority", "priority_type": "float"},
            "ranks": {"kind": "priority"},
            "mail": {"kind": "fifo"},
            "blobs": {"kind": "fifo", "codec": "bytes"},
            "ranked-blobs": {"kind": "priority", "codec": "bytes"},
            "tuples": {"kind": "fifo", "codec": "tuple"},
            "user-*": {"kind": "fifo"},
        },
    }
