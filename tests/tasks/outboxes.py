"""An outbox in a database file, for tests and the processes that they start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management import call_command
from django.db import connections, transaction

from fdbqueue.service import run
from tests.tasks import jobs


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
