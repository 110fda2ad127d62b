"""A process that moves the rows of an outbox, and is killed at a step that it is told.

    python -m tests.tasks.dying_mover STEP

The steps are each statement of SQL that writes and each commit in FoundationDB, before it and
behind it.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from typing import Any

import django

STEPS = itertools.count()


def step(last: int) -> None:
    """End this process at its last step."""
    if next(STEPS) == last:
        os.kill(os.getpid(), signal.SIGKILL)


class Deadly:
    """A database that may kill the process around its commits.

    Args:
        database: The database.
        last: The last step.
    """

    def __init__(self, database: Any, last: int) -> None:
        self._database = database
        self._last = last

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def create_transaction(self) -> DeadlyTransaction:
        """Return a transaction whose commit is two steps."""
        return DeadlyTransaction(self._database.create_transaction(), self._last)


class DeadlyTransaction:
    """A transaction whose commit is two steps."""

    def __init__(self, transaction: Any, last: int) -> None:
        self._transaction = transaction
        self._last = last

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def __getitem__(self, key: Any) -> Any:
        return self._transaction[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._transaction[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._transaction[key]

    def commit(self) -> Any:
        """Commit, and wait for it."""
        step(self._last)
        future = self._transaction.commit()
        future.wait()
        step(self._last)
        return future


def main() -> None:
    """Move all rows, as long as it lives."""
    last = int(sys.argv[1])
    django.setup()
    from django.db import connections

    from fdbqueue.tasks.compat import task_backends
    from fdbqueue.tasks.outbox.mover import move_now

    def execute(go_on: Any, sql: str, *arguments: Any) -> Any:
        if sql.startswith("SELECT"):
            return go_on(sql, *arguments)
        step(last)
        try:
            return go_on(sql, *arguments)
        finally:
            step(last)

    backend: Any = task_backends["default"]
    with connections["default"].execute_wrapper(execute):
        catalog = backend.catalog
        move_now(backend.outbox(), catalog.over(Deadly(catalog.database, last)))


if __name__ == "__main__":
    main()
