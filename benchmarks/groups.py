"""Groups of tasks: a thousand parts and what follows them, beside a thousand tasks by themselves.

Both are enqueued by one thread and done by one worker, whose ends of parts do not share a
transaction with the next lease as other ends do. Each figure is the time of all of it: from the
first enqueue to the end of the last task.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from benchmarks.catalog import Benchmark
from benchmarks.measure import Line, in_turn, line_of
from benchmarks.plan import Plan
from benchmarks.task_processes import Backend, Process, work
from benchmarks.task_workers import our_backend

_PARTS, _ROUNDS = 1_000, 5
_WORKER = {"batch": True}


def groups(plan: Plan) -> Iterator[Line]:
    """A group of 1,000 tasks and what follows it, beside 1,000 tasks."""
    count = plan.sized(_PARTS, _PARTS // 2, 20)
    prefix = "fdbqueue-benchmarks", os.urandom(8).hex()
    pairs: list[tuple[float, float]] = []
    with Process(our_backend(plan, prefix)) as process:
        for function in (group_done, tasks_done):  # what is done once only
            process.call(function, 20)
        for number in range(plan.rounds(_ROUNDS)):
            found = in_turn(
                number,
                lambda: process.call(group_done, count),
                lambda: process.call(tasks_done, count),
            )
            pairs.append((found[0], found[1]))
    yield line_of(
        f"group of {count:,} and what follows it",
        pairs,
        peer_name=f"{count:,} tasks",
        unit="s",
        bar="at most 1.15",
        note="From the first enqueue to the last end: one thread enqueues, one worker works.",
    )


def group_done(backend: Backend, count: int) -> float:
    """Return how long a group takes, what follows it included.

    Raises:
        ValueError: What follows has not ended.
    """
    from benchmarks.nothing_task import nothing
    from fdbqueue.tasks import call, group

    began = time.perf_counter()
    result = group([call(nothing, number) for number in range(count)]).then(nothing).enqueue()
    work(backend, "groups", _WORKER)
    took = time.perf_counter() - began
    result.refresh()
    if result.status != "SUCCESSFUL":
        raise ValueError(f"{result.succeeded} parts of {count} have ended, and nothing follows")
    return took


def tasks_done(backend: Backend, count: int) -> float:
    """Return how long as many tasks take by themselves."""
    from benchmarks.nothing_task import nothing

    began = time.perf_counter()
    for number in range(count):
        nothing.enqueue(number)
    work(backend, "tasks", _WORKER)
    return time.perf_counter() - began


BENCHMARKS = (Benchmark("groups", groups),)
