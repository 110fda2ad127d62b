"""Run the operations of one queue, except those that take items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.service import instrumentation
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.transactions import run
from fdbqueue.service.writes import SharedWrites, Write, write_in

T = TypeVar("T")


class Runner:
    """Run operations in the caller's transaction, or in transactions of their own.

    Pops and leases do not come here: without ``tr`` they go through the
    :class:`~fdbqueue.service.consume.process_group.ProcessGroup`.

    Args:
        database: Anything with ``create_transaction()``.
        store: The queue's items.
        writes: The writes of this process to the queue, which share transactions.
    """

    def __init__(self, database: Database, store: ItemStore, writes: SharedWrites) -> None:
        self.database = database
        self.queue = store.queue
        self._store = store
        self._combiner = writes.combiner

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
        """Call a function that writes, and report the verb to observers where ``tr`` is None.

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

    def share(self, verb: str, tr: Transaction | None, write: Write) -> Any:
        """Commit a write, in a transaction that other threads may share where ``tr`` is None."""
        if tr is not None:
            return write_in(tr, self._store, write)
        if not instrumentation.is_observed():
            return self._combiner.submit(write, self.database)
        return instrumentation.observed(
            verb, self.queue, lambda: self._combiner.submit(write, self.database)
        )


def patient(database: Database) -> Any:
    """Return the database without a time limit: the one that a database wraps, or itself."""
    return getattr(database, "patient", database)
