"""The outbox of tasks: rows that are inserted and moved, beside tasks that are enqueued at once.

One thread does each. The rows are inserted in transactions of the ORM of 100 rows each, and moved
by batches. An enqueue waits for a commit of its own, on a disk for one fsync.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator

from benchmarks.catalog import Benchmark
from benchmarks.measure import Line, in_turn, line_of
from benchmarks.plan import Plan
from benchmarks.task_processes import Backend, Process, migrate
from benchmarks.task_workers import our_backend

_ROWS, _ROUNDS = 1_000, 5
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
        for number in range(plan.rounds(_ROUNDS)):
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


BENCHMARKS = (Benchmark("outbox", outbox),)
