"""What an operation costs one client alone, beside a peer's, and how a queue's size tells.

The two of a line run by turns, so that both meet the same disk and the same cluster.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.contention import ALONE_BESIDE_RECIPE
from benchmarks.measure import Line, Operation, compare, compare_by_turns, in_threads, rate
from benchmarks.plan import Benchmark, Plan
from benchmarks.queues import SMALL, Load, Ours, Peer, queue_of
from fdbqueue.service import Batcher, FifoQueue, PriorityQueue

ROUNDS = 5
TURNS = 100
MANY = 50
#: In all rounds 1,000 pushes under keys of their own, and batches of as many.
UNIQUE, UNIQUE_BATCHES, BATCH = 200, 8, 1_000


def recipe(plan: Plan) -> Iterator[Line]:
    """Push and pop beside the recipe's."""
    for kind, verb in itertools.product(KINDS, ("push", "pop")):
        yield _compare(
            plan,
            f"{KINDS[kind]} {verb}, alone",
            verb,
            (Load(kind), Load(kind, "recipe")),
            peer_name="recipe",
            bar=plan.bar(*ALONE_BESIDE_RECIPE),
        )


def counters(plan: Plan) -> Iterator[Line]:
    """Push and pop as they are, beside the same without what they write to count."""
    for kind, verb in itertools.product(KINDS, ("push", "pop")):
        yield _compare(
            plan,
            f"{KINDS[kind]} {verb}, counted",
            verb,
            (Load(kind), Load(kind, "uncounted")),
            peer_name="not counted",
            bar="at least 0.8",
        )


def taking(plan: Plan) -> Iterator[Line]:
    """Leases, and pops that would wait, beside plain pops: one by one, and many at once."""
    for method, verb, bar in (
        ("wait", "pop", "at least 0.9"),
        ("lease", "pop", "at least 0.5"),
        ("lease+ack", "pop", "no bar"),
        ("lease", f"pop of {MANY}", "at least 0.5"),
        ("lease+ack", f"pop of {MANY}", "no bar"),
    ):
        name = verb.replace("pop", "pop and wait" if method == "wait" else method)
        loads = Load(method=method), Load()
        yield _compare(plan, f"FIFO {name}, alone", verb, loads, peer_name=verb, bar=bar)


def limits(plan: Plan) -> Iterator[Line]:
    """Pops and leases of a queue whose limits are far away, beside those of one without."""
    for name, method, options in (
        ("pop, rate", "pop", {"rate": "1000000/s"}),
        ("lease, rate", "lease", {"rate": "1000000/s"}),
        ("lease, max_leased", "lease", {"max_leased": 1_000_000}),
    ):
        loads = Load(method=method, options=options), Load(method=method)
        for verb in ("pop", f"pop of {MANY}"):
            of = verb.removeprefix("pop")
            yield _compare(
                plan, f"FIFO {name}{of}", verb, loads, peer_name="no limit", bar="at least 0.8"
            )


def unique(plan: Plan) -> Iterator[Line]:
    """Pushes under unique keys of their own, beside pushes without: one by one, and in batches."""
    loads = Load(method="unique"), Load()
    for verb, bar, turns in (
        ("keyed push", "at least 0.77", UNIQUE),
        (f"batch of {BATCH:,}", "no bar", UNIQUE_BATCHES),
    ):
        name = "push" if verb == "keyed push" else f"push_batch of {BATCH:,}"
        yield _compare(
            plan, f"FIFO {name}, unique", verb, loads, peer_name="no key", bar=bar, turns=turns
        )


def _compare(
    plan: Plan,
    name: str,
    verb: str,
    loads: tuple[Load, Load],
    *,
    peer_name: str,
    bar: str,
    turns: int = TURNS,
) -> Line:
    """Compare one verb of two queues, in a database and subspaces of their own."""
    database, rounds, turns = plan.open(), plan.rounds(ROUNDS), plan.turns(turns)
    with plan.subspace(database) as one, plan.subspace(database) as other:
        ours, peer = (
            VERBS[verb](queue_of(database, subspace, load), rounds * turns)
            for subspace, load in zip((one, other), loads, strict=True)
        )
        return compare_by_turns(
            name, ours, peer, peer_name=peer_name, bar=bar, rounds=rounds, turns=turns
        )


def _push(queue: Peer | Ours, turns: int) -> Operation:  # noqa: ARG001  # nothing to prepare
    numbers = itertools.count()
    return lambda: queue.push(next(numbers))


def _push_keyed(queue: Any, turns: int) -> Operation:  # noqa: ARG001  # nothing to prepare
    numbers = itertools.count()
    return lambda: queue.push_keyed(next(numbers))


def _push_batch(queue: Any, turns: int) -> Operation:  # noqa: ARG001  # nothing to prepare
    numbers = itertools.count(step=BATCH)
    return lambda: queue.push_batch(range(begin := next(numbers), begin + BATCH))


def _pop(queue: Peer | Ours, turns: int) -> Operation:
    queue.fill(turns)
    return queue.take


def _pop_many(queue: Any, turns: int) -> Operation:
    queue.fill(turns * MANY)
    return lambda: queue.take_many(MANY)


KINDS = {"fifo": "FIFO", "priority": "priority"}
VERBS: dict[str, Callable[[Any, int], Operation]] = {
    "push": _push,
    "keyed push": _push_keyed,
    f"batch of {BATCH:,}": _push_batch,
    "pop": _pop,
    f"pop of {MANY}": _pop_many,
}


