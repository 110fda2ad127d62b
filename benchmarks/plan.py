"""Where the measurements run, how long, and on what; and what a benchmark is."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import fdb.tuple
from fdb.subspace_impl import Subspace

from benchmarks.measure import Line
from benchmarks.peers import transact
from fdbqueue.engines import embedded, foundationdb

ENGINES = ("embedded", "cluster")
#: How much is measured: ``tiny`` measures nothing, and shows that all of it runs.
SCALES = ("full", "quick", "tiny")
#: What a round is divided by in a quick run.
_QUICKER = 5


@dataclass(frozen=True)
class Plan:
    """What one benchmark is given; it can be sent to another process.

    ``folder`` is an empty folder for its files. ``cluster_file`` None means the embedded
    engine. Many clients work ``times`` as long as usual.
    """

    folder: Path
    cluster_file: str | None = None
    scale: str = "full"
    times: int = 1

    @property
    def engine(self) -> str:
        """The engine's name."""
        return "cluster" if self.cluster_file else "embedded"

    @property
    def seconds(self) -> float:
        """How long many clients work in one round."""
        seconds: float = self.sized(1.5, 0.5, 0.05)
        return seconds * self.times

    def rounds(self, usual: int) -> int:
        """Return how many rounds to measure."""
        return self.sized(usual, max(1, usual // _QUICKER), 1)

    def turns(self, usual: int) -> int:
        """Return how often to run each operation in a round."""
        return self.sized(usual, usual // 4, 2)

    def sized(self, full: Any, quick: Any, tiny: Any) -> Any:
        """Return what is meant for this scale."""
        return dict(zip(SCALES, (full, quick, tiny), strict=True))[self.scale]

    def bar(self, on_embedded: str, on_cluster: str) -> str:
        """Return the bar that holds for the engine in use."""
        return on_cluster if self.cluster_file else on_embedded

    def open(self) -> Any:
        """Open the engine's database in this process."""
        if self.cluster_file:
            return foundationdb.open(self.cluster_file)
        return embedded.open(self.folder / "benchmark.sqlite3")

    @contextlib.contextmanager
    def subspace(self, database: Any) -> Iterator[Subspace]:
        """Give a subspace that nobody else uses, and clear all under it at the end."""
        prefix = fdb.tuple.pack(("fdbqueue-benchmarks", os.urandom(16)))
        try:
            yield Subspace(rawPrefix=prefix)
        finally:
            clear(database, prefix)


def clear(database: Any, prefix: bytes) -> None:
    """Clear all keys with a prefix, whatever follows it."""
    stripped = prefix.rstrip(b"\xff")
    behind = stripped[:-1] + bytes([stripped[-1] + 1])
    transact(database, lambda tr: tr.clear_range(prefix, behind))


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


class Benchmark(NamedTuple):
    """Some lines of the report, measured together.

    ``run`` says in its docstring what they are. ``engines`` are those on which there is
    something to measure. One that is long runs when it is named, and not with all.
    """

    name: str
    run: Callable[[Plan], Iterator[Line]]
    engines: tuple[str, ...] = ENGINES
    is_long: bool = False

    def __str__(self) -> str:
        (title, *_) = (self.run.__doc__ or "").splitlines()
        limits = [] if self.engines == ENGINES else [f"{self.engines[0]} alone"]
        limits += ["when named"] if self.is_long else []
        return f"{self.name:16} {title}" + (f" ({', '.join(limits)})" if limits else "")
