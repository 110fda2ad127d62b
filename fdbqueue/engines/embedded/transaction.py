"""Transactions of the embedded engine: the methods and meanings of ``fdb.Transaction``.

Reads see one version, which the first opens, with the transaction's own writes over it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from fdbqueue.engines.embedded.commits import Committer
from fdbqueue.engines.embedded.fdb_errors import FDBError, copy_of
from fdbqueue.engines.embedded.fdb_limits import KEY_SIZE_LIMIT, KEYS_END, READ_KEY_SIZE_LIMIT
from fdbqueue.engines.embedded.futures import Delay, Future, Value, Versionstamp
from fdbqueue.engines.embedded.keys import (
    Place,
    after,
    as_key,
    as_selector,
    as_value,
    first_after_prefix,
    is_within,
    selector_of,
)
from fdbqueue.engines.embedded.options import TransactionOptions
from fdbqueue.engines.embedded.range_reads import (
    Part,
    RangeResult,
    StreamingMode,
    is_special,
    special_rows,
)
from fdbqueue.engines.embedded.snapshots import FORWARD, GET, REVERSE, Row
from fdbqueue.engines.embedded.sqlite_file import Store
from fdbqueue.engines.embedded.transaction_state import OptionValues, TransactionState
from fdbqueue.engines.embedded.view import ROWS_AT_ONCE
from fdbqueue.engines.embedded.watches import Watch, WatchRegistry
from fdbqueue.exceptions import EngineUnavailable

T = TypeVar("T")


class SnapshotTransaction:
    """The reads of a transaction: ``transaction.snapshot``, which adds no read conflicts.

    Args:
        state: The transaction's state.
    """

    _is_snapshot = True

    def __init__(self, state: TransactionState) -> None:
        self._state = state

    def get(self, key: Any) -> Value:
        """Read one key; the result equals None if it is absent."""
        if type(key) is not bytes:
            key = as_key(key)
        state = self._state
        with state.lock:
            try:
                if not state.is_free:
                    state.check_usable()
                if key >= state.options.keys_end:
                    raise FDBError(2004)
            except FDBError as error:
                return Value(None, error)
            try:
                if len(key) > READ_KEY_SIZE_LIMIT:
                    return Value()
                value: bytes | None
                if state.mutations:
                    value = state.view(self._is_snapshot).get(key)
                else:
                    state.has_read = True
                    rows = (state.snapshot or state.open()).query(GET, (key,))
                    value = rows[0][0] if rows else None
                if not self._is_snapshot:
                    state.add_read_conflict(key, key + b"\x00")
                found = Value(value)  # type: ignore[arg-type]  # it holds the bytes
                if state.read_version.known is not state.read_version.number:
                    found.asked_at = state.read_version
                return found
            except (FDBError, EngineUnavailable) as error:
                state.read_failure = copy_of(error)
                return Value(None, error)

    def get_key(self, key_selector: Any) -> Value:
        r"""Find a selector's key: empty before the first key, ``\xff`` after the last."""
        selector = as_selector(key_selector, b"")
        state = self._state
        with state.lock:
            try:
                state.check_usable()
                if not is_within(selector, state.options.keys_end):
                    raise FDBError(2004)
            except FDBError as error:
                return Value(None, error)
            try:
                key = state.view(self._is_snapshot).get_key(selector)
                if not self._is_snapshot and selector.offset > 0:
                    state.add_read_conflict(selector.key, after(key))
                elif not self._is_snapshot:
                    state.add_read_conflict(key, selector.key)
                found = Value(key)  # type: ignore[arg-type]  # it holds the bytes
                if state.read_version.known is not state.read_version.number:
                    found.asked_at = state.read_version
                return found
            except (FDBError, EngineUnavailable) as error:
                state.read_failure = copy_of(error)
                return Value(None, error)

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
            self._read_part,
            begin if type(begin) is bytes else as_selector(begin, b""),
            end if type(end) is bytes else as_selector(end, KEYS_END),
            limit,
            reverse,
            streaming_mode,
        )

    def get_range_startswith(self, prefix: Any, *args: Any, **kwargs: Any) -> RangeResult:
        """Read the rows whose keys start with ``prefix``, otherwise as :meth:`get_range`."""
        prefix = as_key(prefix)
        return self.get_range(prefix, first_after_prefix(prefix), *args, **kwargs)

    def get_read_version(self) -> Future[int]:
        """Return the version that all reads of the transaction see."""
        state = self._state
        with state.lock:
            try:
                if state.deferred is not None:
                    raise copy_of(state.deferred)
                state.check_failure()
                if state.read_version.number is None:
                    state.open()
                version = Future(state.read_version.number)
                version.asked_at = state.read_version
                return version
            except (FDBError, EngineUnavailable) as error:
                return Future(error=error)

    @overload
    def __getitem__(self, key: slice) -> RangeResult: ...

    @overload
    def __getitem__(self, key: Any) -> Value: ...

    def __getitem__(self, key: Any) -> Any:
        if type(key) is not bytes and isinstance(key, slice):
            return self.get_range(key.start, key.stop, reverse=(key.step == -1))
        return self.get(key)

    def _read_part(
        self,
        begin: Place,
        end: Place,
        limit: int,
        wanted: int,
        reverse: bool,
    ) -> Future[Part]:
        """Read one part of a range.

        Args:
            begin: The first key.
            end: The key after the last one.
            limit: The most rows; 0 for no limit.
            wanted: End the part at the row that reaches this many bytes; 0 for no limit.
            reverse: Read from the end.
        """
        state = self._state
        keys_end = state.options.keys_end
        refusal = 0 if limit >= 0 else 2012
        if type(begin) is not bytes or type(end) is not bytes or max(begin, end) > keys_end:
            begin, end = selector_of(begin), selector_of(end)
            if not (is_within(begin, keys_end) and is_within(end, keys_end)):
                if is_special(begin, end):
                    return special_rows(state, begin.key, end.key, limit, reverse)
                refusal = 2004
            if begin.offset == end.offset == 1:
                begin, end = begin.key, end.key
        with state.lock:
            try:
                if not state.is_free:
                    state.check_usable()
                if refusal:
                    raise FDBError(refusal)
            except FDBError as error:
                return Future(error=error)
            try:
                part = Future(self._rows(begin, end, limit, wanted, reverse))
                if state.read_version.known is not state.read_version.number:
                    part.asked_at = state.read_version
                return part
            except (FDBError, EngineUnavailable) as error:
                state.read_failure = copy_of(error)
                return Future(error=error)

    def _rows(
        self,
        begin: Place,
        end: Place,
        limit: int,
        wanted: int,
        reverse: bool,
    ) -> Part:
        state = self._state
        if state.mutations or type(begin) is not bytes or type(end) is not bytes or begin >= end:
            return self._seen_rows(begin, end, limit, wanted, reverse)
        state.has_read = True
        snapshot = state.snapshot or state.open()
        sql = REVERSE if reverse else FORWARD
        at_once = limit if 0 < limit < ROWS_AT_ONCE else ROWS_AT_ONCE
        low, high = begin, end
        taken: list[Row] = []
        size, more, at_end = 0, False, False
        while not (more or at_end):
            rows = snapshot.query(sql, (low, high, at_once))
            at_end = len(rows) < at_once
            for row in rows:
                taken.append(row)
                size += len(row[0]) + len(row[1])
                if len(taken) == limit or 0 < wanted <= size:
                    more = True
                    break
            if rows and reverse:
                high = rows[-1][0]
            elif rows:
                low = rows[-1][0] + b"\x00"
        if not self._is_snapshot:
            if more and reverse:
                begin = taken[-1][0]
            elif more:
                end = taken[-1][0] + b"\x00"
            state.add_read_conflict(begin, end)
        return taken, more

    def _seen_rows(
        self,
        begin: Place,
        end: Place,
        limit: int,
        wanted: int,
        reverse: bool,
    ) -> Part:
        """Read by a view: between selectors, after a write, or nothing at all."""
        state = self._state
        rows, more, conflict = state.view(self._is_snapshot).get_range(
            selector_of(begin), selector_of(end), limit, wanted, reverse=reverse
        )
        if conflict is not None and not self._is_snapshot:
            state.add_read_conflict(*conflict)
        return rows, more


