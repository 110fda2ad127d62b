"""The types of databases and transactions that all engines share.

They describe the part of FoundationDB's Python binding (API version 730) that the embedded
engine has too. Use them to annotate functions that take part in a transaction.

    from fdbqueue.engines import Transaction

    def move(tr: Transaction, source: bytes, target: bytes) -> None:
        tr[target] = bytes(tr[source])
        del tr[source]

They are structural: a class matches them by its methods, without inheriting from them. Each
engine has its own class ``FDBError``, with FoundationDB's code in ``code``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class SupportsKey(Protocol):
    """An object that stands for a key: a subspace, or a value that was read."""

    def as_foundationdb_key(self) -> bytes | None:
        """Return the key."""


class SupportsValue(Protocol):
    """An object that stands for a value: a value that was read."""

    def as_foundationdb_value(self) -> bytes | None:
        """Return the value."""


class KeySelector(Protocol):
    """A key named by its place relative to another; each engine has a class for it."""

    @property
    def key(self) -> Any:
        """The key that it is relative to."""

    @property
    def or_equal(self) -> Any:
        """Whether to start at the last key that is at or before ``key``, not strictly before it."""

    @property
    def offset(self) -> Any:
        """How many keys to move forward from there."""


Key = bytes | SupportsKey
Bytes = bytes | SupportsValue


class Future(Protocol[T_co]):
    """A result that may not be known yet."""

    def wait(self) -> T_co:
        """Wait for the result and return it, or raise the error."""

    def is_ready(self) -> bool:
        """Tell whether :meth:`wait` would return at once."""

    def block_until_ready(self) -> None:
        """Wait for the result; its error is not raised."""

    def on_ready(self, callback: Callable[[Any], Any]) -> None:
        """Call ``callback(future)`` once it is ready: now, or later in any thread."""

    def cancel(self) -> None:
        """Stop waiting: a future that is not ready ends with error 1101."""


class FutureBytes(Future["FutureBytes"], Protocol):
    """Bytes that may not be known yet: a key, or a versionstamp.

    Using them in any way waits for them, and raises the error. Convert with ``bytes()``.
    """

    @property
    def value(self) -> Any:
        """The bytes."""

    def as_foundationdb_key(self) -> bytes | None:
        """Return the bytes, as a key."""

    def as_foundationdb_value(self) -> bytes | None:
        """Return the bytes, as a value."""

    def __bytes__(self) -> bytes: ...

    def __len__(self) -> int: ...

    def __eq__(self, other: object) -> bool: ...


class Value(FutureBytes, Protocol):
    """The value of a key, which may be absent: it then equals None."""

    def present(self) -> bool:
        """Tell whether the key has a value."""


class KeyValue(Protocol):
    """One row of a range read; ``key, value = row`` works, too."""

    @property
    def key(self) -> bytes:
        """The key."""

    @property
    def value(self) -> bytes:
        """The value."""

    def __iter__(self) -> Iterator[Any]: ...


class RangeResult(Protocol):
    """The rows of a range read, in the requested order; read in parts while iterated."""

    def __iter__(self) -> Iterator[KeyValue]: ...

    def to_list(self) -> list[Any]:
        """Return all rows."""


class TransactionOptions(Protocol):
    """Options of one transaction; the binding and the embedded engine have more."""

    def set_timeout(self, milliseconds: int, /) -> None:
        """Fail with 1031 this long after creation, retries included; 0 for never.

        A commit that times out may still take effect.
        """

    def set_retry_limit(self, retries: int, /) -> None:
        """Let ``on_error`` fail after this many retries; -1 for no limit."""

    def set_max_retry_delay(self, milliseconds: int, /) -> None:
        """Set the longest pause of ``on_error``."""

    def set_size_limit(self, size: int, /) -> None:
        """Set the most bytes that the transaction may have."""

    def set_next_write_no_write_conflict_range(self) -> None:
        """Let the next write conflict with no other transaction's reads."""

    def set_read_your_writes_disable(self) -> None:
        """Let reads not see the transaction's own writes."""

    def set_snapshot_ryw_disable(self) -> None:
        """Let snapshot reads not see the transaction's own writes."""

    def set_snapshot_ryw_enable(self) -> None:
        """Let snapshot reads see the transaction's own writes, as they do by default."""

    def set_read_system_keys(self) -> None:
        r"""Allow reads of keys from ``\xff`` on."""

    def set_access_system_keys(self) -> None:
        r"""Allow reads and writes of keys from ``\xff`` on."""


class SnapshotTransaction(Protocol):
    """The reads of a transaction; reads of ``tr.snapshot`` add no read conflicts.

    All of them see the database at one version, with the transaction's own writes over it. A
    read begins at the call; its error is raised when its result is used.
    """

    def get(self, key: Key) -> Value:
        """Read one key."""

    def get_key(self, key_selector: KeySelector) -> FutureBytes:
        r"""Find a key: it is empty before the first one, ``\xff`` after the last one."""

    def get_range(
        self,
        begin: Key | KeySelector | None,
        end: Key | KeySelector | None,
        limit: int = 0,
        reverse: bool = False,
        streaming_mode: int = -1,
    ) -> RangeResult:
        """Read the rows of ``[begin, end)`` in key order; None stands for either end.

        Args:
            begin: The first key, or a selector of it.
            end: The key after the last one, or a selector of it.
            limit: The most rows; 0 for no limit.
            reverse: Read from the end, last key first.
            streaming_mode: How many rows to read at a time, a number of ``StreamingMode``.
        """

    def get_range_startswith(self, prefix: Key, *args: Any, **kwargs: Any) -> RangeResult:
        """Read the rows whose keys start with ``prefix``, otherwise as :meth:`get_range`."""

    def get_read_version(self) -> Future[int]:
        """Return the version that the reads see; about 1,000,000 versions are one second."""

    @overload
    def __getitem__(self, key: slice) -> RangeResult: ...

    @overload
    def __getitem__(self, key: Key) -> Value: ...


