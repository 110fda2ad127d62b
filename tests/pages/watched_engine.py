"""An engine that wraps the one under test and notes every read and write."""

from __future__ import annotations

from typing import Any

from fdbqueue.engines import embedded

_READS = frozenset({"get", "get_range", "get_range_startswith", "get_key"})
_WRITES = frozenset(
    [
        "set",
        "clear",
        "clear_range",
        "clear_range_startswith",
        "add",
        "bit_and",
        "bit_or",
        "bit_xor",
        "max",
        "min",
        "byte_max",
        "byte_min",
        "append_if_fits",
        "compare_and_clear",
        "set_versionstamped_key",
        "set_versionstamped_value",
        "add_write_conflict_key",
        "add_write_conflict_range",
    ]
)

#: What was done since the lists were last emptied.
reads: list[str] = []
writes: list[str] = []
transactions: list[object] = []


class _Reads:
    """Passes everything on, and notes it."""

    def __init__(self, reads: Any) -> None:
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        if name in _READS:
            reads.append(name)
        if name in _WRITES:
            writes.append(name)
        return getattr(self._reads, name)

    def __getitem__(self, key: Any) -> Any:
        reads.append("get")
        return self._reads[key]


class _Transaction(_Reads):
    def __setitem__(self, key: bytes, value: bytes) -> None:
        writes.append("set")
        self._reads[key] = value

    def __delitem__(self, key: Any) -> None:
        writes.append("clear")
        del self._reads[key]

    @property
    def snapshot(self) -> _Reads:
        return _Reads(self._reads.snapshot)


class Database:
    """A database object around another."""

    def __init__(self, database: Any) -> None:
        self._database = database

    def create_transaction(self) -> Any:
        """Return a transaction that is watched."""
        transactions.append(_Transaction(self._database.create_transaction()))
        return transactions[-1]


def open(**options: Any) -> Database:
    """Open the embedded engine, or a cluster where a cluster file is given."""
    if "cluster_file" not in options:
        return Database(embedded.open(**options))
    from fdbqueue.engines import foundationdb

    return Database(foundationdb.open(**options))
