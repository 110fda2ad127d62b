"""The methods of a transaction, each in a transaction of its own, on any engine's database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def run(database: Any, work: Callable[[Any], Any]) -> Any:
    """Return what a function returns, once its transaction is committed; as the binding does it."""
    transaction = database.create_transaction()
    while True:
        try:
            found = work(transaction)
            transaction.commit().wait()
        except Exception as error:
            if not isinstance(getattr(error, "code", None), int):  # it is no engine's
                raise
            transaction.on_error(error).wait()
        else:
            return found


class alone:  # noqa: N801  # it reads as what is done: alone(database)[key] = value
    """What a database is read and written by, a call in each transaction.

    Args:
        database: An engine's database.
    """

    def __init__(self, database: Any) -> None:
        self._database = database

    def get(self, key: Any) -> bytes | None:
        """Read one key; None if it is absent."""

        def read(tr: Any) -> bytes | None:
            value = tr[key]
            return bytes(value) if value.present() else None

        return run(self._database, read)

    def get_range(self, begin: Any, end: Any, *args: Any, **options: Any) -> list[Any]:
        """Read the rows of a range."""
        return run(self._database, lambda tr: list(tr.get_range(begin, end, *args, **options)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self.get_range(key.start, key.stop, reverse=key.step == -1)
        return self.get(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        run(self._database, lambda tr: tr.set(key, value))

    def __delitem__(self, key: Any) -> None:
        run(self._database, lambda tr: tr.__delitem__(key))

    def __getattr__(self, name: str) -> Any:
        """Return a method of a transaction that only writes."""

        def write(*args: Any) -> None:
            run(self._database, lambda tr: getattr(tr, name)(*args))

        return write
