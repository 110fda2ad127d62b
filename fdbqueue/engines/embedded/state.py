"""The state of a transaction: whether it can be used, its commit, and what ends with it.

A transaction makes one attempt after another: an attempt ends when ``on_error`` or ``reset``
begins the next one. What belongs to an attempt is replaced then; the object stays, and the
parts of the transaction share it and its lock.
"""

from __future__ import annotations

import functools
import time
from _thread import RLock
from collections.abc import Callable

from fdbqueue.engines.embedded.backoff import Backoff
from fdbqueue.engines.embedded.commit_draft import CommitDraft
from fdbqueue.engines.embedded.commits import Committer
from fdbqueue.engines.embedded.errors import FDBError, anew
from fdbqueue.engines.embedded.futures import Delay, Future, Versionstamp, WorkFuture
from fdbqueue.engines.embedded.groups import CommitRequest
from fdbqueue.engines.embedded.option_values import DatabaseDefaults
from fdbqueue.engines.embedded.snapshots import Snapshot
from fdbqueue.engines.embedded.watches import Watch, WatchRegistry
from fdbqueue.exceptions import EngineUnavailable


class TransactionState:
    """What a transaction has read and written, and whether it failed or is committing.

    The methods that say so need :attr:`lock`.

    Args:
        committer: Commits the transaction.
        watches: Keeps the watches of committed transactions.
        defaults: The options to start with.
    """

    __slots__ = (
        "_backoff",
        "_committer",
        "_created_at",
        "_defaults",
        "_failure",
        "_is_committing",
        "_request",
        "committed_version",
        "deferred",
        "draft",
        "lock",
        "options",
        "read_failure",
        "snapshot",
        "stamps",
        "watch_registry",
        "watches",
    )

    def __init__(
        self, committer: Committer, watches: WatchRegistry, defaults: DatabaseDefaults
    ) -> None:
        self.lock = RLock()
        self.watch_registry = watches
        self._committer = committer
        self._defaults = defaults
        self._created_at = time.monotonic()
        self._backoff: Backoff | None = None
        self.options = defaults.start()
        #: The version of the last commit; -1 where it wrote nothing.
        self.committed_version = -1
        self._begin_attempt()

    def _begin_attempt(self) -> None:
        self.draft = CommitDraft(self.options)
        #: The error of a write: raised by the next use; the writes after it have no effect.
        self.deferred: FDBError | None = None
        #: The error of a read, which the commit raises again.
        self.read_failure: Exception | None = None
        self._failure: FDBError | None = None  # raised by every use until a reset
        self._request: CommitRequest | None = None
        self._is_committing = False
        #: What reads see of the file, None before the first one.
        self.snapshot: Snapshot | None = None
        #: The watches to set after the commit.
        self.watches: list[Watch] = []
        #: The futures that wait for the commit's versionstamp.
        self.stamps: list[Versionstamp] = []

    def __del__(self) -> None:
        snapshot: Snapshot | None = getattr(self, "snapshot", None)  # an interrupt may come first
        if snapshot is not None:
            snapshot.release()
        request: CommitRequest | None = getattr(self, "_request", None)
        if request is not None and request.snapshot is not None:  # no thread waited for it
            request.release()

    # Use

    def check_usable(self) -> None:
        """Raise what keeps the transaction from being used."""
        if self.deferred is not None:
            raise anew(self.deferred)
        if self._is_committing:
            self._refuse_use_during_commit()
        if self._failure is not None or self.options.persistent.timeout_ms:
            self.check_failure()

    def check_failure(self) -> None:
        """Raise the error that the transaction failed with, or that its time is over."""
        if self.options.persistent.timeout_ms:
            self.note_timeout()
        if self._failure is not None:
            raise anew(self._failure)

    def _refuse_use_during_commit(self) -> None:
        if self.options.used_during_commit_protection:
            self.fail(FDBError(2017))
        raise FDBError(2017)

    def write(self, apply: Callable[..., None], *arguments: str | bytes) -> None:
        """Apply a write to the draft.

        Its error is kept for the next read or the commit.

        Args:
            apply: A method of :class:`CommitDraft` that writes.
            arguments: What follows its first argument.
        """
        with self.lock:
            if self.deferred is not None:
                return
            conflicts = True
            if self.options.skip_next_write_conflict:
                conflicts = self.options.skip_next_write_conflict = False
            try:
                if self._is_committing:
                    self._refuse_use_during_commit()
                apply(self.draft, conflicts, *arguments)
            except FDBError as error:
                self.deferred = error

    def add_conflict(
        self, add: Callable[[CommitDraft, bytes, bytes], None], begin: bytes, end: bytes
    ) -> None:
        """Add a conflict range to the draft; its error is kept as that of a write is.

        Args:
            add: A method of :class:`CommitDraft`.
            begin: The first key.
            end: The key after the last one.

        Raises:
            FDBError: 2005 when the range is inverted.
        """
        if begin > end:
            raise FDBError(2005)
        with self.lock:
            if self.deferred is not None:
                return
            try:
                if self._is_committing:
                    self._refuse_use_during_commit()
                if end > self.options.keys_end:
                    raise FDBError(2004)
                if begin < end:
                    add(self.draft, begin, end)
            except FDBError as error:
                self.deferred = error

    def disable_read_your_writes(self) -> None:
        """Let reads not see the transaction's own writes; an error is kept as that of a write."""
        with self.lock:
            if self.deferred is None:
                try:
                    self.draft.disable_read_your_writes()
                except FDBError as error:
                    self.deferred = error

    def set_read_version(self, version: int) -> None:
        """Read at a given version; an error is kept as that of a write."""
        with self.lock:
            if self.deferred is None:
                if self.draft.read_version is not None:
                    self.deferred = FDBError(2010)
                elif version <= 0:
                    self.deferred = FDBError(2011)
                else:
                    self.draft.read_version = version

    # Commit

    def commit(self) -> Future[None]:
        """Commit; see :meth:`Transaction.commit`."""
        with self.lock:
            try:
                self.check_usable()
            except FDBError as error:
                return Future(error=error)
            self._is_committing = True
            try:
                request = self._commit_request()
            except (FDBError, EngineUnavailable) as error:
                if self.read_failure is None:  # otherwise a commit does not get this far
                    self._end_stamps(error=FDBError(2020))
                return Future(error=error)
            if request is None:
                self.committed_version = -1
                if self.stamps:
                    self._end_stamps(error=FDBError(2021))
                if self.watches:
                    self._set_watches()
                return Future()
            self._request = request
            self._committer.submit(request)
            future = WorkFuture(functools.partial(self._finish_commit, request))
            for stamp in self.stamps:
                stamp.attach(future)
            return future

    def _commit_request(self) -> CommitRequest | None:
        """Return what to commit, None when nothing was written."""
        if self.read_failure is not None:
            raise anew(self.read_failure)
        draft = self.draft
        request = draft.request(self._deadline())
        snapshot, self.snapshot = self.snapshot, None
        if snapshot is not None:
            if request is None:
                snapshot.release()
            elif draft.read_conflicts and snapshot.expired:
                snapshot.release()
                raise FDBError(1007)
            else:
                request.snapshot = snapshot
        return request

    def _finish_commit(self, request: CommitRequest) -> None:
        self._committer.wait(request)
        with self.lock:
            if request.error is not None:
                self.note_timeout()
                self._end_stamps(error=FDBError(2020))
                raise anew(request.error)
            self.committed_version = request.version
            self.draft.read_version = request.read_version
            self.draft.versionstamped_keys = []  # now known, and in the conflict ranges
            if self.stamps:
                self._end_stamps(stamp=request.stamp)
            if self.watches:
                self._set_watches()

    def _set_watches(self) -> None:
        watches, self.watches = self.watches, []
        version = max(self.committed_version, self.draft.read_version or 0)
        for watch in watches:
            try:
                self.watch_registry.activate(watch, version)
            except Exception as error:  # noqa: BLE001  # the commit stays; the watch fails
                watch.complete(error)

    def _end_stamps(self, *, stamp: bytes | None = None, error: Exception | None = None) -> None:
        stamps, self.stamps = self.stamps, []
        for future in stamps:
            future.end(stamp, error)

    # The end of an attempt

    def retry(self, code: int) -> Delay | Future[None]:
        """Begin the next attempt after an error; see :meth:`Transaction.on_error`."""
        with self.lock:
            persistent = self.options.persistent
            try:
                self.check_failure()
                self._backoff = self._backoff or Backoff()
                pause = self._backoff.pause(
                    code, persistent.retry_limit, persistent.max_retry_delay_ms / 1000
                )
            except FDBError as failure:
                self.fail(FDBError(1025))
                return Future(error=failure)
            self._drop_attempt()
            self.options = self._defaults.start()
            self.options.persistent = persistent
            self._begin_attempt()
            return Delay(pause)

    def reset(self) -> None:
        """Begin as a new transaction does."""
        with self.lock:
            self._drop_attempt()
            self.options = self._defaults.start()
            self._created_at = time.monotonic()
            self._backoff = None
            self._begin_attempt()

    def fail(self, error: FDBError) -> None:
        """Raise an error from every use until a reset, unless it failed before."""
        with self.lock:
            if self._failure is not None:
                return
            self._failure = error
            if self._request is not None:
                self._committer.withdraw(self._request, error)
            self._end_attempt(error)

    def note_timeout(self) -> None:
        """Fail the transaction where its time is over."""
        with self.lock:
            deadline = self._deadline()
            if deadline is not None and time.monotonic() > deadline:
                self.fail(FDBError(1031))

    def _deadline(self) -> float | None:
        timeout_ms = self.options.persistent.timeout_ms
        return self._created_at + timeout_ms / 1000 if timeout_ms else None

    def _drop_attempt(self) -> None:
        if self._request is not None:
            self._committer.withdraw(self._request, FDBError(1025))
        self._end_stamps(error=FDBError(1100))
        self._end_attempt(FDBError(1025))

    def _end_attempt(self, error: FDBError) -> None:
        snapshot, self.snapshot = self.snapshot, None
        if snapshot is not None:
            snapshot.release()
        self._end_stamps(error=error)
        watches, self.watches = self.watches, []
        for watch in watches:
            watch.complete(error)
