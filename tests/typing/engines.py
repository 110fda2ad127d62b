"""The engines' objects as the types that they share; only type-checked, never run."""

# ruff: noqa: F841  # the names are there for their types

from __future__ import annotations

from fdb.subspace_impl import Subspace

from fdbqueue.deadlines import TimedDatabase
from fdbqueue.engines import Database, SnapshotTransaction, Transaction, embedded, foundationdb
from fdbqueue.engines.protocols import (
    Future,
    FutureBytes,
    KeySelector,
    KeyValue,
    RangeResult,
    TransactionOptions,
    Value,
)

file: embedded.Database = embedded.open("queues.sqlite3")
databases: list[Database] = [
    file,
    foundationdb.open("fdb.cluster"),
    TimedDatabase(file, lambda: 1.0),
    TimedDatabase(foundationdb.open(), lambda: 1.0),
]
tr: Transaction = file.create_transaction()
snapshot: SnapshotTransaction = tr.snapshot
snapshot = tr
of_the_file: embedded.Transaction = file.create_transaction()
snapshot = of_the_file.snapshot
options: TransactionOptions = of_the_file.options
watch: Future[None] = of_the_file.watch(b"k")
selector: KeySelector = embedded.KeySelector.last_less_than(b"k")
tr = databases[1].create_transaction()
wrong: list[Database] = [tr]  # type: ignore[list-item]  # a transaction is not a database


def use(tr: Transaction, subspace: Subspace) -> bytes:
    """Do with a transaction what the queues do."""
    value: Value = tr[b"k"]
    if not value.present() or value.wait() == b"":
        tr[b"k"] = b"v"
    of_subspace: Value = tr.snapshot.get(subspace)
    tr.set(value, of_subspace)
    rows: RangeResult = tr.snapshot[b"a":b"b"]
    rows = tr.get_range(embedded.KeySelector.last_less_than(b"k"), None, limit=1, reverse=True)
    row: KeyValue = rows.to_list()[0]
    keys: list[bytes] = [row.key for row in tr.get_range_startswith(b"k", limit=10)]
    found: FutureBytes = tr.get_key(embedded.KeySelector.first_greater_than(b"k"))
    version: int = tr.get_read_version().wait()
    size: int = tr.get_approximate_size().wait()
    tr.options.set_timeout(1_000)
    tr.compare_and_clear(b"k", b"v")
    tr.set_versionstamped_value(b"k", bytes(14))
    del tr[b"k"]
    del tr[b"a":b"b"]
    tr.watch(b"k").on_ready(lambda future: future.cancel())
    stamp: FutureBytes = tr.get_versionstamp()
    tr.commit().wait()
    tr.on_error(1020).wait()
    tr["k"]  # type: ignore[call-overload]  # text is not a key
    tr.set(b"k", 1)  # type: ignore[arg-type]  # nor a number a value
    return bytes(stamp.wait()) + bytes(value)
