"""The SQLite file: its connections, snapshots of it, and who writes to it (:mod:`turn`).

What a signal handler raises, which closes the file (:mod:`commits`), may come after a call, at the
start of a function, and at the end of a turn of a loop; not elsewhere (CPython, since 3.10).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable

from fdbqueue.engines.embedded import files, version_clock
from fdbqueue.engines.embedded.fdb_errors import FDBError
from fdbqueue.engines.embedded.fdb_limits import TRANSACTION_LIFE_SECONDS
from fdbqueue.engines.embedded.reservations import SYNCED, Reservation
from fdbqueue.engines.embedded.snapshots import BEGIN, Snapshot
from fdbqueue.engines.embedded.turn import WriterTurn
from fdbqueue.exceptions import EngineUnavailable
from fdbqueue.locks import IN_A_HANDLER, RLock
from fdbqueue.logs import get_logger
from fdbqueue.own_threads import OwnTimer
from fdbqueue.steady import monotonic

logger = get_logger(__name__)

#: Wait until the disk has a file's content; macOS has no other.
_sync = getattr(os, "fdatasync", os.fsync)
#: What a commit of some megabytes changes fits in: with SQLite's 2 MB it writes pages twice.
_WRITER_CACHE = "PRAGMA cache_size = -16000"
#: How long SQLite waits for its own lock: programs that know no turn may hold it. How long a commit
#: waits for other processes is its transaction's ``deadline``.
_SQLITE_LOCK_SECONDS = 30.0
_IDLE_CONNECTIONS = 64
_CHECKPOINT_PAGES = 4000
#: How long the log may be before SQLite starts it again, each page with its header, and by how
#: much it is made longer at a time.
_LOG_BYTES = (_CHECKPOINT_PAGES + 100) * 4120
_LOG_STEP_BYTES = 1_000_000
#: Readers that overlap without end keep SQLite from starting its log again; past this many
#: bytes a commit waits for them, which takes as long as the longest of them.
_LARGE_LOG_BYTES = 64_000_000
#: For how long a commit that makes the log small waits for snapshots, and others for it.
_WAIT_BRIEFLY = "PRAGMA busy_timeout = 100"
_WAIT_LONG = f"PRAGMA busy_timeout = {int(_SQLITE_LOCK_SECONDS * 1000)}"
_FUTURE_VERSION_SECONDS = 1.0
_FUTURE_VERSION_POLL_SECONDS = 0.01
_EXPIRY_SECONDS = TRANSACTION_LIFE_SECONDS + 0.1


class Store:
    """Open one SQLite file and hand out snapshots and the writer's turn.

    Nothing is opened before it is needed, and after :meth:`pause` everything is opened
    again when needed; a fork is safe between :meth:`pause` and :meth:`resume`.

    Args:
        path: Where the file is, or is to be created.
        syncs: Whether a commit is acknowledged only once the disk has it (:meth:`sync`).
    """

    def __init__(self, path: str, *, syncs: bool) -> None:
        self.path = path
        self.sync_directory = path + files.SYNC
        self.files = files.OpenFiles(path, {})
        self.marked_at: bytes | None = None
        self._syncs = syncs
        #: Whether a sync has failed: a later one would not say that the log still lacks something.
        self._is_log_doubted = False
        self._lock = RLock()
        # Held by a pause, and while the file or a snapshot is opened: threads that do so one by one
        # also contend less for the interpreter (8 pushed 2.2 times as fast as one, 1.6 without).
        self._opening = RLock()
        #: Whether the thread that has the lock opens the file, or keeps it closed.
        self._is_changing = False
        self._ready = False
        #: No object refers to its database any more: only its watching thread may still read, by
        #: a connection that is closed afterwards.
        self.is_retired = False
        self._idle: list[sqlite3.Connection] = []
        #: The snapshots that hold a connection, the oldest first.
        self._snapshots: dict[Snapshot, None] = {}
        self._expiry: OwnTimer | None = None
        self._writer: sqlite3.Connection | None = None
        #: The write-ahead log, which the writer has open, too.
        self._log: int | None = None
        self.turn = WriterTurn(self.sync_directory)
        #: The mark by which others see that this process uses the file, then the log.
        self._descriptors = files.Descriptors()

    # Snapshots

    def snapshot(self) -> Snapshot:
        """Open a snapshot at the newest version.

        Raises:
            EngineUnavailable: The file cannot be opened, or is not where it was.
            FDBError: 1510 when the disk failed, and it is not known what of the log it has.
        """
        if self._snapshots:
            self._expire_old()
        with self._opening:
            if self._is_changing:
                raise EngineUnavailable(path=self.path, reason=IN_A_HANDLER)
            if not self._ready and not self.is_retired:
                self._prepare()
            if version_clock.seconds() >= self.files.check_at:
                self._check()
            connection = self._idle.pop() if self._idle else self.connect()
            snapshot = Snapshot(self.give_back)
            if self._expiry is None:
                self._await_expiry()
            self._snapshots[snapshot] = None
            try:
                snapshot.connection = connection
                snapshot.cursor = cursor = connection.execute(BEGIN)
                snapshot.version = cursor.fetchone()[0]
            except BaseException as error:
                snapshot.connection = None
                connection.close()
                self._snapshots.pop(snapshot, None)
                if isinstance(error, sqlite3.Error):
                    raise FDBError(1510) from error
                raise
            return snapshot

    def snapshot_at(self, version: int) -> Snapshot:
        """Open a snapshot at a version, or share one; wait a moment for one still to come.

        Raises:
            FDBError: 1007 when the version is past and no snapshot of this process holds
                it, 1009 when it is still to come.
            EngineUnavailable: The file cannot be opened, or is not where it was.
        """
        give_up_at = monotonic() + _FUTURE_VERSION_SECONDS
        while True:
            self._expire_old()
            for snapshot in list(self._snapshots):
                if snapshot.version == version and snapshot.share():
                    return snapshot
            snapshot = self.snapshot()
            newest = snapshot.version
            if newest == version:
                return snapshot
            snapshot.release()
            if newest > version:
                raise FDBError(1007)
            if monotonic() > give_up_at:
                raise FDBError(1009)
            time.sleep(_FUTURE_VERSION_POLL_SECONDS)

    def give_back(self, snapshot: Snapshot) -> None:
        """End a snapshot and keep its connection for the next one.

        Takes no lock: a finalizer may call it at any moment.
        """
        connection = snapshot.connection
        if connection is None:
            return
        is_kept = False
        try:
            if snapshot.cursor is not None:
                snapshot.cursor.close()
            is_kept = len(self._idle) < _IDLE_CONNECTIONS and not (
                connection.in_transaction or self._is_changing or self.is_retired
            )
        except sqlite3.Error:  # then it is closed
            logger.exception("a snapshot did not end", extra={"path": self.path})
        snapshot.connection = None
        if is_kept:
            self._idle.append(connection)
        else:
            connection.close()
        self._snapshots.pop(snapshot, None)

    def _expire_old(self) -> None:
        for snapshot in list(self._snapshots):
            if not snapshot.expired:
                return
            self._expire(snapshot)

    def _expire(self, snapshot: Snapshot) -> None:
        snapshot.expire()
        self._snapshots.pop(snapshot, None)

    def _await_expiry(self) -> None:
        """End snapshots in time that are never released: they keep the log from shrinking."""
        expiry = OwnTimer(_EXPIRY_SECONDS, self._on_expiry, name="fdbqueue-snapshots")
        with contextlib.suppress(RuntimeError):  # the interpreter is about to end
            expiry.start()
        self._expiry = expiry

    def _on_expiry(self) -> None:
        self._expiry = None
        self._expire_old()
        if self._snapshots:
            self._await_expiry()

    # Writing

    def reserve(self, deadline: float | None) -> Reservation | None:
        """Wait for a reservation of the file; None if the attempt is to go on without one.

        Raises:
            EngineUnavailable: The file cannot be opened, or is not where it was.
        """
        if not self._ready and not self.is_retired:
            self._prepare()
        return self.turn.reservations.reserve(deadline)

    def write(
        self,
        deadline: float | None,
        work: Callable[[sqlite3.Connection], object],
        snapshot: Snapshot | None = None,
        release: Callable[[], object] = lambda: None,
    ) -> None:
        """Wait for this process's turn, and call ``work`` with a connection that may write.

        However it ends, no transaction stays open and the turn is free: what ``work`` raises
        closes the file.

        Args:
            deadline: When to stop waiting, on the monotonic clock; None for no limit.
            work: What it has not committed is rolled back.
            snapshot: If nothing was committed since, ``work`` gets its connection, inside a
                transaction (:meth:`Snapshot.write`): SQLite need not end one transaction, begin
                another, and read again the pages that this connection has.
            release: Releases the snapshot; called before it waits for another process. By then
                that one commits something, or it makes the log small, and waits for all snapshots.

        Raises:
            FDBError: 1031 when the deadline passed first.
            EngineUnavailable: The file cannot be written, or is not where it was.
        """
        if not self._ready:
            self._prepare()
        if self.turn.is_doubted:
            self._reopen_locks()
        turn, connection = self.turn.turn, self._writer
        assert turn is not None
        assert connection is not None
        try:
            if not self.turn.acquire(deadline, release):
                snapshot = None
            if version_clock.seconds() >= self.files.check_at:
                self._check()
            if snapshot is None or not snapshot.write(work):
                work(connection)
                if connection.in_transaction:
                    connection.rollback()
            fcntl.flock(turn, fcntl.LOCK_UN)
        except (FDBError, EngineUnavailable):  # nothing was written
            fcntl.flock(turn, fcntl.LOCK_UN)
            raise
        except BaseException as error:
            self._ready = False  # first: if another signal comes in the middle, the next use closes
            try:
                self._close_if_broken()
            finally:
                self._close_if_broken()
            if not isinstance(error, sqlite3.Error):
                raise
            logger.exception("a transaction did not end", extra={"path": self.path})

    def _reopen_locks(self) -> None:
        try:
            with self._lock:
                self.turn.reopen_deleted()
        except OSError as error:
            reason = files.reason_of(self.path, error)
            raise EngineUnavailable(path=self.path, reason=reason) from error

    def has_synced(self, version: int) -> bool:
        """Tell whether the disk has all commits up to a version, if this process syncs."""
        if not self._syncs:
            return True
        reservations = self.turn.reservations
        try:
            shared = reservations.shared or reservations.open()
            if shared is None:
                return False
            return int.from_bytes(os.pread(shared.descriptor, *SYNCED), "little") >= version
        except OSError:
            return False

    def confirm(self, version: int) -> None:
        """Wait until the disk has all commits up to a version, which were read.

        Raises:
            FDBError: 1510 when the disk fails.
            EngineUnavailable: The file cannot be opened, or is not where it was.
        """
        while not self.has_synced(version):
            self._prepare()
            with self._lock:  # until then a pause does not close the log
                if self._log is not None:
                    self.sync(version)
                    return

    def sync(self, version: int) -> None:
        """Wait until the disk has all commits up to a version, if this process syncs.

        The log is one file, so this waits for what other processes have written, too. A pause must
        not close the log meanwhile.

        Raises:
            FDBError: 1510 when the disk fails.
            EngineUnavailable: The file cannot be opened, or is not where it was.
        """
        if not self._syncs:
            return
        if self._log is None:  # closed since the commit
            self._prepare()
        assert self._log is not None
        if not self._is_log_doubted:
            try:
                _sync(self._log)
            except OSError:
                logger.exception("the log was not synced", extra={"path": self.path})
                self._is_log_doubted = True
                self.files.check_at = 0.0
        if self._is_log_doubted:
            self._settle_log()
        shared = self.turn.reservations.shared
        try:
            if shared is not None:
                os.pwrite(shared.descriptor, version.to_bytes(8, "little"), SYNCED[1])
        except OSError:  # a full disk; suppress() would be three calls a commit
            return

    def _check(self) -> None:
        """Raise if there is no going on: the disk has failed, or a file is not where it was."""
        if self._is_log_doubted:
            self._settle_log()
        self.files.check()

    def _settle_log(self) -> None:
        """Copy the log into the database, which SQLite syncs: then nothing depends on the log.

        Raises:
            FDBError: 1510 when it cannot now.
        """
        with contextlib.closing(self.connect()) as connection:
            try:
                is_busy, pages, copied = _empty_log(connection, "PASSIVE")
            except sqlite3.Error as error:
                raise FDBError(1510) from error
        if is_busy or pages != copied:
            raise FDBError(1510)
        self._is_log_doubted = False

    def extend_log(self) -> None:
        """Make the write-ahead log longer than it is in use, up to where SQLite starts it again.

        To write where a file has content takes half of the time: the file system has no new blocks
        to note. SQLite ends reading at what is no page of this use of the log, as it does at what
        is left of an earlier use.

        The caller is in a transaction that may write, so nobody else makes the log longer or
        starts it again.
        """
        with contextlib.suppress(OSError):  # without room SQLite says what is wrong
            log = os.open(self.path + files.WAL, os.O_WRONLY)
            try:
                found = os.fstat(log)
                size = found.st_size
                if 0 < size < _LOG_BYTES and self.files.has_opened(files.WAL, found):
                    os.pwrite(log, bytes(min(_LOG_STEP_BYTES, _LOG_BYTES - size)), size)
            finally:
                os.close(log)

    def shrink_large_log(self, connection: sqlite3.Connection) -> None:
        """Start the write-ahead log again if it has grown large; called now and then.

        Done while this process has the turn. Snapshots go on; new ones no longer need the
        log once all of it is in the database. If one lasts too long, a later commit
        tries again.
        """
        with contextlib.suppress(OSError, sqlite3.Error):  # what was committed stays so
            if os.stat(self.path + files.WAL).st_size > _LARGE_LOG_BYTES:
                _empty_log(connection, "TRUNCATE")

    def reuse_log(self, connection: sqlite3.Connection) -> bool:
        """Let the next commit write from the log's beginning, and tell whether it may.

        On a full disk that is the only room there is. So pops and clears go on, unless what is in
        the log makes the file larger: then nothing does until there is room for that.
        """
        try:
            if connection.in_transaction:
                connection.rollback()
            is_read, pages, copied = _empty_log(connection, "RESTART")
        except sqlite3.Error:  # what was committed stays so
            return False
        return bool(not is_read and 0 < pages == copied)

    # Opening and closing

    def connect(self) -> sqlite3.Connection:
        """Open a connection to the file.

        Raises:
            EngineUnavailable: SQLite cannot open it.
        """
        connection = None
        try:
            connection = sqlite3.connect(
                self.path,
                timeout=_SQLITE_LOCK_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            # A commit is written, and synced by :meth:`sync`; a checkpoint syncs both files.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, sqlite3.Error):
                reason = files.reason_of(self.path, error)
                raise EngineUnavailable(path=self.path, reason=reason) from error
            raise
        return connection

    def _prepare(self) -> None:
        """Open the file, unless it is open."""
        if self._ready:
            return
        with self._opening, self._lock:
            if self._ready:
                return
            if self._is_changing:
                raise EngineUnavailable(path=self.path, reason=IN_A_HANDLER)
            self._is_changing = True
            try:
                self._close()  # what an exception has left of an attempt
                self.files.check()
                self._open()
            except BaseException as error:
                self._close()
                if isinstance(error, (OSError, sqlite3.Error)):
                    reason = files.reason_of(self.path, error)
                    raise EngineUnavailable(path=self.path, reason=reason) from error
                raise
            finally:
                self._is_changing = False

    def _open(self) -> None:
        is_new = not os.path.isdir(self.sync_directory)
        try:
            self.turn.open()
            assert self.turn.turn is not None
            try:
                fcntl.flock(self.turn.turn, fcntl.LOCK_EX)
                mark = files.join(self.path, self._descriptors)
                self._writer = self.connect()
                files.create_or_check_schema(self._writer, self.path, self.marked_at)
                files.note(self.path, mark)
            finally:
                fcntl.flock(self.turn.turn, fcntl.LOCK_UN)
            self._writer.execute(_WRITER_CACHE)
            self._log = self._descriptors.open(self.path + files.WAL, os.O_RDWR)
            found = files.identities(self.path, "", files.WAL, files.SHM)
            opened = files.OpenFiles(self.path, found, mark)
        except BaseException:
            if is_new:
                self.turn.remove()
            raise
        self.files, self._ready = opened, True

    def is_opened_by_this_thread(self) -> bool:
        """Tell whether this thread opens the file or a snapshot: then a signal handler asks."""
        return bool(self._opening._is_owned())  # noqa: SLF001  # nothing else tells

    def pause(self) -> None:
        """Close every connection and lock; no thread can open one until :meth:`resume`.

        Reads of open snapshots fail with 1007. The caller makes sure that no thread is
        writing, and resumes from the same thread, also if this is interrupted.
        """
        self._opening.acquire()
        self._is_changing = True
        for snapshot in list(self._snapshots):
            self._expire(snapshot)
        expiry, self._expiry = self._expiry, None
        if expiry is not None:
            expiry.cancel()
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        with self._lock:
            self._close()

    def forget_files(self) -> None:
        """Take the files that are there at the next use, also if they are others."""
        self.files = files.OpenFiles(self.path, {})

    def resume(self) -> None:
        """Allow opening again after :meth:`pause`; may be called twice, or without that."""
        if not self.is_opened_by_this_thread():
            return
        self._is_changing = False
        with contextlib.suppress(RuntimeError):  # not held any more
            while True:
                self._opening.release()

    def _close_if_broken(self) -> None:
        """Close what a write has left, unless another thread has opened the file again."""
        with self._lock:
            if not self._ready:
                self._close()

    def _close(self) -> None:
        """Close what is open, however far it was opened or closed; the next use opens it again."""
        closed = self.files.without_log()
        self.files, self._ready, self._log = closed, False, None
        self._descriptors.close()  # the mark before the log goes, which who joins would miss
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self.turn.close()


def _empty_log(connection: sqlite3.Connection, mode: str) -> tuple[int, int, int]:
    """Copy the write-ahead log into the database, and wait briefly for those who read from it.

    Returns:
        Whether some read from it still, how many pages it has, and how many of them were copied.
    """
    try:
        connection.execute(_WAIT_BRIEFLY)
        found: tuple[int, int, int]
        found = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        return found
    finally:
        connection.execute(_WAIT_LONG)
