"""Ours beside what SQLite itself takes for a durable commit, and beside ours one by one."""

from __future__ import annotations

import itertools
import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.catalog import Benchmark
from benchmarks.measure import Line, compare, compare_by_turns, in_threads, rate
from benchmarks.plan import Plan
from benchmarks.queues import SMALL
from fdbqueue.service import FifoQueue, PriorityQueue

EARTHQUAKES = Path(__file__).resolve().parents[1] / "project/sample_data/earthquakes.ndjson"
BATCH = 200
ROUNDS = 7
DURABILITY = "WAL, synchronous=FULL"


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


def sqlite(plan: Plan) -> Iterator[Line]:
    """Push and pop, one at a time, beside SQLite doing the same in the same file system."""
    raw = RawSqlite(plan.folder / "raw.sqlite3")
    database = plan.open()
    with plan.subspace(database) as subspace:
        fifo = FifoQueue(database, subspace["fifo"])
        priority = PriorityQueue(database, subspace["priority"])
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
                    bar="at least 0.6",
                    rounds=plan.rounds(ROUNDS),
                    turns=plan.turns(BATCH),
                    note=DURABILITY,
                )


def threads(plan: Plan) -> Iterator[Line]:
    """Eight threads' pushes together, beside one thread's."""
    database, count = plan.open(), plan.turns(BATCH)
    with plan.subspace(database) as subspace:
        queue = FifoQueue(database, subspace)
        yield compare(
            "FIFO push, 8 threads",
            lambda: in_threads(lambda: queue.push(SMALL), 8, count=8 * count).rate,
            lambda: rate(lambda: queue.push(SMALL), count),
            peer_name="1 thread",
            unit="/s",
            bar="at least 1.1",
            rounds=plan.rounds(ROUNDS),
        )


def push_many(plan: Plan) -> Iterator[Line]:
    """Earthquakes pushed many at a time, beside one by one."""
    records = [json.loads(line) for line in EARTHQUAKES.read_text().splitlines()]
    pairs = [(record, record["magnitude"]) for record in records]
    times = plan.sized(10, 10, 1)
    single = itertools.cycle(pairs)
    database = plan.open()
    with plan.subspace(database) as subspace:
        queue = PriorityQueue(database, subspace, priority_type="float")

        def many() -> float:
            start = time.perf_counter()
            queue.push_many(itertools.chain.from_iterable(itertools.repeat(pairs, times)))
            seconds = time.perf_counter() - start
            queue.clear()
            return times * len(pairs) / seconds

        peers = {"one by one": lambda: queue.push(*next(single))}
        if plan.cluster_file is None:
            peers["raw SQLite, one by one"] = RawSqlite(plan.folder / "raw.sqlite3").push
        for name, push in peers.items():
            yield compare(
                "push_many of earthquakes",
                many,
                lambda push=push: rate(push, plan.turns(BATCH)),
                peer_name=name,
                unit="/s",
                bar="no bar" if name == "one by one" else "at least 6",
                rounds=plan.rounds(5),
            )


BENCHMARKS = (
    Benchmark("sqlite", sqlite, engines=("embedded",)),
    Benchmark("threads", threads),
    Benchmark("push-many", push_many),
)
