"""The SQLite file: its schema, its connections, snapshots of it, and the writer's turn.

``kv`` holds the keys, ``commits`` the write conflict ranges of recent commits under their
versions, ``epoch`` the moment that versions count their microseconds from. Write-ahead
logging lets any number of snapshots be read while one commit is written; the files
``-wal`` and ``-shm`` beside the database belong to it. The directory ``-sync`` holds what
the processes share besides: two lock files that order their writers, and the pipes that
wake those who watch.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator

from fdbqueue.engines.embedded.errors import FDBError
from fdbqueue.engines.embedded.limits import TRANSACTION_LIFE_SECONDS
from fdbqueue.engines.embedded.snapshots import Snapshot, disk_errors
from fdbqueue.exceptions import EngineUnavailable

#: ``PRAGMA application_id`` of an fdbqueue file: "fdbq".
APPLICATION_ID = 0x66646271
#: ``PRAGMA user_version``: the schema below.
SCHEMA_VERSION = 1

_SCHEMA = """
    BEGIN IMMEDIATE;
    CREATE TABLE kv (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE commits (version INTEGER PRIMARY KEY, ranges BLOB NOT NULL);
    CREATE TABLE epoch (unix_microseconds INTEGER NOT NULL);
    INSERT INTO commits VALUES (1, x'00000000');
    INSERT INTO epoch VALUES ({now});
    PRAGMA application_id = {application_id};
    PRAGMA user_version = {schema_version};
    COMMIT;
"""

#: What a commit of some megabytes changes fits in: with SQLite's 2 MB it writes pages twice.
_WRITER_CACHE_KIB = 16_000
_BUSY_TIMEOUT_SECONDS = 30.0
_IDLE_CONNECTIONS = 64
_CHECKPOINT_PAGES = 4000
#: Readers that overlap without end keep SQLite from starting its log anew; past this many
#: bytes a commit waits for them, which takes as long as the longest of them.
_LARGE_LOG_BYTES = 64_000_000
_COMMITS_BETWEEN_LOOKS = 100
_RESTART_MILLISECONDS = 500
_LOCK_POLL_SECONDS = 0.002
_PAUSE_POLL_SECONDS = 0.001
_PAUSE_SECONDS = 5.0
_EXPIRY_SECONDS = TRANSACTION_LIFE_SECONDS + 0.1


class Store:
    """Open one SQLite file and hand out snapshots and the writer's turn.

    Nothing is opened before it is needed, and after :meth:`pause` everything is opened
    anew when needed again; a fork is safe between :meth:`pause` and :meth:`resume`.

    Args:
        path: Where the file is, or is to be created.
        synchronous: SQLite's ``FULL`` (an acknowledged commit survives a power cut) or
            ``NORMAL`` (it survives a crash of the process, but may be lost in a power cut).
    """

    def __init__(self, path: str, synchronous: str) -> None:
        self.path = path
        self.sync_directory = path + "-sync"
        self._synchronous = synchronous
        self._lock = threading.Lock()
        # Held by a pause, and while a snapshot is opened: threads that do so one by one also
        # contend less for the interpreter (8 pushed 2.2 times as fast as one, 1.6 without).
        self._opening = threading.RLock()
        self._paused = False
        self._ready = False
        self._readers: set[sqlite3.Connection] = set()
        #: Nobody refers to its database any more: only a watching thread may still read.
        self.is_retired = False
        self._idle: list[sqlite3.Connection] = []
        self._snapshots: dict[Snapshot, None] = {}
        self._expiry: threading.Timer | None = None
        self._writer: sqlite3.Connection | None = None
        self._epoch = 0
        self._commits_until_look = _COMMITS_BETWEEN_LOOKS
        self._turnstile: int | None = None
        self._turn: int | None = None

    # Snapshots

    def snapshot(self, version: int | None = None) -> Snapshot:
        """Open a snapshot at the newest version, or share one open at ``version``.

        Raises:
            FDBError: 1007 when the version is past and no snapshot of this process holds
                it, 1009 when it is still to come.
            EngineUnavailable: The file cannot be opened.
        """
        self._expire_old()
        if version is not None:
            for snapshot in list(self._snapshots):
                if snapshot.version == version and snapshot.share():
                    return snapshot
        snapshot = self._open_snapshot()
        if version is not None and version != snapshot.version:
            newest = snapshot.version
            snapshot.release()
            raise FDBError(1007 if version < newest else 1009)
        return snapshot

    @disk_errors
    def _open_snapshot(self) -> Snapshot:
        with self._opening:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self.connect()
                self._readers.add(connection)
            try:
                connection.execute("BEGIN")
                version = connection.execute("SELECT max(version) FROM commits").fetchone()[0]
            except BaseException:
                self._close_reader(connection)
                raise
            snapshot = Snapshot(connection, version, self.give_back)
            self._snapshots[snapshot] = None
            if self._expiry is None:
                self._await_expiry()
            return snapshot

    def give_back(self, snapshot: Snapshot, connection: sqlite3.Connection) -> None:
        """End a snapshot and keep its connection for the next one.

        Takes no lock: a finalizer may call it at any moment.
        """
        self._snapshots.pop(snapshot, None)
        with contextlib.suppress(sqlite3.Error):
            connection.execute("COMMIT")
        reusable = not (connection.in_transaction or self._paused or self.is_retired)
        if reusable and len(self._idle) < _IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            self._close_reader(connection)

    def _close_reader(self, connection: sqlite3.Connection) -> None:
        connection.close()
        self._readers.discard(connection)

    def _expire_old(self) -> None:
        for snapshot in list(self._snapshots):  # the oldest first
            if not snapshot.expired:
                return
            snapshot.expire()

    def _await_expiry(self) -> None:
        """See to it that a snapshot nobody releases ends: it keeps the log from shrinking."""
        self._expiry = threading.Timer(_EXPIRY_SECONDS, self._on_expiry)
        self._expiry.daemon = True
        with contextlib.suppress(RuntimeError):  # the interpreter is about to end
            self._expiry.start()

    def _on_expiry(self) -> None:
        self._expiry = None
        self._expire_old()
        if self._snapshots:
            self._await_expiry()

    # Writing

    @contextlib.contextmanager
    def writer(self, deadline: float | None) -> Iterator[sqlite3.Connection]:
        """Wait for this process's turn to write, and yield the connection that may.

        Processes take turns: each holds the turnstile until it has the turn, so one that
        waits for the turn goes before one that has just written. The kernel wakes those
        who wait at the turnstile together, and one of them gets it.

        Args:
            deadline: When to stop waiting, on the monotonic clock; None to wait for ever.

        Raises:
            FDBError: 1031 when the deadline passed first.
        """
        self._prepare()
        turnstile, turn = self._turnstile, self._turn
        if turnstile is None or turn is None:
            raise EngineUnavailable(path=self.path, reason="it was closed")
        try:
            _take(turnstile, deadline)
            _take(turn, deadline)
            fcntl.flock(turnstile, fcntl.LOCK_UN)
            if self._writer is None:
                self._writer = self.connect()
                self._writer.execute(f"PRAGMA cache_size = -{_WRITER_CACHE_KIB}")
            yield self._writer
        finally:  # of a lock that is not held nothing is let go
            fcntl.flock(turnstile, fcntl.LOCK_UN)
            fcntl.flock(turn, fcntl.LOCK_UN)

    def keep_log_small(self, connection: sqlite3.Connection) -> None:
        """Start the write-ahead log anew where it has grown large; called after a commit.

        Done while this process has the turn. Snapshots go on; new ones no longer need the
        log once all of it is in the database. Where one lasts too long, a later commit
        tries again.
        """
        self._commits_until_look -= 1
        if self._commits_until_look:
            return
        self._commits_until_look = _COMMITS_BETWEEN_LOOKS
        if os.stat(self.path + "-wal").st_size <= _LARGE_LOG_BYTES:
            return
        connection.execute(f"PRAGMA busy_timeout = {_RESTART_MILLISECONDS}")
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(_BUSY_TIMEOUT_SECONDS * 1000)}")

    def clock(self) -> int:
        """Return the microseconds since the file was created, by the wall clock."""
        return time.time_ns() // 1000 - self._epoch

    # Opening and closing

    def connect(self) -> sqlite3.Connection:
        """Open a connection to the file, creating or checking it first.

        Raises:
            EngineUnavailable: The file cannot be opened, or is not an fdbqueue file.
        """
        self._prepare()
        try:
            return self._connection()
        except sqlite3.Error as error:
            raise EngineUnavailable(path=self.path, reason=str(error)) from error

    def _connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=_BUSY_TIMEOUT_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self) -> None:
        if self._ready:
            return
        with self._lock:
            if self._ready:
                return
            created = False
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(self.sync_directory)
                    created = True
                self._turnstile = self._open_lock("turnstile")
                self._turn = self._open_lock("turn")
                fcntl.flock(self._turn, fcntl.LOCK_EX)
                try:
                    self._check_or_create()
                finally:
                    fcntl.flock(self._turn, fcntl.LOCK_UN)
            except (OSError, sqlite3.Error) as error:
                self._close_locks()
                if created:
                    self._remove_locks()
                raise EngineUnavailable(path=self.path, reason=str(error)) from error
            self._ready = True

    def _open_lock(self, name: str) -> int:
        return os.open(os.path.join(self.sync_directory, name), os.O_RDWR | os.O_CREAT, 0o666)

    def _remove_locks(self) -> None:
        """Leave nothing beside a file that is not ours."""
        with contextlib.suppress(OSError):
            for name in ("turnstile", "turn"):
                os.unlink(os.path.join(self.sync_directory, name))
            os.rmdir(self.sync_directory)

    def _check_or_create(self) -> None:
        with contextlib.closing(self._connection()) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (schema,) = connection.execute("PRAGMA user_version").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if not tables and not application:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(
                    _SCHEMA.format(
                        application_id=APPLICATION_ID,
                        schema_version=SCHEMA_VERSION,
                        now=time.time_ns() // 1000,
                    )
                )
            elif application != APPLICATION_ID:
                raise sqlite3.DatabaseError("it is another program's SQLite file")
            elif schema != SCHEMA_VERSION:
                raise sqlite3.DatabaseError(f"its schema is version {schema}, not {SCHEMA_VERSION}")
            (self._epoch,) = connection.execute("SELECT unix_microseconds FROM epoch").fetchone()

    def pause(self) -> None:
        """Close every connection and lock, and let nobody open one until :meth:`resume`.

        Reads of open snapshots fail with 1007. The caller makes sure that no thread is
        writing, and resumes from the same thread.
        """
        self._opening.acquire()
        self._paused = True
        for snapshot in list(self._snapshots):
            snapshot.expire()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self._close_idle()
        give_up_at = time.monotonic() + _PAUSE_SECONDS
        while self._readers and time.monotonic() < give_up_at:  # a thread is giving one back
            time.sleep(_PAUSE_POLL_SECONDS)
            self._close_idle()
        for connection in list(self._readers):  # a thread was interrupted giving it back
            self._close_reader(connection)
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            self._close_locks()
            self._ready = False

    def resume(self) -> None:
        """Let everything be opened again after :meth:`pause`."""
        self._paused = False
        self._opening.release()

    def _close_idle(self) -> None:
        while self._idle:
            self._close_reader(self._idle.pop())

    def _close_locks(self) -> None:
        for descriptor in (self._turnstile, self._turn):
            if descriptor is not None:
                os.close(descriptor)
        self._turnstile = self._turn = None


def _take(descriptor: int, deadline: float | None) -> None:
    """Take a file lock, in the kernel's queue where there is no deadline."""
    if deadline is None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise FDBError(1031) from None
            time.sleep(_LOCK_POLL_SECONDS)
        else:
            return
