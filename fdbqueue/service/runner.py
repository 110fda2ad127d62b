"""Run the operations of one queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.service import instrumentation
from fdbqueue.service.transactions import run

T = TypeVar("T")


class Runner:
    """Run each operation in its caller's transaction, or in a transaction of its own.

    Args:
        database: Anything with ``create_transaction()``.
        queue: The queue's name, for observers and errors.
    """

    def __init__(self, database: Database, queue: str) -> None:
        self.database = database
        self.queue = queue

    def read(self, tr: Transaction | None, function: Callable[[Transaction], T]) -> T:
        """Call a function that only reads."""
        if tr is not None:
            return function(tr)
        return run(self.database, function, read_only=True)

    def write(
        self,
        verb: str,
        tr: Transaction | None,
        function: Callable[[Transaction], T],
        *,
        wrote: Callable[[T], bool] = lambda _: True,
    ) -> T:
        """Call a function that writes; observers are told of the verb where nobody gave ``tr``.

        Args:
            verb: What is done.
            tr: The caller's transaction, or None.
            function: What to call.
            wrote: Tells from the result whether anything was written.
        """
        if tr is not None:
            return function(tr)
        return instrumentation.observed(
            verb, self.queue, lambda: run(self.database, function, wrote=wrote)
        )
