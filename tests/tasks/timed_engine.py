"""The engine under test, whose transactions note whether each was given a time limit."""

from __future__ import annotations

from typing import Any

from fdbqueue.engines import embedded
from tests.wrapped import WrappedDatabase, WrappedTransaction

#: The transactions that were created since the list was last emptied.
transactions: list[Transaction] = []


class Transaction(WrappedTransaction):
    """A transaction around another.

    Attributes:
        options: Those of the other; what is asked of them is noted.
    """

    def __init__(self, transaction: Any) -> None:
        super().__init__(transaction)
        self.options = _Options(transaction.options)
        transactions.append(self)

    @property
    def is_limited(self) -> bool:
        """Whether it ends by itself."""
        return "set_timeout" in self.options.asked


class _Options:
    def __init__(self, options: Any) -> None:
        self._options = options
        self.asked: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.asked.add(name)
        return getattr(self._options, name)


def open(**options: Any) -> WrappedDatabase:
    """Open the embedded engine, or a cluster if a cluster file is given."""
    if "cluster_file" not in options:
        return WrappedDatabase(embedded.open(**options), Transaction)
    from fdbqueue.engines import foundationdb

    return WrappedDatabase(foundationdb.open(**options), Transaction)
