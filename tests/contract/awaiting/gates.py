"""A database whose commits stop at a gate, so that a test can act meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any

from tests.wrapped import WrappedTransaction

DEADLINE_SECONDS = 60


async def cancellation_of(operation: Awaitable[object]) -> asyncio.CancelledError:
    """Await an operation, and return the error by which it is cancelled.

    Who awaits its task gets another error in Python 3.10, without ``outcome_known``.
    """
    try:
        await operation
    except asyncio.CancelledError as error:
        return error
    raise AssertionError("it was not cancelled")


class Gated:
    """A database object around another, whose commits stop at its gate when that is shut.

    Args:
        database: Anything with ``create_transaction()``.
        after: Whether they stop after they have taken effect, and not before.

    Attributes:
        reached: Set when a commit has come to the gate.
        commits: How many commits there were.
    """

    def __init__(self, database: Any, *, after: bool) -> None:
        self.reached = threading.Event()
        self.after = after
        self.commits = 0
        self._database = database
        self._open = threading.Event()
        self._open.set()

    def shut(self) -> None:
        """Let commits stop from now on."""
        self.reached.clear()
        self._open.clear()

    def open(self) -> None:
        """Let them go on, those that have stopped too."""
        self._open.set()

    def pass_through(self) -> None:
        """Return when the gate is open."""
        if not self._open.is_set():
            self.reached.set()
            assert self._open.wait(DEADLINE_SECONDS), "nobody opened the gate"

    def create_transaction(self) -> Any:
        """Return a transaction whose commit may stop."""
        return _Transaction(self, self._database.create_transaction())


class _Transaction(WrappedTransaction):
    def __init__(self, gate: Gated, transaction: Any) -> None:
        super().__init__(transaction)
        self._gate = gate

    def commit(self) -> Any:
        return _Commit(self._gate, self._transaction)


class _Commit:
    def __init__(self, gate: Gated, transaction: Any) -> None:
        self._gate = gate
        self._transaction = transaction

    def wait(self) -> None:
        self._gate.commits += 1
        if not self._gate.after:
            self._gate.pass_through()
        self._transaction.commit().wait()
        if self._gate.after:
            self._gate.pass_through()
