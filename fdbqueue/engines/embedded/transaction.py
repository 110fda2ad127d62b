"""Transactions of the embedded engine: the methods and meanings of ``fdb.Transaction``.

The methods check their arguments and call a part of the transaction: its reads
(:mod:`fdbqueue.engines.embedded.reads`), or its state
(:mod:`fdbqueue.engines.embedded.state`), which holds its writes, its conflict ranges and its
options, and commits it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from fdbqueue.engines.embedded.commit_draft import CommitDraft
from fdbqueue.engines.embedded.commits import Committer
from fdbqueue.engines.embedded.errors import FDBError
from fdbqueue.engines.embedded.futures import Delay, Future, Value, Versionstamp
from fdbqueue.engines.embedded.limits import KEY_SIZE_LIMIT, KEYS_END
from fdbqueue.engines.embedded.option_values import DatabaseDefaults
from fdbqueue.engines.embedded.options import TransactionOptions
from fdbqueue.engines.embedded.range_result import RangeResult, StreamingMode
from fdbqueue.engines.embedded.ranges import after
from fdbqueue.engines.embedded.reads import Reads
from fdbqueue.engines.embedded.selectors import (
    KeySelector,
    as_key,
    as_selector,
    as_value,
    first_after_prefix,
)
from fdbqueue.engines.embedded.state import TransactionState
from fdbqueue.engines.embedded.storage import Store
from fdbqueue.engines.embedded.watches import Watch, WatchRegistry
from fdbqueue.exceptions import EngineUnavailable

F = TypeVar("F", bound=Callable[[Any, Any, Any], None])


class SnapshotTransaction:
    """The reads of a transaction: ``transaction.snapshot``, which adds no read conflicts.

    Args:
        reads: Reads for the transaction.
    """

    _is_snapshot = True

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    def get(self, key: Any) -> Value:
        """Read one key; the result equals None where it is absent."""
        if type(key) is not bytes:
            key = as_key(key)
        return self._reads.key(key, self._is_snapshot)

    def get_key(self, key_selector: Any) -> Value:
        r"""Find a selector's key: empty before the first key, ``\xff`` after the last."""
        return self._reads.selected_key(as_selector(key_selector, b""), self._is_snapshot)

    def get_range(
        self,
        begin: Any,
        end: Any,
        limit: int = 0,
        reverse: bool = False,
        streaming_mode: int = StreamingMode.iterator,
    ) -> RangeResult:
        """Read the rows of ``[begin, end)``, keys or selectors; None stands for either end."""
        return RangeResult(
            self._reads,
            self._is_snapshot,
            KeySelector(begin, False, 1) if type(begin) is bytes else as_selector(begin, b""),
            KeySelector(end, False, 1) if type(end) is bytes else as_selector(end, KEYS_END),
            limit,
            reverse,
            streaming_mode,
        )

    def get_range_startswith(self, prefix: Any, *args: Any, **kwargs: Any) -> RangeResult:
        """Read the rows whose keys start with ``prefix``, otherwise as :meth:`get_range`."""
        prefix = as_key(prefix)
        return self.get_range(prefix, first_after_prefix(prefix), *args, **kwargs)

    def get_estimated_range_size_bytes(self, begin_key: Any, end_key: Any) -> Future[int]:
        """Return how many bytes the keys and values of a range have now.

        Here it is exact, and reads the whole range; a cluster estimates it.
        """
        if begin_key is None or end_key is None:
            raise Exception("Invalid begin key or end key")  # noqa: TRY002  # as the binding does
        return self._reads.range_size(as_key(begin_key), as_key(end_key))

    def get_range_split_points(
        self, begin_key: Any, end_key: Any, chunk_size: int
    ) -> Future[list[bytes]]:
        """Return keys that cut a range into parts of about ``chunk_size`` bytes, and both ends.

        Here the parts are exact, and the whole range is read; a cluster estimates them.
        """
        if begin_key is None or end_key is None or chunk_size <= 0:
            raise Exception(  # noqa: TRY002  # as the binding does
                "Invalid begin key, end key or chunk size"
            )
        return self._reads.split_points(as_key(begin_key), as_key(end_key), chunk_size)

    def get_read_version(self) -> Future[int]:
        """Return the version that all reads of the transaction see."""
        return self._reads.version()

    @overload
    def __getitem__(self, key: slice) -> RangeResult: ...

    @overload
    def __getitem__(self, key: Any) -> Value: ...

    def __getitem__(self, key: Any) -> Any:
        if type(key) is not bytes and isinstance(key, slice):
            return self.get_range(key.start, key.stop, reverse=(key.step == -1))
        return self.get(key)


