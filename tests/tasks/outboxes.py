"""An outbox in a database file, for tests and the processes that they start."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connections, transaction

from fdbqueue.service import run
from tests.engines.children import wait_until
from tests.tasks import jobs, kept_jobs
from tests.tasks.killing import Workers

#: Each tenth task is of a transaction that is rolled back.
_ROLLED_BACK = 10
_DEADLINE_SECONDS = 600


@contextmanager
def database_at(path: str, alias: str = "default", *, migrates: bool = True) -> Iterator[None]:
    """Let a database be in a file, with the tables of the outbox."""
    names, is_known = connections.settings, alias in connections
    before = connections[alias] if is_known else None
    kept = names[alias] if is_known else None
    if is_known:
        del connections[alias]  # it stays open: the tests' database may be in memory
    names[alias] = {**names["default"], "NAME": path, "OPTIONS": {"timeout": 20}}
    try:
        if migrates:
            call_command("migrate", "fdbqueue_outbox", database=alias, verbosity=0)
        yield
    finally:
        connections[alias].close()
        del connections[alias]
        if kept is None:
            del names[alias]
        else:
            names[alias], connections[alias] = kept, before


def enqueue_all(values: Any, *, using: str = "default") -> list[Any]:
    """Enqueue a task for each value, in one transaction of the ORM."""
    with transaction.atomic(using=using):
        return [jobs.note.enqueue(value) for value in values]


def queued(backend: Any, name: str = "default") -> list[Any]:
    """Return the arguments of the tasks in a queue, in its order."""
    queue = backend.queue(name)
    return [item.value["args"][0] for item in queue.iterate()]


def claims(backend: Any) -> list[bytes]:
    """Return the claims that are stored."""
    key = backend.records.state_key("outbox", backend.alias, "claim")
    rows = run(backend.catalog.database, lambda tr: list(tr.get_range(key, key + b"\xff")))
    return [bytes(row.value) for row in rows]


def outbox_variables(path: str) -> dict[str, str]:
    """Return what the environment of a process has more if its backend has this outbox."""
    return {
        "DJANGO_SETTINGS_MODULE": "tests.tasks.kept_settings",
        "FDBQUEUE_TEST_ORM": path,
        "FDBQUEUE_TEST_OPTIONS": json.dumps({"outbox": True}),
    }


def survive_kills(
    backend: Any, environment: dict[str, str], folder: Path, *, tasks: int, kills: int
) -> None:
    """Kill workers while they move rows and run tasks, and others are enqueued.

    Each task of a transaction that has committed ends, and runs once for each attempt that is known
    at most; none of one that was rolled back runs.
    """
    dice = random.Random(tasks)
    workers = Workers(environment, 3)
    kept = []
    try:
        for number in range(tasks):
            is_lost = number % _ROLLED_BACK == _ROLLED_BACK - 1
            with transaction.atomic():
                result = kept_jobs.write.enqueue(str(folder), str(number))
                transaction.set_rollback(is_lost)
            if not is_lost:
                kept.append(result)
            if number % (tasks // kills) == tasks // kills // 2:
                workers.kill_one(dice)
        wait_until(lambda: all_ended(backend, kept), _DEADLINE_SECONDS)
    finally:
        workers.stop()
    written = [file.read_text().split() for file in folder.glob("written-*")]
    runs = Counter(line for lines in written for line in lines)
    begun = {one.args[1]: begun_attempts(backend, one.id) for one in kept}
    assert runs.keys() == begun.keys()
    assert [number for number in runs if runs[number] > begun[number]] == []


def begun_attempts(backend: Any, result_id: str) -> int:
    """Return how many attempts at a task are known, one that its worker's death did not count too.

    That is of a task that was leased ahead, and had hardly begun.
    """
    record = backend.found(result_id).record
    return int(backend.get_result(result_id).attempts + record.get("spared", 0))


def all_ended(backend: Any, results: list[Any]) -> bool:
    """Tell whether all tasks have ended."""
    return all(backend.get_result(one.id).is_finished for one in results)
