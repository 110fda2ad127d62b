"""A process that moves the rows of an outbox, and is killed at a step that it is told.

    python -m tests.tasks.dying_mover STEP

The steps are each statement of SQL that writes and each commit in FoundationDB, before it and
behind it.
"""

from __future__ import annotations

import functools
import itertools
import os
import signal
import sys
from typing import Any

import django

from tests.wrapped import WrappedDatabase, WrappedTransaction

STEPS = itertools.count()


def step(last: int) -> None:
    """End this process at its last step."""
    if next(STEPS) == last:
        os.kill(os.getpid(), signal.SIGKILL)


class DeadlyTransaction(WrappedTransaction):
    """A transaction whose commit is two steps, at the last of which the process is killed."""

    def __init__(self, last: int, transaction: Any) -> None:
        super().__init__(transaction)
        self._last = last

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

    deadly = functools.partial(DeadlyTransaction, last)
    backend: Any = task_backends["default"]
    with connections["default"].execute_wrapper(execute):
        catalog = backend.catalog
        move_now(backend.outbox(), catalog.over(WrappedDatabase(catalog.database, deadly)))


if __name__ == "__main__":
    main()