def _mutation(name: str, description: str) -> Callable[[Transaction, Any, Any], None]:
    """Return the method that makes the mutation of a name."""

    def mutate(self: Transaction, key: Any, param: Any) -> None:
        if type(key) is not bytes:
            key = as_key(key)
        if type(param) is not bytes:
            param = as_value(param)
        self._state.write(name, key, param)

    mutate.__name__, mutate.__doc__ = name, description
    return mutate


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
        self,
        database: object,
        store: Store,
        committer: Committer,
        watches: WatchRegistry,
        defaults: OptionValues,
    ) -> None:
        self._state = TransactionState(database, store, committer, watches, defaults)
        self.snapshot = SnapshotTransaction(self._state)

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
        self._state.write("set", key, value)

    def clear(self, key: Any) -> None:
        """Clear a key, or the key that a selector stands for."""
        if type(key) is not bytes:
            key = self._key_of(key)
        self._state.write("clear", key, b"")

    def clear_range(self, begin: Any, end: Any) -> None:
        """Clear the keys of ``[begin, end)``, keys or selectors; None stands for either end."""
        if type(begin) is not bytes:
            begin = b"" if begin is None else self._key_of(begin)
        if type(end) is not bytes:
            end = KEYS_END if end is None else self._key_of(end)
        self._state.write("clear_range", begin, end)

    def clear_range_startswith(self, prefix: Any) -> None:
        """Clear the keys that start with ``prefix``."""
        prefix = as_key(prefix)
        self._state.write("clear_range", prefix, first_after_prefix(prefix))

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

    # Atomic operations, by the names that they have in every language

    add = _mutation("add", "Add a little-endian integer to the value when the commit is applied.")
    bit_and = _mutation("bit_and", "Keep the value's bits that are set in ``param``.")
    bit_or = _mutation("bit_or", "Set the value's bits that are set in ``param``.")
    bit_xor = _mutation("bit_xor", "Flip the value's bits that are set in ``param``.")
    max = _mutation("max", "Keep the larger little-endian integer.")
    min = _mutation("min", "Keep the smaller little-endian integer.")
    byte_max = _mutation("byte_max", "Keep the string that sorts last.")
    byte_min = _mutation("byte_min", "Keep the string that sorts first.")
    append_if_fits = _mutation(
        "append_if_fits", "Append to the value, unless it would grow over the limit."
    )
    compare_and_clear = _mutation(
        "compare_and_clear", "Clear the key if it holds ``param`` when the commit is applied."
    )

    def set_versionstamped_key(self, key: Any, param: Any) -> None:
        """Set a key that contains the commit's stamp, at the offset in its last four bytes."""
        self._state.set_versionstamped_key(as_key(key), as_value(param))

    set_versionstamped_value = _mutation(
        "set_versionstamped_value",
        "Set a value that contains the commit's stamp, at the offset in its last four bytes.",
    )
    # Conflict ranges

    def add_read_conflict_range(self, begin: Any, end: Any) -> None:
        """Conflict as if ``[begin, end)`` had been read.

        Raises:
            FDBError: 2005 when the range is inverted.
        """
        if type(begin) is not bytes:
            begin = as_key(begin)
        if type(end) is not bytes:
            end = as_key(end)
        self._state.add_conflict(begin, end, is_read=True)

    def add_read_conflict_key(self, key: Any) -> None:
        """Conflict as if the key had been read."""
        if type(key) is not bytes:
            key = as_key(key)
        self._state.add_conflict(key, key + b"\x00", is_read=True)

    def add_write_conflict_range(self, begin: Any, end: Any) -> None:
        """Make others conflict as if ``[begin, end)`` had been written.

        Raises:
            FDBError: 2005 when the range is inverted.
        """
        self._state.add_conflict(as_key(begin), as_key(end), is_read=False)

    def add_write_conflict_key(self, key: Any) -> None:
        """Make others conflict as if the key had been written."""
        key = as_key(key)
        self._state.add_conflict(key, after(key), is_read=False)

    # Commit

    def commit(self) -> Future[None]:
        """Commit; the returned future tells how it went.

        The commit runs when the future is first used, or together with another commit of
        the process. It is durable when :meth:`Future.wait` returns. 1020 means that it had
        no effect because of a conflict; 1021 that the disk failed at the last moment, and it
        is not known whether the commit took effect.
        """
        return self._state.commit()

    def reserve(self) -> bool:
        """Reserve the file before the first read, as an attempt after a conflict does.

        Tell whether other processes reserve it, too; see the module ``reservations``.
        """
        with self._state.lock:
            return self._state.reserve()

    def on_error(self, error: Any) -> Delay | Future[None]:
        """Prepare to run again after an error, or raise it if that would not help.

        The returned future is ready after a growing, random pause. It resets the
        transaction, keeping the options that persist.
        """
        code = error.code if isinstance(error, FDBError) else error
        if not isinstance(code, int):
            raise error
        return self._state.retry(code)

    def reset(self) -> None:
        """Begin again, as if just created."""
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

        It ends with 2021 if nothing was written, with 2020 if the commit failed, and
        with 1100 if the transaction is reset before.
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
            return Future(self._state.approximate_size)

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
                read = self.get(key)
                read.asked_at = None  # its answer is not used: on a cluster it is under way
                watch = state.watch_registry.create(state.database, key, read.value)
            except (FDBError, EngineUnavailable) as error:
                return Future(error=error)
            state.watches.append(watch)
            return watch


# The binding has these as well, for getattr(): they are words of Python.
setattr(Transaction, "and", Transaction.bit_and)
setattr(Transaction, "or", Transaction.bit_or)
