"""How a transaction carries out its reads: legal ones, of its snapshot, and depended on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from fdbqueue.engines.embedded import special_keys
from fdbqueue.engines.embedded.attempt import Attempt
from fdbqueue.engines.embedded.errors import FDBError, anew
from fdbqueue.engines.embedded.futures import Future, Value
from fdbqueue.engines.embedded.limits import KEY_SIZE_LIMIT
from fdbqueue.engines.embedded.options import OptionValues
from fdbqueue.engines.embedded.ranges import after
from fdbqueue.engines.embedded.selectors import KeySelector, is_within
from fdbqueue.engines.embedded.snapshots import Snapshot
from fdbqueue.engines.embedded.view import RangeRead, View
from fdbqueue.exceptions import EngineUnavailable

T = TypeVar("T")


class SnapshotSource(Protocol):
    """A database, as far as reading needs it."""

    def open_snapshot(self, version: int | None) -> Snapshot:
        """Open the newest version, or a given one."""


class Reading:
    """Read at one version, and note what the reads depend on.

    The snapshot is opened by the first read that needs one.
    """

    _database: SnapshotSource
    _lock: threading.RLock
    _attempt: Attempt
    _deferred: FDBError | None
    _read_failure: Exception | None
    _view_source: Snapshot | None = None
    option_values: OptionValues

    def _check_failure(self) -> None:
        raise NotImplementedError

    def _check_usable(self) -> None:
        raise NotImplementedError

    def read_key(self, key: bytes, snapshot: bool) -> Value:
        """Read a key, for :class:`Reads`."""

        def read(view: View) -> bytes | None:
            if len(key) > KEY_SIZE_LIMIT:
                return None
            value = view.get(key, bypass_unreadable=self.option_values.bypass_unreadable)
            if not snapshot:
                self._attempt.depend_on(key, after(key))
            return value

        return self._reading(Value, snapshot, key < self.option_values.keys_end, read)

    def read_selector(self, selector: KeySelector, snapshot: bool) -> Value:
        """Resolve a selector, for :class:`Reads`."""

        def read(view: View) -> bytes:
            found = view.get_key(selector)
            if not snapshot and selector.offset > 0:
                self._attempt.depend_on(selector.key, after(found))
            elif not snapshot:
                self._attempt.depend_on(found, selector.key)
            return found

        legal = is_within(selector, self.option_values.keys_end)
        return self._reading(Value, snapshot, legal, read)

    def read_range(
        self,
        begin: KeySelector,
        end: KeySelector,
        limit: int,
        wanted: int,
        reverse: bool,
        snapshot: bool,
    ) -> Future[RangeRead]:
        """Read one part of a range, for :class:`Reads`."""

        def read(view: View) -> RangeRead:
            part = view.get_range(begin, end, limit, wanted, reverse=reverse)
            if part.conflict is not None and not snapshot:
                self._attempt.depend_on(*part.conflict)
            return part

        keys_end = self.option_values.keys_end
        legal = is_within(begin, keys_end) and is_within(end, keys_end)
        if not legal and special_keys.covers(begin, end):
            return self._read_special(begin.key, end.key, limit, reverse)
        return self._reading(Future, snapshot, legal, read, is_valid=limit >= 0)

    def _read_special(
        self, begin: bytes, end: bytes, limit: int, reverse: bool
    ) -> Future[RangeRead]:
        """Read special keys, which a transaction that was cancelled or committed may too."""
        with self._lock:
            if self._deferred is not None:
                return Future(error=self._deferred)
            return Future(special_keys.read(self._attempt, begin, end, limit, reverse=reverse))

    def read_version(self) -> Future[int]:
        """Return the version all reads are of, getting it where there is none yet."""
        with self._lock:
            try:
                if self._deferred is not None:
                    raise anew(self._deferred)
                self._check_failure()
                if self._attempt.read_version is None:
                    self._open_snapshot()
                return Future(self._attempt.read_version)
            except (FDBError, EngineUnavailable) as error:
                return Future(error=error)

    def range_size(self, begin: bytes, end: bytes) -> Future[int]:
        """Return the bytes of a range as it is now, for :class:`Reads`."""
        return self._measure(begin, end, True, lambda stored: stored.size(begin, end))

    def split_points(self, begin: bytes, end: bytes, chunk_bytes: int) -> Future[list[bytes]]:
        """Return where a range, as it is now, is cut into chunks, for :class:`Reads`."""
        legal = max(begin, end) <= self.option_values.keys_end
        return self._measure(
            begin, end, legal, lambda stored: stored.split_points(begin, end, chunk_bytes)
        )

    def _measure(
        self, begin: bytes, end: bytes, legal: bool, measure: Callable[[Snapshot], T]
    ) -> Future[T]:
        """Look at what is stored now, which is not a read of the transaction."""
        with self._lock:
            try:
                if begin > end:
                    raise FDBError(2005)
                self._check_usable()
                if not legal:
                    raise FDBError(2004)
                stored = self._database.open_snapshot(None)
                try:
                    return Future(measure(stored))
                finally:
                    stored.release()
            except (FDBError, EngineUnavailable) as error:
                return Future(error=error)

    def _reading(
        self,
        future: Callable[..., Any],
        snapshot: bool,
        legal: bool,
        read: Callable[[View], Any],
        *,
        is_valid: bool = True,
    ) -> Any:
        with self._lock:
            try:
                self._check_usable()
                if not legal:
                    raise FDBError(2004)
                if not is_valid:
                    raise FDBError(2012)
            except FDBError as error:
                return future(error=error)
            try:
                return future(read(self._view(snapshot)))
            except (FDBError, EngineUnavailable) as error:
                self._read_failure = anew(error)
                return future(error=error)

    def _view(self, snapshot: bool) -> View:
        values = self.option_values
        own_writes = values.read_your_writes and (
            not snapshot or values.snapshot_read_your_writes > 0
        )
        return View(
            self._stored,
            self._attempt.writes if own_writes else None,
            values.keys_end,
            is_open=self._view_source is not None,
        )

    def _stored(self) -> Snapshot:
        """Return what is stored, opening it where there is no snapshot yet."""
        self._attempt.has_read = True
        source = self._view_source
        if source is None:
            return self._open_snapshot()
        if source.expired:
            raise FDBError(1007)
        return source

    def _open_snapshot(self) -> Snapshot:
        source = self._database.open_snapshot(self._attempt.read_version)
        self._view_source = source
        self._attempt.read_version = source.version
        return source
