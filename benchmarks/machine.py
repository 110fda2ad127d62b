"""What was measured on, in general terms."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sqlite3
import statistics
import time
from datetime import datetime, timezone
from typing import Any

from benchmarks.plan import Plan

_SYNCS = 200
_BLOCK = bytes(4_096)
#: Whose figures depend on their version.
PACKAGES = (
    "Django",
    "djangorestframework",
    "gunicorn",
    "huey",
    "persist-queue",
    "django-tasks-db",
)


def described(plan: Plan) -> dict[str, Any]:
    """Return what figures depend on: cores, versions, what an fsync takes, and how busy it was."""
    return {
        "measured": datetime.now(timezone.utc).date().isoformat(),
        "engine": plan.engine,
        "scale": plan.scale,
        "system": platform.system(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "fsync_ms": round(_fsync_ms(plan), 3),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{name: importlib.metadata.version(name) for name in PACKAGES},
        **_server(plan),
    }


def _fsync_ms(plan: Plan) -> float:
    """Return the median time of appending a block to a file of the folder and its fsync."""
    times = []
    with (plan.folder / "fsync").open("wb", buffering=0) as stream:
        for _ in range(_SYNCS):
            start = time.perf_counter()
            stream.write(_BLOCK)
            os.fsync(stream.fileno())
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1_000


def _server(plan: Plan) -> dict[str, Any]:
    """Return the cluster's version and shape, where there is one."""
    if plan.cluster_file is None:
        return {}
    tr = plan.open().create_transaction()
    cluster = json.loads(bytes(tr[b"\xff\xff/status/json"]))["cluster"]
    versions = {process["version"] for process in cluster["processes"].values()}
    return {
        "foundationdb": ", ".join(sorted(versions)),
        "processes": len(cluster["processes"]),
        "storage": cluster["configuration"]["storage_engine"],
    }
