"""The reads of a transaction: of one version, with its own writes over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fdbqueue.engines.embedded import special_keys
from fdbqueue.engines.embedded.errors import FDBError, anew
from fdbqueue.engines.embedded.futures import Future, Value
from fdbqueue.engines.embedded.limits import READ_KEY_SIZE_LIMIT
from fdbqueue.engines.embedded.ranges import after
from fdbqueue.engines.embedded.selectors import KeySelector, is_within
from fdbqueue.engines.embedded.snapshots import Snapshot
from fdbqueue.engines.embedded.state import TransactionState
from fdbqueue.engines.embedded.storage import Store
from fdbqueue.engines.embedded.view import RangeRead, View, stored_rows
from fdbqueue.exceptions import EngineUnavailable

T = TypeVar("T")


class Reads:
    """Read for a transaction, and add the read conflicts to its draft.

    The first read that the transaction's own writes do not answer opens the snapshot. Where
    ``is_snapshot`` is true, a read adds no conflict.

    Args:
        state: The transaction's state.
        store: Where to read.
    """

    __slots__ = ("_state", "_store")

    def __init__(self, state: TransactionState, store: Store) -> None:
        self._state = state
        self._store = store

    def key(self, key: bytes, is_snapshot: bool) -> Value:
        """Read a key."""
        state = self._state
        with state.lock:
            try:
                state.check_usable()
                if key >= state.options.keys_end:
                    raise FDBError(2004)
            except FDBError as error:
                return Value(None, error)
            try:
                if len(key) > READ_KEY_SIZE_LIMIT:
                    return Value()
                if state.draft.mutations:
                    bypass_unreadable = state.options.bypass_unreadable
                    value = self._view(is_snapshot).get(key, bypass_unreadable=bypass_unreadable)
                else:
                    value = self._stored().get(key)
                if not is_snapshot:
                    state.draft.add_read_conflict(key, key + b"\x00")
                return Value(value)  # type: ignore[arg-type]  # it holds the bytes
            except (FDBError, EngineUnavailable) as error:
                state.read_failure = anew(error)
                return Value(None, error)

    def selected_key(self, selector: KeySelector, is_snapshot: bool) -> Value:
        """Find the key that a selector stands for."""
        refusal = 0 if is_within(selector, self._state.options.keys_end) else 2004
        return self._read(Value, refusal, self._selected_key, selector, is_snapshot)

    def _selected_key(self, selector: KeySelector, is_snapshot: bool) -> bytes:
        found = self._view(is_snapshot).get_key(selector)
        if not is_snapshot and selector.offset > 0:
            self._state.draft.add_read_conflict(selector.key, after(found))
        elif not is_snapshot:
            self._state.draft.add_read_conflict(found, selector.key)
        return found

    def rows(
        self,
        begin: KeySelector,
        end: KeySelector,
        limit: int,
        wanted: int,
        reverse: bool,
        is_snapshot: bool,
    ) -> Future[RangeRead]:
        """Read one part of a range.

        Args:
            begin: The first key.
            end: The key after the last one.
            limit: The most rows; 0 for no limit.
            wanted: End the part at the row that reaches this many bytes; 0 for no limit.
            reverse: Read from the end.
            is_snapshot: Whether to add no read conflict.
        """
        keys_end = self._state.options.keys_end
        refusal = 0 if limit >= 0 else 2012
        if max(begin.key, end.key) > keys_end and not (
            is_within(begin, keys_end) and is_within(end, keys_end)
        ):
            if special_keys.covers(begin, end):
                return self._special_rows(begin.key, end.key, limit, reverse)
            refusal = 2004
        return self._read(
            Future, refusal, self._rows, begin, end, limit, wanted, reverse, is_snapshot
        )

    def _rows(
        self,
        begin: KeySelector,
        end: KeySelector,
        limit: int,
        wanted: int,
        reverse: bool,
        is_snapshot: bool,
    ) -> RangeRead:
        draft = self._state.draft
        if not draft.mutations and begin.offset == end.offset == 1:  # as nearly all
            low, high = begin.key, end.key
            if low >= high:
                return RangeRead([], False, None)
            rows, more = stored_rows(self._stored(), low, high, limit, wanted, reverse)
            if is_snapshot:
                return RangeRead(rows, more, None)
            if more and reverse:
                low = rows[-1][0]
            elif more:
                high = rows[-1][0] + b"\x00"
            part = RangeRead(rows, more, (low, high))
        else:
            part = self._view(is_snapshot).get_range(begin, end, limit, wanted, reverse=reverse)
        if part.conflict is not None and not is_snapshot:
            draft.add_read_conflict(*part.conflict)
        return part

    def _special_rows(
        self, begin: bytes, end: bytes, limit: int, reverse: bool
    ) -> Future[RangeRead]:
        """Read special keys, also of a transaction that was cancelled or committed."""
        state = self._state
        with state.lock:
            if state.deferred is not None:
                return Future(error=state.deferred)
            return Future(special_keys.read(state.draft, begin, end, limit, reverse=reverse))

    def version(self) -> Future[int]:
        """Return the version that the reads see, getting it where there is none yet."""
        state = self._state
        with state.lock:
            try:
                if state.deferred is not None:
                    raise anew(state.deferred)
                state.check_failure()
                if state.draft.read_version is None:
                    self._open()
                return Future(state.draft.read_version)
            except (FDBError, EngineUnavailable) as error:
                return Future(error=error)

    def range_size(self, begin: bytes, end: bytes) -> Future[int]:
        """Return the bytes of a range as it is now."""
        return self._measure(begin, end, True, lambda stored: stored.size(begin, end))

    def split_points(self, begin: bytes, end: bytes, chunk_bytes: int) -> Future[list[bytes]]:
        """Return the keys that cut a range, as it is now, into chunks."""
        legal = max(begin, end) <= self._state.options.keys_end
        return self._measure(
            begin, end, legal, lambda stored: stored.split_points(begin, end, chunk_bytes)
        )

    def _measure(
        self, begin: bytes, end: bytes, legal: bool, measure: Callable[[Snapshot], T]
    ) -> Future[T]:
        """Look at what is stored now, which is not a read of the transaction."""
        with self._state.lock:
            try:
                if begin > end:
                    raise FDBError(2005)
                self._state.check_usable()
                if not legal:
                    raise FDBError(2004)
                stored = self._store.snapshot()
                try:
                    return Future(measure(stored))
                finally:
                    stored.release()
            except (FDBError, EngineUnavailable) as error:
                return Future(error=error)

    def _read(
        self,
        future: Callable[..., Any],
        refusal: int,
        read: Callable[..., Any],
        *arguments: Any,
    ) -> Any:
        """Return the future of a read, with its result or its error.

        Args:
            future: The future's class.
            refusal: The error's code where the arguments are wrong, otherwise 0. Such an error
                does not fail the commit, unlike one of the read itself.
            read: Called with the arguments.
            arguments: What to read.
        """
        state = self._state
        with state.lock:
            try:
                state.check_usable()
                if refusal:
                    raise FDBError(refusal)
            except FDBError as error:
                return future(error=error)
            try:
                return future(read(*arguments))
            except (FDBError, EngineUnavailable) as error:
                state.read_failure = anew(error)
                return future(error=error)

    def _view(self, is_snapshot: bool) -> View:
        state = self._state
        options = state.options
        sees_writes = options.read_your_writes and (
            not is_snapshot or options.snapshot_read_your_writes > 0
        )
        return View(
            self._stored,
            state.draft.buffer() if sees_writes else None,
            options.keys_end,
            is_open=state.snapshot is not None,
        )

    def _stored(self) -> Snapshot:
        """Return what is stored, opening it where there is no snapshot yet."""
        state = self._state
        state.draft.has_read = True
        return state.snapshot or self._open()

    def _open(self) -> Snapshot:
        state = self._state
        version = state.draft.read_version
        snapshot = self._store.snapshot() if version is None else self._store.snapshot_at(version)
        state.snapshot = snapshot
        state.draft.read_version = snapshot.version
        return snapshot
