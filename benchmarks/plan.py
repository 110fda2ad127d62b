"""Where the measurements run, and how long."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fdb.tuple
from fdb.subspace_impl import Subspace

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
