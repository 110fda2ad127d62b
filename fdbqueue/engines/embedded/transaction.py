"""Transactions of the embedded engine: the methods and meanings of ``fdb.Transaction``."""

from __future__ import annotations

import threading
import time
from typing import Any, Protocol

from fdbqueue.engines.embedded.attempt import Attempt
from fdbqueue.engines.embedded.backoff import Backoff
from fdbqueue.engines.embedded.commits import CommitRequest, Committer
from fdbqueue.engines.embedded.errors import FDBError, anew
from fdbqueue.engines.embedded.futures import Delay, Future, Versionstamp, WorkFuture
from fdbqueue.engines.embedded.limits import KEY_SIZE_LIMIT
from fdbqueue.engines.embedded.mutators import Writes
from fdbqueue.engines.embedded.options import (
    DatabaseDefaults,
    OptionValues,
    TransactionOptions,
)
from fdbqueue.engines.embedded.reading import Reading, SnapshotSource
from fdbqueue.engines.embedded.reads import Reads, SnapshotReads
from fdbqueue.engines.embedded.selectors import as_key
from fdbqueue.engines.embedded.watches import Watch, WatchRegistry
from fdbqueue.exceptions import EngineUnavailable


class Home(SnapshotSource, Protocol):
    """The database of a transaction, as far as that needs it."""

    defaults: DatabaseDefaults
    watches: WatchRegistry
    committer: Committer


