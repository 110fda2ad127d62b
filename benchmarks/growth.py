"""How a queue's size tells: push, pop, peek, a page and a drain, from a thousand items on."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.catalog import Benchmark
from benchmarks.measure import Line, Operation, compare_by_turns
from benchmarks.plan import Plan
from benchmarks.queues import SMALL
from fdbqueue.service import Batcher, PriorityQueue

SIZES = (10_000, 100_000)
MILLION = 1_000_000
BASE = 1_000
ROUNDS = 5
TURNS = 50
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
        rounds=plan.rounds(ROUNDS),
        turns=plan.turns(TURNS if ours.items == 1 else DRAIN_TURNS),
        restore=(ours.restore, peer.restore),
        times=ours.items,
        at=size,
    )


def _nothing() -> None:
    """Put nothing back: nothing was changed."""


BENCHMARKS = (
    Benchmark("growth", growth),
    Benchmark("growth-million", million, is_long=True),
)
