"""An engine whose cluster never responds, and that notes the timeouts it is given."""

from __future__ import annotations

from tests.pages import silent_engine

#: The timeouts of the transactions that were used.
timeouts_ms: list[int] = []


class _Options(silent_engine.Options):
    def set_timeout(self, milliseconds: int) -> None:
        super().set_timeout(milliseconds)
        timeouts_ms.append(milliseconds)


class _Database:
    def create_transaction(self) -> silent_engine.Transaction:
        transaction = silent_engine.Transaction()
        transaction.options = _Options()
        return transaction


def open() -> _Database:
    """Return the database."""
    return _Database()