class Transaction(Reads, Reading, Writes):
    """One transaction: reads at one version, buffers writes, commits them all or none.

    Serializable reads conflict at commit (1020) with what others wrote since; reads
    through :attr:`snapshot` do not. An error of a write is raised by the next read or by
    the commit, as with the binding. Threads may share a transaction.
    """

    _snapshot = False
    _database: Home

    def __init__(self, database: Home) -> None:
        self._database = database
        self._lock = threading.RLock()
        self.option_values: OptionValues = database.defaults.start()
        self._created_at = time.monotonic()
        self._backoff = Backoff()
        self._committed_version = -1
        self._start()

    def _start(self) -> None:
        self._attempt = Attempt(self.option_values)
        self._deferred: FDBError | None = None  # of a write
        self._read_failure: Exception | None = None
        self._failure: FDBError | None = None  # ends every use until a reset
        self._commit: CommitRequest | None = None
        self._commit_started = False
        self._watches: list[Watch] = []
        self._stamps: list[Versionstamp] = []

    def __del__(self) -> None:
        if self._view_source is not None:
            self._view_source.release()

    @property
    def snapshot(self) -> SnapshotReads:
        """The same reads, adding no read conflicts."""
        return SnapshotReads(self)

    @property
    def options(self) -> TransactionOptions:
        """The transaction's options, as ``set_...`` methods."""
        return TransactionOptions(self)

    def _reader(self) -> Transaction:
        return self

    # Committing

    def commit(self) -> Future[None]:
        """Commit; the returned future tells how it went.

        The commit runs when the future is first used, or together with another commit of
        the process. It is durable when :meth:`Future.wait` returns. 1020 means that it had
        no effect because of a conflict, 1021 that the disk failed at the last moment and
        it is not known whether it had.
        """
        with self._lock:
            try:
                self._check_usable()
            except FDBError as error:
                return Future(error=error)
            self._commit_started = True
            try:
                request = self._commit_request()
            except (FDBError, EngineUnavailable) as error:
                if self._read_failure is None:  # which a commit does not get past
                    self._end_stamps(error=FDBError(2020))
                return Future(error=error)
            if request is None:
                self._committed_version = -1
                self._end_stamps(error=FDBError(2021))
                self._activate_watches()
                return Future()
            self._commit = request
            self._database.committer.submit(request)
            future = WorkFuture(lambda: self._run_commit(request))
            for stamp in self._stamps:
                stamp.attach(future)
            return future

    def _commit_request(self) -> CommitRequest | None:
        """Return what to commit, None when nothing was written."""
        if self._read_failure is not None:
            raise anew(self._read_failure)
        attempt = self._attempt
        mutations = attempt.writes.mutations()
        size = attempt.size(mutations)
        if size > self.option_values.persistent.size_limit:
            raise FDBError(2101)
        source, self._view_source = self._view_source, None
        if source is not None:
            expired = source.expired
            source.release()
            if expired and attempt.read_conflicts and attempt.has_written:
                raise FDBError(1007)
        if not attempt.has_written:
            return None
        return CommitRequest(
            read_version=attempt.read_version,
            read_ranges=attempt.read_conflicts,
            write_ranges=attempt.write_conflicts,
            mutations=mutations,
            size=size,
            deadline=self._deadline(),
        )

    def _run_commit(self, request: CommitRequest) -> None:
        self._database.committer.wait(request)
        with self._lock:
            if request.error is not None:
                self.note_timeout()
                self._end_stamps(error=FDBError(2020))
                raise anew(request.error)
            self._committed_version = request.version
            self._attempt.read_version = request.read_version
            self._attempt.versionstamped_keys = []  # now known, and in the conflict ranges
            self._end_stamps(stamp=request.stamp)
            self._activate_watches()

    def on_error(self, error: Any) -> Delay | Future[None]:
        """Prepare to run again after an error, or raise it where that would not help.

        The returned future is ready after a growing, random pause. It resets the
        transaction, keeping the options that persist.
        """
        code = error.code if isinstance(error, FDBError) else error
        if not isinstance(code, int):
            raise error
        with self._lock:
            try:
                self._check_failure()
                return self._retry(code)
            except FDBError as failure:
                self._fail(FDBError(1025))
                return Future(error=failure)

    def _retry(self, code: int) -> Delay:
        persistent = self.option_values.persistent
        pause = self._backoff.pause(
            code, persistent.retry_limit, persistent.max_retry_delay_ms / 1000
        )
        self._drop_attempt()
        self.option_values = self._database.defaults.start()
        self.option_values.persistent = persistent
        self._start()
        return Delay(pause)

    def reset(self) -> None:
        """Start anew, as if just created."""
        with self._lock:
            self._drop_attempt()
            self.option_values = self._database.defaults.start()
            self._created_at = time.monotonic()
            self._backoff = Backoff()
            self._start()

    def cancel(self) -> None:
        """Fail everything under way and to come with 1025, until a reset."""
        with self._lock:
            self._fail(FDBError(1025))

    def set_read_version(self, version: int) -> None:
        """Read at a version got from another transaction.

        This engine keeps a past version only while a transaction of the process is
        reading at it; otherwise reads fail with 1007, as at any version too old.
        """
        with self._lock:
            if self._deferred is None:
                if self._attempt.read_version is not None:
                    self._deferred = FDBError(2010)
                elif version <= 0:
                    self._deferred = FDBError(2011)
                else:
                    self._attempt.read_version = version

    def get_committed_version(self) -> int:
        """Return the version of the last commit, also after a reset.

        It is -1 before the first commit, and after one that wrote nothing.
        """
        return self._committed_version

    def get_versionstamp(self) -> Versionstamp:
        """Return the future of the commit's stamp; ask before committing.

        It ends with 2021 where nothing was written, with 2020 where the commit failed, and
        with 1100 where the transaction is reset before.
        """
        with self._lock:
            stamp = Versionstamp()
            try:
                self._check_usable()
            except FDBError as error:
                stamp.end(error=error)
            else:
                self._stamps.append(stamp)
            return stamp

    def get_approximate_size(self) -> Future[int]:
        """Return about how many bytes the commit would send."""
        with self._lock:
            if self._deferred is not None:
                return Future(error=self._deferred)
            return Future(self._attempt.approximate_size)

    def watch(self, key: Any) -> Watch | Future[None]:
        """Return a future that is ready once the key's value has changed.

        The watch is set by the commit. Creating it reads the key. It may miss a change
        that is undone at once; cancel it when it is no longer wanted.
        """
        key = as_key(key)
        with self._lock:
            try:
                self._check_usable()
                if not self.option_values.read_your_writes:
                    raise FDBError(1034)
                if key < self.option_values.keys_end and len(key) > KEY_SIZE_LIMIT:
                    raise FDBError(2102)
                watch = self._database.watches.create(key, self.read_key(key, False).value)
            except (FDBError, EngineUnavailable) as error:
                return Future(error=error)
            self._watches.append(watch)
            return watch

    def disable_read_your_writes(self) -> None:
        """Set the option, for :class:`TransactionOptions`."""
        with self._lock:
            if self._deferred is None:
                try:
                    self._attempt.disable_read_your_writes()
                except FDBError as error:
                    self._deferred = error

    # The state of the attempt

    def _deadline(self) -> float | None:
        timeout_ms = self.option_values.persistent.timeout_ms
        return self._created_at + timeout_ms / 1000 if timeout_ms else None

    def note_timeout(self) -> None:
        """Fail the transaction if its time is over, also for :class:`TransactionOptions`."""
        with self._lock:
            deadline = self._deadline()
            if deadline is not None and time.monotonic() > deadline:
                self._fail(FDBError(1031))

    def _check_failure(self) -> None:
        if self.option_values.persistent.timeout_ms:
            self.note_timeout()
        if self._failure is not None:
            raise anew(self._failure)

    def _check_not_committing(self) -> None:
        if self._commit_started:
            if self.option_values.used_during_commit_protection:
                self._fail(FDBError(2017))
            raise FDBError(2017)

    def _check_usable(self) -> None:
        if self._deferred is not None:
            raise anew(self._deferred)
        self._check_not_committing()
        self._check_failure()

    def _fail(self, error: FDBError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        if self._commit is not None:
            self._database.committer.withdraw(self._commit, error)
        self._end_attempt(error)

    def _drop_attempt(self) -> None:
        if self._commit is not None:
            self._database.committer.withdraw(self._commit, FDBError(1025))
        self._end_stamps(error=FDBError(1100))
        self._end_attempt(FDBError(1025))

    def _end_attempt(self, error: FDBError) -> None:
        source, self._view_source = self._view_source, None
        if source is not None:
            source.release()
        self._end_stamps(error=error)
        watches, self._watches = self._watches, []
        for watch in watches:
            watch.complete(error)

    def _end_stamps(self, *, stamp: bytes | None = None, error: Exception | None = None) -> None:
        stamps, self._stamps = self._stamps, []
        for future in stamps:
            future.end(stamp, error)

    def _activate_watches(self) -> None:
        watches, self._watches = self._watches, []
        version = max(self._committed_version, self._attempt.read_version or 0)
        for watch in watches:
            try:
                self._database.watches.activate(watch, version)
            except Exception as error:  # noqa: BLE001  # the commit stays; the watch fails
                watch.complete(error)
