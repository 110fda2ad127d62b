"""Tasks with limits by key beside tasks without: the same number, done by the same workers.

Those with limits are of a hundred keys, in turn. Both are enqueued before, and done by four worker
processes of four threads each. Each figure is from the start of the first task to the end of the
last, and every run checks that each was done once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import fdb.tuple

from benchmarks.catalog import Benchmark
from benchmarks.measure import Line, in_turn, line_of
from benchmarks.plan import Plan, clear
from benchmarks.queues import value_of
from benchmarks.task_processes import Backend, Process, enqueue, span, work
from benchmarks.task_workers import our_backend

_WORKERS, _THREADS = 4, 4
_TASKS, _ROUNDS = 2_000, 5
_WORKER = {"batch": True, "threads": _THREADS}


def key_limits(plan: Plan) -> Iterator[Line]:
    """Tasks with limits of 100 keys, done by 4 workers of 4 threads, beside tasks without."""
    count = plan.sized(_TASKS, _TASKS // 2, 20)
    workers = plan.sized(_WORKERS, _WORKERS, 2)
    prefix = "fdbqueue-benchmarks", os.urandom(8).hex()
    pairs: list[tuple[float, float]] = []
    try:
        with contextlib.ExitStack() as stack:
            backend = our_backend(plan, prefix)
            processes = [stack.enter_context(Process(backend)) for _ in range(workers)]

            def done(*, limited: bool, count: int = count) -> float:
                function = enqueue_limited if limited else enqueue_plain
                ids = processes[0].call(function, count)
                for number, process in enumerate(processes):
                    process.begin(work, f"worker-{number}", _WORKER)
                for process in processes:
                    process.result()
                rate: float = processes[0].call(span, ids)[0].rate
                return rate

            for limited in (True, False):  # what is done once only
                done(limited=limited, count=20)
            for number in range(plan.rounds(_ROUNDS)):
                found = in_turn(number, lambda: done(limited=True), lambda: done(limited=False))
                pairs.append((found[0], found[1]))
    finally:
        if plan.cluster_file:  # a file's folder is removed with it
            clear(plan.open(), fdb.tuple.pack(prefix))
    yield line_of(
        f"tasks with limits of 100 keys, {_WORKERS} workers of {_THREADS} threads",
        pairs,
        peer_name="tasks without limits",
        unit="/s",
        bar=plan.bar("at least 0.7", "at least 0.6"),
        note="Four of a key run at a time at most; the tasks do nothing.",
    )


def enqueue_limited(_: Backend, count: int) -> list[str]:
    """Enqueue tasks with limits; return their ids."""
    from benchmarks.limited_task import limited_nothing

    return [limited_nothing.enqueue(number, value_of(number)).id for number in range(count)]


def enqueue_plain(backend: Backend, count: int) -> list[str]:
    """Enqueue tasks without limits; return their ids."""
    return enqueue(backend, count)[1]


BENCHMARKS = (Benchmark("key-limits", key_limits),)
