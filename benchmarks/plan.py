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


@dataclass(frozen=True)
class Plan:
    """What one benchmark is given; it can be sent to another process.

    ``folder`` is an empty folder for its files. ``cluster_file`` None means the embedded
    engine. A ``quick`` run is shorter, and says less.
    """

    folder: Path
    cluster_file: str | None = None
    quick: bool = False

    @property
    def seconds(self) -> float:
        """How long poppers pop in one round."""
        return 0.5 if self.quick else 1.5

    def rounds(self, usual: int) -> int:
        """Return how many rounds to measure."""
        return 1 if self.quick else usual

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
            transact(database, lambda tr: tr.clear_range(prefix, _behind(prefix)))


def _behind(prefix: bytes) -> bytes:
    """Return the first key behind all with a prefix, whatever follows it."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1])
