"""The embedded engine against SQLite itself, and against its own size."""

from __future__ import annotations

import itertools
import json
import sqlite3
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fdb.subspace_impl import Subspace

from benchmarks.measure import Line, compare, compare_by_turns, rate, rate_of_threads
from benchmarks.plan import Plan
from fdbqueue.engines import embedded
from fdbqueue.service import FifoQueue, PriorityQueue

EARTHQUAKES = Path(__file__).resolve().parents[1] / "project/sample_data/earthquakes.ndjson"
SMALL = {"id": "us1000cdjq", "kind": "work", "attempt": 1, "place": "33km W of Raton"}
BATCH = 400
ROUNDS = 9


class RawSqlite:
    """The limit: one INSERT or DELETE a commit, write-ahead log, synchronous FULL."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE queue (id INTEGER PRIMARY KEY, value BLOB)")
        self._value = json.dumps(SMALL)

    def push(self) -> None:
        """Insert one row, in a commit of its own."""
        self._connection.execute("INSERT INTO queue (value) VALUES (?)", (self._value,))

    def pop(self) -> Any:
        """Delete the first row, in a commit of its own."""
        return self._connection.execute(
            "DELETE FROM queue WHERE id = (SELECT min(id) FROM queue) RETURNING value"
        ).fetchall()


def one_thread(plan: Plan) -> Iterator[Line]:
    """Push and pop, one at a time, beside SQLite doing the same."""
    raw = RawSqlite(plan.folder / "raw.sqlite3")
    database = embedded.open(plan.folder / "ours.sqlite3")
    fifo = FifoQueue(database, Subspace(("fifo",)))
    priority = PriorityQueue(database, Subspace(("priority",)))
    for name, queue in (("FIFO", fifo), ("priority", priority)):
        for verb, ours, peer in (
            ("push", lambda queue=queue: queue.push(SMALL), raw.push),
            ("pop", queue.pop, raw.pop),
        ):
            yield compare_by_turns(
                f"{name} {verb}, 1 thread",
                ours,
                peer,
                peer_name="raw SQLite",
                bar="at least 0.5",
                rounds=plan.rounds(ROUNDS),
                turns=BATCH,
            )


def many_threads(plan: Plan) -> Iterator[Line]:
    """Eight threads' pushes together, beside one thread's."""
    queue = FifoQueue(embedded.open(plan.folder / "ours.sqlite3"), Subspace(("threads",)))
    yield compare(
        "push, 8 threads together",
        lambda: rate_of_threads(lambda: queue.push(SMALL), 8 * BATCH, 8),
        lambda: rate(lambda: queue.push(SMALL), BATCH),
        peer_name="1 thread",
        unit="/s",
        bar="at least 1.1",
        rounds=plan.rounds(ROUNDS),
    )


def push_many(plan: Plan) -> Iterator[Line]:
    """Earthquakes pushed many at a time, beside SQLite one at a time."""
    raw = RawSqlite(plan.folder / "raw.sqlite3")
    queue = PriorityQueue(
        embedded.open(plan.folder / "ours.sqlite3"), Subspace(("many",)), priority_type="float"
    )
    records = [json.loads(line) for line in EARTHQUAKES.read_text().splitlines()]
    pairs = [(record, record["magnitude"]) for record in records]
    count = 10 * len(pairs)

    def ours() -> float:
        start = time.perf_counter()
        queue.push_many(itertools.chain.from_iterable(itertools.repeat(pairs, 10)))
        seconds = time.perf_counter() - start
        queue.clear()
        return count / seconds

    yield compare(
        "push_many of earthquakes",
        ours,
        lambda: rate(raw.push, BATCH),
        peer_name="raw SQLite, one by one",
        unit="/s",
        bar="at least 6 (30,000/s where raw does 5,000)",
        rounds=plan.rounds(5),
    )


def growth(plan: Plan) -> Iterator[Line]:
    """A peek and a page of 100, in a queue of a million beside one of a thousand."""
    database = embedded.open(plan.folder / "grown.sqlite3", durability="normal")
    queues = {}
    for size in (1_000, 1_000_000):
        queue = PriorityQueue(database, Subspace((size,)), priority_type="float")
        queue.push_many((SMALL, number % 997 / 10) for number in range(size))
        queues[size] = queue
    for name, operation in (
        ("peek", lambda queue: queue.peek_max()),
        ("page of 100", lambda queue: queue.page(limit=100, min_priority=50)),
    ):
        yield compare(
            f"{name}, 1,000,000 items",
            lambda operation=operation: _milliseconds(lambda: operation(queues[1_000_000])),
            lambda operation=operation: _milliseconds(lambda: operation(queues[1_000])),
            peer_name="1,000 items",
            unit="ms",
            bar="at most 1.3",
            rounds=plan.rounds(ROUNDS),
        )


def _milliseconds(operation: Any) -> float:
    """Return the median time of an operation over 50 runs."""
    times = []
    for _ in range(50):
        start = time.perf_counter()
        operation()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


BENCHMARKS = {
    "one-thread": one_thread,
    "many-threads": many_threads,
    "push-many": push_many,
    "growth": growth,
}
