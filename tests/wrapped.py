"""Databases around another, whose transactions do something more: the forwarding, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class WrappedTransaction:
    """A transaction around another. A subclass does what it is there for; all else is the other's.

    Args:
        transaction: The other.
    """

    def __init__(self, transaction: Any) -> None:
        self._transaction = transaction

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def __getitem__(self, key: Any) -> Any:
        return self._transaction[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._transaction[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._transaction[key]


class WrappedDatabase:
    """A database around another, whose transactions are wrapped.

    Args:
        database: The other.
        wrap: Returns what is around a transaction of it; None to leave that to a subclass.
    """

    def __init__(self, database: Any, wrap: Callable[[Any], Any] | None = None) -> None:
        self._database = database
        self._wrap = wrap or WrappedTransaction

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def create_transaction(self) -> Any:
        """Return a transaction of the other database, wrapped."""
        return self._wrap(self._database.create_transaction())


class Meanwhile(WrappedDatabase):
    """A database that lets something happen right before its n-th commit.

    Attributes:
        happens: What; called once.
        commits: How many commits come before; None for never.
    """

    def __init__(self, database: Any) -> None:
        super().__init__(database, self._interrupted)
        self.happens: Any = None
        self.commits: int | None = None

    def let(self, happens: Any, commits: int = 0) -> None:
        """Let it happen after some more commits."""
        self.happens, self.commits = happens, commits

    def pass_commit(self) -> None:
        """Count a commit that is about to be made."""
        if self.commits is None:
            return
        self.commits -= 1
        if self.commits < 0:
            self.commits = None
            self.happens()

    def _interrupted(self, transaction: Any) -> _Interrupted:
        return _Interrupted(self, transaction)


class _Interrupted(WrappedTransaction):
    def __init__(self, meanwhile: Meanwhile, transaction: Any) -> None:
        super().__init__(transaction)
        self._meanwhile = meanwhile

    def commit(self) -> Any:
        self._meanwhile.pass_commit()
        return self._transaction.commit()