EARTHQUAKES = Path(__file__).resolve().parents[1] / "project/sample_data/earthquakes.ndjson"
SQLITE_BATCH = 200
SQLITE_ROUNDS = 7
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
                    rounds=plan.rounds(SQLITE_ROUNDS),
                    turns=plan.turns(SQLITE_BATCH),
                    note=DURABILITY,
                )


def threads(plan: Plan) -> Iterator[Line]:
    """Eight threads' pushes together, beside one thread's."""
    database, count = plan.open(), plan.turns(SQLITE_BATCH)
    with plan.subspace(database) as subspace:
        queue = FifoQueue(database, subspace)
        yield compare(
            "FIFO push, 8 threads",
            lambda: in_threads(lambda: queue.push(SMALL), 8, count=8 * count).rate,
            lambda: rate(lambda: queue.push(SMALL), count),
            peer_name="1 thread",
            unit="/s",
            bar="at least 1.1",
            rounds=plan.rounds(SQLITE_ROUNDS),
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
                lambda push=push: rate(push, plan.turns(SQLITE_BATCH)),
                peer_name=name,
                unit="/s",
                bar="no bar" if name == "one by one" else "at least 6",
                rounds=plan.rounds(5),
            )


SIZES = (10_000, 100_000)
MILLION = 1_000_000
BASE = 1_000
GROWTH_ROUNDS = 5
GROWTH_TURNS = 50
DRAIN_TURNS = 4
DRAINED = 1_000
PAGE = 100
PRIORITIES = 997
#: What takes at most 1.3 times as long is done at least so many times as often.
_BAR = "at least 0.77"


class Verb(NamedTuple):
    """What is done to a queue, what puts it back to its size, and how many items that is."""

    name: str
    work: Operation
    restore: Operation
    items: int = 1


class Sized:
    """A priority queue that keeps its size.

    Args:
        database: Where it is.
        subspace: Its own.
        size: How many items.
        drained: How many are drained at once.
    """

    def __init__(self, database: Any, subspace: Any, size: int, drained: int) -> None:
        self._queue = PriorityQueue(database, subspace, priority_type="float")
        self._numbers = itertools.count()
        self._drained = drained
        self._push_many(size)

    def verbs(self) -> Iterator[Verb]:
        """Yield what is measured."""
        queue = self._queue
        yield Verb("push", lambda: queue.push(SMALL, 50.0), queue.pop_max)
        yield Verb("pop", queue.pop_max, lambda: self._push_many(1))
        yield Verb("peek", queue.peek_max, _nothing)
        yield Verb("page of 100", lambda: queue.page(limit=PAGE, min_priority=50), _nothing)
        yield Verb("drain", self._drain, lambda: self._push_many(self._drained), self._drained)

    def _push_many(self, count: int) -> None:
        numbers = itertools.islice(self._numbers, count)
        self._queue.push_many((SMALL, number % PRIORITIES / 10) for number in numbers)

    def _drain(self) -> None:
        """Take some as ``queue_drain`` does: in batches that are leased, and acknowledged."""
        batcher = Batcher(self._queue, limit=self._drained)
        while batch := batcher.next():
            self._queue.ack_many(batch)


def growth(plan: Plan) -> Iterator[Line]:
    """Push, pop, peek, page and drain with 10,000 and 100,000 items, beside 1,000."""
    yield from _growth(plan, plan.sized(SIZES, SIZES, (40, 60)))


def million(plan: Plan) -> Iterator[Line]:
    """The same with a million items."""
    yield from _growth(plan, plan.sized((MILLION,), (MILLION,), (80,)))


def _growth(plan: Plan, sizes: tuple[int, ...]) -> Iterator[Line]:
    base, drained = plan.sized(BASE, BASE, 20), plan.sized(DRAINED, DRAINED, 10)
    database = plan.open()
    with contextlib.ExitStack() as stack:

        def filled(size: int) -> Sized:
            return Sized(database, stack.enter_context(plan.subspace(database)), size, drained)

        small = filled(base)
        for size in sizes:
            for ours, peer in zip(filled(size).verbs(), small.verbs(), strict=True):
                yield _line(plan, ours, peer, size, base)


def _line(plan: Plan, ours: Verb, peer: Verb, size: int, base: int) -> Line:
    return compare_by_turns(
        f"{ours.name}, {size:,} items",
        ours.work,
        peer.work,
        peer_name=f"{base:,} items",
        bar=_BAR,
        rounds=plan.rounds(GROWTH_ROUNDS),
        turns=plan.turns(GROWTH_TURNS if ours.items == 1 else DRAIN_TURNS),
        restore=(ours.restore, peer.restore),
        times=ours.items,
        at=size,
    )


def _nothing() -> None:
    """Put nothing back: nothing was changed."""


BENCHMARKS = (
    Benchmark("recipe", recipe),
    Benchmark("counters", counters),
    Benchmark("taking", taking),
    Benchmark("unique", unique),
    Benchmark("limits", limits),
    Benchmark("sqlite", sqlite, engines=("embedded",)),
    Benchmark("threads", threads),
    Benchmark("push-many", push_many),
    Benchmark("growth", growth),
    Benchmark("growth-million", million, is_long=True),
)
