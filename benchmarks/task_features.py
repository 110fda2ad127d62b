"""Groups of tasks, the outbox, and limits by key: each beside tasks without.

*Groups*: both are enqueued by one thread and done by one worker, whose ends of parts do not share a
transaction with the next lease as other ends do. Each figure is the time of all of it: from the
first enqueue to the end of the last task.

*The outbox*: one thread does each. The rows are inserted in transactions of the ORM of 100 rows
each, and moved by batches. An enqueue waits for a commit of its own, on a disk for one fsync.

*Limits*: those with limits are of a hundred keys, in turn. Both are enqueued before, and done by
four worker processes of four threads each. Each figure is from the start of the first task to the
end of the last, and every run checks that each was done once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterator

import fdb.tuple

from benchmarks.measure import Line, in_turn, line_of
from benchmarks.plan import Benchmark, Plan, clear
from benchmarks.queues import value_of
from benchmarks.task_processes import Backend, Process, enqueue, migrate, span, work
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


_ROWS, _OUTBOX_ROUNDS = 1_000, 5
_IN_A_TRANSACTION = 100


def outbox(plan: Plan) -> Iterator[Line]:
    """A task through the outbox beside one that is enqueued at once."""
    count = plan.sized(_ROWS, _ROWS // 2, 20)
    prefix = "fdbqueue-benchmarks", os.urandom(8).hex()
    moves: list[tuple[float, float]] = []
    ways: list[tuple[float, float]] = []
    with (
        Process(_with_outbox(plan, prefix)) as ours,
        Process(our_backend(plan, (*prefix, "at once"))) as peer,
    ):
        ours.call(migrate)
        for process, function in ((ours, rows_moved), (peer, tasks_enqueued)):
            process.call(function, 20)  # what is done once only
        for number in range(plan.rounds(_OUTBOX_ROUNDS)):
            (inserted, moved), at_once = in_turn(
                number,
                lambda: ours.call(rows_moved, count),
                lambda: (peer.call(tasks_enqueued, count), 0.0),
            )
            moves.append((moved / count * 1e6, at_once[0] / count * 1e6))
            ways.append(((inserted + moved) / count * 1e6, at_once[0] / count * 1e6))
    described = {"peer_name": "a task enqueued", "unit": "µs", "bar": "at most 1.5"}
    yield line_of("row of the outbox moved", moves, **described)
    yield line_of(
        "row of the outbox inserted and moved",
        ways,
        **described,
        note=f"Inserted by {_IN_A_TRANSACTION} in a transaction of SQLite (WAL, synchronous=FULL).",
    )


def _with_outbox(plan: Plan, prefix: tuple[str, ...]) -> Backend:
    backend = our_backend(plan, prefix)
    options = {
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        "transaction_mode": "IMMEDIATE",
    }
    database = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(plan.folder / "orm.sqlite3"),
        "OPTIONS": options,
    }
    tasks = backend.settings["TASKS"]["default"]
    settings = {
        **backend.settings,
        "INSTALLED_APPS": [*backend.settings["INSTALLED_APPS"], "fdbqueue.tasks.outbox"],
        "DATABASES": {"default": database},
        "TASKS": {"default": {**tasks, "OPTIONS": {"outbox": True}}},
    }
    return dataclasses.replace(backend, settings=settings)


def rows_moved(_: Backend, count: int) -> tuple[float, float]:
    """Return how long it takes to insert rows, and to move them.

    Raises:
        ValueError: Some were not moved.
    """
    from django.db import transaction

    from benchmarks.nothing_task import nothing
    from fdbqueue.tasks.compat import task_backends
    from fdbqueue.tasks.outbox.mover import move_now

    began = time.perf_counter()
    for start in range(0, count, _IN_A_TRANSACTION):
        with transaction.atomic():
            for number in range(start, min(start + _IN_A_TRANSACTION, count)):
                nothing.enqueue(number)
    inserted = time.perf_counter()
    backend = task_backends["default"]
    done = move_now(backend.outbox(), backend.catalog)
    if done.moved != count:
        raise ValueError(f"{done.moved} rows of {count} were moved")
    return inserted - began, time.perf_counter() - inserted


def tasks_enqueued(_: Backend, count: int) -> float:
    """Return how long it takes to enqueue tasks at once."""
    from benchmarks.nothing_task import nothing

    began = time.perf_counter()
    for number in range(count):
        nothing.enqueue(number)
    return time.perf_counter() - began


_WORKERS, _THREADS = 4, 4
_TASKS, _KEY_LIMITS_ROUNDS = 2_000, 5
_KEY_LIMITS_WORKER = {"batch": True, "threads": _THREADS}


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
                    process.begin(work, f"worker-{number}", _KEY_LIMITS_WORKER)
                for process in processes:
                    process.result()
                rate: float = processes[0].call(span, ids)[0].rate
                return rate

            for limited in (True, False):  # what is done once only
                done(limited=limited, count=20)
            for number in range(plan.rounds(_KEY_LIMITS_ROUNDS)):
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


BENCHMARKS = (
    Benchmark("groups", groups),
    Benchmark("outbox", outbox),
    Benchmark("key-limits", key_limits),
)
