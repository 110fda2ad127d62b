"""An engine whose cluster never responds: each use of a transaction times out."""

from __future__ import annotations

from typing import Any

from fdbqueue.engines.embedded import FDBError

TIMED_OUT = 1031


class Options:
    """The options of a transaction, of which the timeout is kept."""

    timeout_ms: int | None = None

    def set_timeout(self, milliseconds: int) -> None:
        """Keep the timeout."""
        self.timeout_ms = milliseconds


class Transaction:
    """A transaction that waits for a cluster as long as it may."""

    def __init__(self) -> None:
        self.options = Options()
        self.snapshot = self

    def get_range(self, *_: Any, **__: Any) -> Any:
        """Give up, if there is a timeout; a real one would otherwise hang."""
        assert self.options.timeout_ms, "this read would wait for ever"
        raise FDBError(TIMED_OUT)

    __getitem__ = get_range

    def on_error(self, code: int) -> Any:
        """Refuse to run again, as the client does after 1031."""
        raise FDBError(TIMED_OUT)

    def cancel(self) -> None:
        """Do nothing."""


class Database:
    """The database of a cluster that is away."""

    def create_transaction(self) -> Transaction:
        """Return a new transaction."""
        return Transaction()


def open() -> Database:
    """Return the database."""
    return Database()
