"""A database whose commits fail on demand, and that can be made unavailable.

It wraps any database object and raises the engine's own errors; otherwise its transactions behave
like those of the database. The module is also an engine, so a setting can name it as ``ENGINE``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import EngineUnavailable

#: The client does not know whether the commit took effect, but can find out.
UNKNOWN_RESULT = 1021
#: The transaction timed out while it was committing, and its outcome cannot be found out.
TIMED_OUT = 1031

_NOT_RETRYABLE = 2000
_WRITES = frozenset(
    [
        "add",
        "append_if_fits",
        "bit_and",
        "bit_or",
        "bit_xor",
        "byte_max",
        "byte_min",
        "clear",
        "clear_range",
        "clear_range_startswith",
        "compare_and_clear",
        "max",
        "min",
        "set",
        "set_versionstamped_key",
        "set_versionstamped_value",
    ]
)


def open(database: Any) -> FaultyDatabase:
    """Return a database that can fail, around another: the entry point of an engine."""
    return FaultyDatabase(database)


@dataclass
class _Fault:
    code: int
    took_effect: bool
    times: float


class FaultyDatabase:
    """A database object that wraps another and fails on demand.

    Its transactions wrap those of the database: the binding's own decorator,
    ``fdb.transactional``, does not accept them.

    Args:
        database: Anything with ``create_transaction()``.

    Attributes:
        is_available: False makes ``create_transaction()`` raise ``EngineUnavailable``.
        happened: How many commits have failed.
    """

    def __init__(self, database: Database) -> None:
        self.is_available = True
        self.happened = 0
        self._database = database
        self._fault: _Fault | None = None
        self._mutex = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @property
    def wrapped(self) -> Any:
        """The wrapped database."""
        return self._database

    def fail_commits(
        self, *, took_effect: bool, code: int = UNKNOWN_RESULT, times: float = 1
    ) -> None:
        """Make the next commits that write something fail, whichever thread makes them.

        Args:
            took_effect: Whether they take effect before they fail.
            code: The FoundationDB error code they fail with.
            times: How many; ``math.inf`` for all.
        """
        self._fault = _Fault(code, took_effect, times)

    def create_transaction(self) -> Any:
        """Return a new transaction.

        Raises:
            EngineUnavailable: The database was made unavailable.
        """
        if not self.is_available:
            raise EngineUnavailable(reason="a test made it unavailable")
        return _Transaction(self, self._database.create_transaction())

    def error(self, code: int) -> Exception:
        """Return the engine's own error for a code."""
        transaction = self._database.create_transaction()
        try:  # each engine has its own class: let it raise one
            transaction.on_error(_NOT_RETRYABLE).wait()
        except Exception as error:  # noqa: BLE001  # of a class that is not known here
            made: Exception = type(error)(code)
            return made
        raise AssertionError("the engine retries an error that it must not retry")

    def take_fault(self) -> _Fault | None:
        """Return the fault of the next commit, None for success, and count it."""
        with self._mutex:
            fault = self._fault
            if fault is None or fault.times < 1:
                return None
            fault.times -= 1
            self.happened += 1
            return fault

    def return_fault(self, fault: _Fault) -> None:
        """Keep the fault for another commit, because this one failed with an error of its own."""
        with self._mutex:
            fault.times += 1
            self.happened -= 1


class _Transaction:
    """A transaction whose commit may fail; everything else is the wrapped one's."""

    def __init__(self, faulty: FaultyDatabase, transaction: Transaction) -> None:
        self._faulty = faulty
        self._transaction = transaction
        self._has_written = False

    def __getattr__(self, name: str) -> Any:
        if name in _WRITES:
            self._has_written = True
        return getattr(self._transaction, name)

    def __getitem__(self, key: Any) -> Any:
        return self._transaction[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._has_written = True
        self._transaction[key] = value

    def __delitem__(self, key: Any) -> None:
        self._has_written = True
        del self._transaction[key]

    def reset(self) -> None:
        """Reset the transaction."""
        self._has_written = False
        self._transaction.reset()

    def on_error(self, error: Any) -> Any:
        """Prepare the next attempt, as the engine does."""
        self._has_written = False
        return self._transaction.on_error(error)

    def commit(self) -> Any:
        """Commit, or fail when the future is waited for."""
        fault = self._faulty.take_fault() if self._has_written else None
        if fault is None:
            return self._transaction.commit()
        return _Commit(self._faulty, self._transaction, fault)


class _Commit:
    """The future of a commit that fails."""

    def __init__(self, faulty: FaultyDatabase, transaction: Transaction, fault: _Fault) -> None:
        self._faulty = faulty
        self._transaction = transaction  # held until its future is read
        self._fault = fault
        self._future = transaction.commit() if fault.took_effect else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._future, name)

    def wait(self) -> None:
        """Raise the fault, or the commit's own error; then the next commit gets the fault."""
        if self._future is not None:
            try:
                self._future.wait()
            except BaseException:
                self._faulty.return_fault(self._fault)
                raise
        raise self._faulty.error(self._fault.code)