def _atomic(method: F) -> F:
    """Decorate a method that stands for the atomic operation of its name."""
    name = method.__name__

    @functools.wraps(method)
    def mutate(self: Transaction, key: Any, param: Any) -> None:
        if type(key) is not bytes:
            key = as_key(key)
        if type(param) is not bytes:
            param = as_value(param)
        self._state.write(CommitDraft.write, name, key, param)

    return mutate  # type: ignore[return-value]  # of the same parameters


class Transaction(SnapshotTransaction):
    """One transaction: reads at one version, buffers writes, commits them all or none.

    Reads conflict at commit (1020) with what others wrote since, except those of
    ``snapshot``. An error of a write is raised by the next read or by the commit, as with the
    binding. Threads may share a transaction.

    Attributes:
        snapshot: The same reads, without read conflicts.
    """

    _is_snapshot = False

    def __init__(
        self, store: Store, committer: Committer, watches: WatchRegistry, defaults: DatabaseDefaults
    ) -> None:
        self._state = state = TransactionState(committer, watches, defaults)
        self._reads = reads = Reads(state, store)
        self.snapshot = SnapshotTransaction(reads)

    @property
    def options(self) -> TransactionOptions:
        """The transaction's options, as ``set_...`` methods."""
        return TransactionOptions(self._state)

    # Writes

    def set(self, key: Any, value: Any) -> None:
        """Set a key."""
        if type(key) is not bytes:
            key = as_key(key)
        if type(value) is not bytes:
            value = as_value(value)
        self._state.write(CommitDraft.write, "set", key, value)

    def clear(self, key: Any) -> None:
        """Clear a key, or the key that a selector stands for."""
        if type(key) is not bytes:
            key = self._key_of(key)
        self._state.write(CommitDraft.clear, key)

    def clear_range(self, begin: Any, end: Any) -> None:
        """Clear the keys of ``[begin, end)``, keys or selectors; None stands for either end."""
        begin = b"" if begin is None else begin
        end = KEYS_END if end is None else end
        self._state.write(CommitDraft.clear_range, self._key_of(begin), self._key_of(end))

    def clear_range_startswith(self, prefix: Any) -> None:
        """Clear the keys that start with ``prefix``."""
        prefix = as_key(prefix)
        self._state.write(CommitDraft.clear_range, prefix, first_after_prefix(prefix))

    __setitem__ = set  # noqa: A003  # the method above is meant

    def __delitem__(self, key: Any) -> None:
        if isinstance(key, slice):
            self.clear_range(key.start, key.stop)
        else:
            self.clear(key)

    def _key_of(self, key: Any) -> bytes:
        if type(key) is not bytes and hasattr(key, "or_equal"):
            key = self.get_key(key)
        return as_key(key)

    # Atomic operations: the binding has each of them a second time, with "bit_" before its name

    @_atomic
    def add(self, key: Any, param: Any) -> None:
        """Add a little-endian integer to the value when the commit is applied."""

    @_atomic
    def bit_and(self, key: Any, param: Any) -> None:
        """Keep the value's bits that are set in ``param``."""

    @_atomic
    def bit_or(self, key: Any, param: Any) -> None:
        """Set the value's bits that are set in ``param``."""

    @_atomic
    def bit_xor(self, key: Any, param: Any) -> None:
        """Flip the value's bits that are set in ``param``."""

    @_atomic
    def max(self, key: Any, param: Any) -> None:
        """Keep the larger little-endian integer."""

    @_atomic
    def min(self, key: Any, param: Any) -> None:
        """Keep the smaller little-endian integer."""

    @_atomic
    def byte_max(self, key: Any, param: Any) -> None:
        """Keep the string that sorts last."""

    @_atomic
    def byte_min(self, key: Any, param: Any) -> None:
        """Keep the string that sorts first."""

    @_atomic
    def append_if_fits(self, key: Any, param: Any) -> None:
        """Append to the value, unless it would grow over the limit."""

    @_atomic
    def compare_and_clear(self, key: Any, param: Any) -> None:
        """Clear the key if it holds ``param`` when the commit is applied."""

    def set_versionstamped_key(self, key: Any, param: Any) -> None:
        """Set a key that contains the commit's stamp, at the offset in its last four bytes."""
        self._state.write(CommitDraft.set_versionstamped_key, as_key(key), as_value(param))

    def set_versionstamped_value(self, key: Any, param: Any) -> None:
        """Set a value that contains the commit's stamp, at the offset in its last four bytes."""
        if type(key) is not bytes:
            key = as_key(key)
        if type(param) is not bytes:
            param = as_value(param)
        self._state.write(CommitDraft.set_versionstamped_value, key, param)

    xor = bit_xor
    bit_add = add
    bit_bit_and = bit_and
    bit_bit_or = bit_or
    bit_bit_xor = bit_xor
    bit_max = max  # noqa: A003  # the method above is meant
    bit_min = min  # noqa: A003  # the method above is meant
    bit_byte_max = byte_max
    bit_byte_min = byte_min
    bit_append_if_fits = append_if_fits
    bit_compare_and_clear = compare_and_clear
    bit_set_versionstamped_key = set_versionstamped_key
    bit_set_versionstamped_value = set_versionstamped_value

    # Conflict ranges

    def add_read_conflict_range(self, begin: Any, end: Any) -> None:
        """Conflict as if ``[begin, end)`` had been read.

        Raises:
            FDBError: 2005 when the range is inverted.
        """
        self._state.add_conflict(CommitDraft.add_read_conflict, as_key(begin), as_key(end))

    def add_read_conflict_key(self, key: Any) -> None:
        """Conflict as if the key had been read."""
        if type(key) is not bytes:
            key = as_key(key)
        self._state.add_conflict(CommitDraft.add_read_conflict, key, key + b"\x00")

    def add_write_conflict_range(self, begin: Any, end: Any) -> None:
        """Make others conflict as if ``[begin, end)`` had been written.

        Raises:
            FDBError: 2005 when the range is inverted.
        """
        self._state.add_conflict(CommitDraft.add_write_conflict, as_key(begin), as_key(end))

    def add_write_conflict_key(self, key: Any) -> None:
        """Make others conflict as if the key had been written."""
        key = as_key(key)
        self._state.add_conflict(CommitDraft.add_write_conflict, key, after(key))

    # Commit

    def commit(self) -> Future[None]:
        """Commit; the returned future tells how it went.

        The commit runs when the future is first used, or together with another commit of
        the process. It is durable when :meth:`Future.wait` returns. 1020 means that it had
        no effect because of a conflict; 1021 that the disk failed at the last moment, and it
        is not known whether the commit took effect.
        """
        return self._state.commit()

    def on_error(self, error: Any) -> Delay | Future[None]:
        """Prepare to run again after an error, or raise it where that would not help.

        The returned future is ready after a growing, random pause. It resets the
        transaction, keeping the options that persist.
        """
        code = error.code if isinstance(error, FDBError) else error
        if not isinstance(code, int):
            raise error
        return self._state.retry(code)

    def reset(self) -> None:
        """Start anew, as if just created."""
        self._state.reset()

    def cancel(self) -> None:
        """Fail all operations, those under way and those to come, with 1025 until a reset."""
        self._state.fail(FDBError(1025))

    def set_read_version(self, version: int) -> None:
        """Read at a version got from another transaction.

        This engine keeps a past version only while a transaction of the process is
        reading at it; otherwise reads fail with 1007, as at any version too old.
        """
        self._state.set_read_version(version)

    def get_committed_version(self) -> int:
        """Return the version of the last commit, also after a reset.

        It is -1 before the first commit, and after one that wrote nothing.
        """
        return self._state.committed_version

    def get_versionstamp(self) -> Versionstamp:
        """Return the future of the commit's stamp; ask before committing.

        It ends with 2021 where nothing was written, with 2020 where the commit failed, and
        with 1100 where the transaction is reset before.
        """
        with self._state.lock:
            stamp = Versionstamp()
            try:
                self._state.check_usable()
            except FDBError as error:
                stamp.end(error=error)
            else:
                self._state.stamps.append(stamp)
            return stamp

    def get_approximate_size(self) -> Future[int]:
        """Return about how many bytes the commit would send."""
        with self._state.lock:
            if self._state.deferred is not None:
                return Future(error=self._state.deferred)
            return Future(self._state.draft.approximate_size)

    def watch(self, key: Any) -> Watch | Future[None]:
        """Return a future that is ready once the key's value has changed.

        The watch is set by the commit. Creating it reads the key. It may miss a change
        that is undone at once; cancel it when it is not needed any more.
        """
        key = as_key(key)
        state = self._state
        with state.lock:
            try:
                state.check_usable()
                if not state.options.read_your_writes:
                    raise FDBError(1034)
                if key < state.options.keys_end and len(key) > KEY_SIZE_LIMIT:
                    raise FDBError(2102)
                watch = state.watch_registry.create(key, self._reads.key(key, False).value)
            except (FDBError, EngineUnavailable) as error:
                return Future(error=error)
            state.watches.append(watch)
            return watch


# The binding has these as well, for getattr(): they are words of Python.
setattr(Transaction, "and", Transaction.bit_and)
setattr(Transaction, "or", Transaction.bit_or)
