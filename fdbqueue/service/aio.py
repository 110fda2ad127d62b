"""Transactions of the caller's own, for event loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fdbqueue.service.threads import in_thread
from fdbqueue.service.transactions import run

T = TypeVar("T")


async def arun(database: Any, function: Callable[[Any], T]) -> T:
    """Run a function in a transaction of its own, as :func:`run` does, and await its result.

    The function is an ordinary one, and is called in another thread: what it does with
    queues is given its transaction, ``queue.push(value, tr=tr)``. A task cancelled meanwhile
    waits until it is known whether the transaction was committed.

    Args:
        database: Anything with ``create_transaction()``.
        function: Called with the transaction; again after a conflict.

    Returns:
        What the run that was committed returned.

    Raises:
        OutcomeUnknown: It is not known whether the commit took effect.
        FDBError: The engine's own, where trying again would not help.
    """
    return await in_thread(run, database, function)