class Transaction(SnapshotTransaction, Protocol):
    """One transaction: its writes take effect together at the commit, or not at all.

    The commit fails with 1020 when another transaction has meanwhile written what this one read;
    writes alone never conflict. The writes take effect in the order of their calls. A transaction
    may take five seconds and 10,000,000 bytes; a key may have 10,000 bytes and a value 100,000.
    An error of a write is raised at once, by the next read, or by the commit.
    """

    @property
    def snapshot(self) -> SnapshotTransaction:
        """The same reads without read conflicts."""

    @property
    def options(self) -> TransactionOptions:
        """The options of this transaction."""

    def set(self, key: Key, value: Bytes) -> None:
        """Set a key."""

    def clear(self, key: Key) -> None:
        """Clear a key."""

    def clear_range(self, begin: Key | None, end: Key | None) -> None:
        """Clear the keys of ``[begin, end)``; None stands for either end."""

    def clear_range_startswith(self, prefix: Key) -> None:
        """Clear the keys that start with ``prefix``."""

    def __setitem__(self, key: Key, value: Bytes) -> None: ...

    def __delitem__(self, key: Key | slice) -> None: ...

    def add(self, key: Key, param: Bytes, /) -> None:
        """Add a little-endian integer to the value, at the commit."""

    def bit_and(self, key: Key, param: Bytes, /) -> None:
        """Keep the value's bits that are set in ``param``, at the commit."""

    def bit_or(self, key: Key, param: Bytes, /) -> None:
        """Set the value's bits that are set in ``param``, at the commit."""

    def bit_xor(self, key: Key, param: Bytes, /) -> None:
        """Flip the value's bits that are set in ``param``, at the commit."""

    def max(self, key: Key, param: Bytes, /) -> None:
        """Keep the larger little-endian integer, at the commit."""

    def min(self, key: Key, param: Bytes, /) -> None:
        """Keep the smaller little-endian integer, at the commit."""

    def byte_max(self, key: Key, param: Bytes, /) -> None:
        """Keep the string that sorts last, at the commit."""

    def byte_min(self, key: Key, param: Bytes, /) -> None:
        """Keep the string that sorts first, at the commit."""

    def append_if_fits(self, key: Key, param: Bytes, /) -> None:
        """Append to the value at the commit, unless it would become too large."""

    def compare_and_clear(self, key: Key, param: Bytes, /) -> None:
        """Clear the key if it holds ``param`` at the commit."""

    def set_versionstamped_key(self, key: Key, param: Bytes, /) -> None:
        """Set a key that contains the commit's versionstamp.

        The last four bytes of ``key`` are not part of it: they say, little-endian, at which
        offset the ten bytes of the stamp go.
        """

    def set_versionstamped_value(self, key: Key, param: Bytes, /) -> None:
        """Set a value that contains the commit's versionstamp, placed as in a key."""

    def add_read_conflict_range(self, begin: Key, end: Key) -> None:
        """Conflict as if ``[begin, end)`` had been read."""

    def add_read_conflict_key(self, key: Key) -> None:
        """Conflict as if the key had been read."""

    def add_write_conflict_range(self, begin: Key, end: Key) -> None:
        """Let transactions that read ``[begin, end)`` conflict as if it had been written."""

    def add_write_conflict_key(self, key: Key) -> None:
        """Let transactions that read the key conflict as if it had been written."""

    def watch(self, key: Key) -> Future[None]:
        """Return a future that is ready once the key's value has changed.

        It starts at the commit, and may miss a change that is undone at once. Cancel it when it
        is no longer needed, because a database has at most 10,000.
        """

    def commit(self) -> Future[None]:
        """Commit. The writes are durable once :meth:`Future.wait` returns.

        :meth:`Future.wait` raises an ``FDBError``: 1020 after a conflict, when nothing was
        written; 1021 when it is unknown whether the commit took effect; or another code.
        """

    def on_error(self, error: Any) -> Future[None]:
        """Reset the transaction to run it again after an error, and pause before that.

        Args:
            error: An engine's error, or its code. The future raises it when a retry would not
                help.
        """

    def reset(self) -> None:
        """Discard all reads, writes and options, and start again."""

    def cancel(self) -> None:
        """Make every operation of the transaction fail with 1025, until a reset."""

    def set_read_version(self, version: int) -> None:
        """Read at the read version of another transaction."""

    def get_committed_version(self) -> int:
        """Return the version of the commit; -1 when it wrote nothing."""

    def get_versionstamp(self) -> FutureBytes:
        """Return the versionstamp of the commit; call it before the commit."""

    def get_approximate_size(self) -> Future[int]:
        """Return about how many bytes the commit would send."""


class Database(Protocol):
    """A database, as an engine's ``open()`` returns it, or an object that wraps one.

    The databases of the binding and of the embedded engine have more methods.
    """

    def create_transaction(self) -> Transaction:
        """Return a new transaction.

        Raises:
            EngineUnavailable: The engine does not answer, or its file cannot be used.
        """
