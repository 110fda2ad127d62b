"""How a transaction carries out its reads: legal ones, of its snapshot, and depended on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fdbqueue.engines.embedded import special_keys
from fdbqueue.engines.embedded.attempt import Attempt
from fdbqueue.engines.embedded.errors import FDBError, anew
from fdbqueue.engines.embedded.futures import Future, Value
from fdbqueue.engines.embedded.limits import KEY_SIZE_LIMIT
from fdbqueue.engines.embedded.options import OptionValues
from fdbqueue.engines.embedded.ranges import after
from fdbqueue.engines.embedded.selectors import KeySelector
from fdbqueue.engines.embedded.snapshots import Snapshot
from fdbqueue.engines.embedded.view import RangeRead, View
from fdbqueue.exceptions import EngineUnavailable

if TYPE_CHECKING:
    from fdbqueue.engines.embedded.database import Database


class Reading:
    """Read at one version, and note what the reads depend on.

    The snapshot is opened by the first read that needs one.
    """

    _database: Database
    _lock: threading.RLock
    _attempt: Attempt
    _deferred: FDBError | None
    _read_failure: Exception | None
    _requested_version: int | None
    _view_source: Snapshot | None = None
    option_values: OptionValues

    def _check_failure(self) -> None:
        raise NotImplementedError

    def _check_usable(self) -> None:
        raise NotImplementedError

    def read_key(self, key: bytes, snapshot: bool) -> Value:
        """Read a key, for :class:`Reads`."""

        def read(view: View) -> bytes | None:
            value = view.get(key) if len(key) <= KEY_SIZE_LIMIT else None
            if not snapshot:
                self._attempt.depend_on(key, after(key))
            return value

        return self._reading(Value, snapshot, key < self.option_values.keys_end, read)

    def read_selector(self, selector: KeySelector, snapshot: bool) -> Value:
        """Resolve a selector, for :class:`Reads`."""

        def read(view: View) -> bytes:
            found = view.get_key(selector).key
            if not snapshot and selector.offset > 0:
                self._attempt.depend_on(selector.key, after(found))
            elif not snapshot:
                self._attempt.depend_on(found, selector.key)
            return found

        return self._reading(Value, snapshot, selector.key <= self.option_values.keys_end, read)

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
        legal = begin.key <= keys_end and end.key <= keys_end
        if not legal and special_keys.covers(begin, end):
            return self._read_special(begin.key, end.key, limit, reverse)
        return self._reading(Future, snapshot, legal, read)

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
                return Future(self._source().version)
            except (FDBError, EngineUnavailable) as error:
                return Future(error=error)

    def _reading(
        self, future: Callable[..., Any], snapshot: bool, legal: bool, read: Callable[[View], Any]
    ) -> Any:
        with self._lock:
            try:
                self._check_usable()
                if not legal:
                    raise FDBError(2004)
            except FDBError as error:
                return future(error=error)
            try:
                return future(read(self._view(snapshot)))
            except (FDBError, EngineUnavailable) as error:
                self._read_failure = anew(error)
                return future(error=error)

    def _view(self, snapshot: bool) -> View:
        self._attempt.has_read = True
        values = self.option_values
        own_writes = values.read_your_writes and (
            not snapshot or values.snapshot_read_your_writes > 0
        )
        return View(self._source(), self._attempt.writes if own_writes else None, values.keys_end)

    def _source(self) -> Snapshot:
        if self._view_source is None:
            if self._attempt.read_version is not None:
                raise FDBError(1007)
            self._view_source = self._database.open_snapshot(self._requested_version)
            self._attempt.read_version = self._view_source.version
        elif self._view_source.expired:
            raise FDBError(1007)
        return self._view_source
