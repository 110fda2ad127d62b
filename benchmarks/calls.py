"""How many Python calls an operation makes, one client alone.

On a fast disk, and beside a cluster that is near, Python is most of what an operation costs. A
count of calls is the same on every machine, so it shows what a change of the code has added.

What is counted are the ``call`` events of :func:`sys.setprofile` in the calling thread: each
call of a Python function, each comprehension, and each time that a generator goes on. Calls of
functions written in C are not counted. Nothing observes the queues: the metrics, where they are
installed, make some twenty calls more for each operation.
"""

from __future__ import annotations

import functools
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benchmarks.catalog import Benchmark
from benchmarks.measure import Line, line_of
from benchmarks.plan import Plan
from benchmarks.queues import SMALL
from fdbqueue.service import FifoQueue, PriorityQueue

#: Run before any is counted: they fill caches, and write what is written once a queue.
_WARM_UP = 20
_TURNS = 200
_PRIORITY = 3


class Case(NamedTuple):
    """An operation, the most calls it may make, and how many it made before.

    ``before`` was counted in the same way, when a queue was one class that inherited from ten.
    """

    verb: str
    kind: str
    most: int
    before: int


CASES = (
    Case("push", "FIFO", 400, 347),
    Case("push", "priority", 400, 400),
    Case("pop", "FIFO", 361, 425),
    Case("pop", "priority", 404, 480),
    Case("lease and ack", "FIFO", 684, 830),
    Case("lease and ack", "priority", 728, 887),
)


def calls(plan: Plan) -> Iterator[Line]:
    """Python calls of one push, one pop, one lease with its ack, beside the most they may be."""
    for case in CASES:
        with plan.subspace(database := plan.open()) as subspace:
            queue = (FifoQueue if case.kind == "FIFO" else PriorityQueue)(database, subspace)
            found = median_calls(queue, case, plan.turns(_TURNS))
        yield line_of(
            f"{case.kind} {case.verb}, calls",
            [(found, case.most)],
            peer_name=f"the most ({case.before} before)",
            unit="calls",
            bar="at most 1",
        )


def median_calls(queue: Any, case: Case, turns: int) -> float:
    """Return the median of the calls that an operation makes."""
    priority = () if case.kind == "FIFO" else (_PRIORITY,)
    push = functools.partial(queue.push, {"number": 1, **SMALL}, *priority)
    counts = []
    for _ in range(_WARM_UP + turns):
        if case.verb == "push":
            counts.append(counted(push)[0])
            continue
        push()
        push()  # so that the queue is not empty afterwards
        if case.verb == "pop":
            counts.append(counted(queue.pop)[0])
        else:
            count, item = counted(queue.lease)
            counts.append(count + counted(functools.partial(queue.ack, item))[0])
    return statistics.median(counts[_WARM_UP:])


def counted(function: Callable[[], Any]) -> tuple[int, Any]:
    """Call a function; return how many Python calls that made, and its result."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = function()
    finally:
        sys.setprofile(before)
    return count, result


BENCHMARKS = (Benchmark("calls", calls, engines=("embedded",)),)
