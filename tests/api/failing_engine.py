"""An engine, as a third party may write one, that fails as its options say."""

from __future__ import annotations

from typing import Any, NoReturn

from fdbqueue.engines.embedded import FDBError


class _Transaction:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error

    def __getitem__(self, key: Any) -> Any:
        raise self._error

    def on_error(self, code: int) -> NoReturn:
        raise self._error if getattr(self._error, "code", None) == code else FDBError(code)

    def cancel(self) -> None:
        pass


class _Database:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def create_transaction(self) -> _Transaction:
        return _Transaction(self._error)


def open(code: int | None = None, error: Exception | None = None) -> _Database:
    """Return a database whose transactions raise FoundationDB's error of that code."""
    return _Database(error if error is not None else FDBError(code or 0))
