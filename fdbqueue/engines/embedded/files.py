"""The files of a database: whether they are the opened ones, and what must be in them.

SQLite finds ``-wal`` and ``-shm`` by name, but holds what it has opened. If a name leads elsewhere,
processes write where others do not read: an error, until it leads back or they start again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sqlite3
import time
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from fdbqueue.engines.embedded import version_clock
from fdbqueue.engines.marks import refuse_marked
from fdbqueue.exceptions import EngineUnavailable
from fdbqueue.steady import monotonic

Identity = tuple[int, int]

WAL, SHM, SYNC = "-wal", "-shm", "-sync"
#: What a process that writes has opened.
_ALL = ("", WAL, SHM)
#: On a disk with less room a commit may find none.
FULL_BYTES = 20_000_000
#: In ``-sync``: says that the file was created, and which files are in use.
MARK = "used"
#: In ``-sync``: the lock files that order the writers.
LOCKS = ("turnstile", "turn")
#: A directory's time stamp may stand still this long while its content changes.
STAMP_GRANULARITY_NS = 50_000_000
#: How often to look at the names, by :func:`version_clock.seconds`.
CHECK_SECONDS = 0.01
#: How long a process that ends may take from its last use of SQLite to its end.
_LEAVING_SECONDS = 1.0
_LOST = "{} was deleted, moved or replaced while it was in use"
_MISSING = (
    "the file is missing or empty, but the folder -sync beside it says that it was in use; put it "
    "back, or stop all processes and remove that folder to begin with an empty file"
)


class DiskSpace(NamedTuple):
    """How many bytes the disk of a folder has, and how many are free for this user."""

    folder: str
    free: int
    total: int

    def __str__(self) -> str:
        return f"{self.folder} has {self.free / 1_000_000:,.1f} MB free"

    @property
    def is_full(self) -> bool:
        """Whether a commit may find no room."""
        return self.free < FULL_BYTES

    @property
    def full(self) -> str:
        """What is said of it if it is full."""
        return f"The disk is full: {self}"


def disk_space(path: str) -> DiskSpace:
    """Return how much room there is where a file is."""
    folder = os.path.dirname(path)
    usage = shutil.disk_usage(folder)
    return DiskSpace(folder, usage.free, usage.total)


class Descriptors:
    """Open descriptors, none of which an exception of a signal handler leaves behind.

    It may come after a call, and what that has returned is lost. So one call of a function in C
    opens a file and notes it, and one takes what is noted and closes it.
    """

    def __init__(self) -> None:
        self._open: list[int] = []

    def open(self, path: str, flags: int) -> int:
        """Open a file, which is closed with the others."""
        self._open.extend(map(os.open, (path,), (flags,), (0o666,)))
        return self._open[-1]

    def close(self) -> None:
        """Close all, the first that was opened first; what is left is closed the next time."""
        with contextlib.suppress(IndexError):  # a signal handler has closed the last one
            deque(map(os.close, map(self._open.pop, [0] * len(self._open))), maxlen=0)


def identities(path: str, *suffixes: str) -> dict[str, Identity]:
    """Return which files the names lead to now."""
    return {suffix: _identity(path + suffix) for suffix in suffixes}


def lost(path: str, opened: Mapping[str, Identity]) -> str | None:
    """Return a name that no longer leads to the file that was opened, None if there is none.

    The one look for files that were deleted, moved or replaced: at those that this process has
    opened, and at those that others say they have.
    """
    for suffix, identity in opened.items():
        try:
            if _identity(path + suffix) != identity:
                return suffix
        except OSError:
            return suffix
    return None


class OpenFiles:
    """Tell whether the names of a database's files still lead to the opened files.

    Which these are does not change: who opens the file, or closes it, makes another of these.

    Args:
        path: The database's file.
        opened: The files that were opened, by the ends of their names; none is expected if it is
            empty.
        mark: The descriptor by which this process uses the file (:func:`join`), if it does.
    """

    def __init__(self, path: str, opened: Mapping[str, Identity], mark: int | None = None) -> None:
        self._path = path
        self._mark = mark
        self._directory = os.path.dirname(path) or os.curdir
        self._opened = opened
        #: The directory's time stamp and inode since which all names lead to the opened files.
        self._unchanged: tuple[int, int] | None = None
        #: When to look again, by :func:`version_clock.seconds`.
        self.check_at = 0.0

    def without_log(self) -> OpenFiles:
        """Expect the file alone: ``-wal`` and ``-shm`` come and go with the processes."""
        return OpenFiles(self._path, {"": self._opened[""]} if self._opened else {})

    def is_shared(self) -> bool:
        """Tell whether another process uses the file, too."""
        if self._mark is None:
            return False
        try:
            return _is_held(self._mark)
        finally:
            fcntl.flock(self._mark, fcntl.LOCK_SH)

    def has_opened(self, suffix: str, found: os.stat_result) -> bool:
        """Tell whether a file that was found is the one that was opened under a name."""
        return self._opened.get(suffix) == (found.st_dev, found.st_ino)

    def check(self) -> None:
        """Raise if a name leads elsewhere; called when it is :attr:`check_at`.

        As long as nothing changes in the directory, it costs one ``stat``.

        Raises:
            EngineUnavailable: A file was deleted, moved or replaced.
        """
        if not self._opened:
            return
        try:
            found = os.stat(self._directory)
        except OSError as error:
            raise EngineUnavailable(path=self._path, reason=reason_of(self._path, error)) from error
        stamp = found.st_mtime_ns, found.st_ino
        if stamp != self._unchanged:
            self._unchanged = None
            suffix = lost(self._path, self._opened)
            if suffix is not None:
                raise EngineUnavailable(path=self._path, reason=_LOST.format(suffix or "the file"))
            if time.time_ns() - found.st_mtime_ns > STAMP_GRANULARITY_NS:
                self._unchanged = stamp
        self.check_at = version_clock.seconds() + CHECK_SECONDS


def reason_of(path: str, error: Exception) -> str:
    """Return why a file cannot be opened, and what to do about it if that is known."""
    folder = os.path.dirname(path) or os.curdir
    if os.path.isdir(path):
        return "it is a folder; add the name of a file to it"
    if os.path.isdir(folder):
        return str(error)
    exists = os.path.exists(folder)
    return f"{folder} is no folder" if exists else f"there is no folder {folder}; create it"


def _identity(path: str) -> Identity:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def join(path: str, descriptors: Descriptors) -> int:
    """Join the processes that use a file, and return the descriptor by which this one does.

    Each holds a shared lock on a mark in ``-sync``, which says what files they have opened.
    The caller has the writer's turn, and calls :func:`note` once it has opened them itself.

    Args:
        path: The file.
        descriptors: The one of the mark is among these, whether or not this raises.

    Raises:
        EngineUnavailable: The names no longer lead to what the others have opened; or the
            file is missing or empty, and was created before.
    """
    mark = descriptors.open(os.path.join(path + SYNC, MARK), os.O_RDWR | os.O_CREAT)
    noted = _noted(os.read(mark, 1000).decode(errors="replace"))
    # The last that leaves takes the log with it; one that ends by itself has the mark for a
    # moment longer. Nobody else joins: a mark that is held before and after a look was held
    # during it.
    give_up_at = monotonic() + _LEAVING_SECONDS
    while _is_held(mark) and (suffix := lost(path, noted)) is not None and _is_held(mark):
        if monotonic() > give_up_at:
            raise EngineUnavailable(path=path, reason=_LOST.format(suffix or "the file"))
        time.sleep(CHECK_SECONDS)
    if noted and not _has_content(path):
        raise EngineUnavailable(path=path, reason=_MISSING)
    return mark


def _noted(text: str) -> dict[str, Identity]:
    """Return which files a mark says were opened; none if it is empty, or not whole."""
    try:
        pairs = [tuple(map(int, line.split())) for line in text.splitlines()]
        return {
            suffix: (device, inode) for suffix, (device, inode) in zip(_ALL, pairs, strict=True)
        }
    except ValueError:
        return {}


def _is_held(mark: int) -> bool:
    """Hold a mark, and tell whether others do; alone, until :func:`note`, if they do not."""
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fcntl.flock(mark, fcntl.LOCK_SH)
        return True
    return False


def note(path: str, mark: int) -> None:
    """Note in the mark which files were opened, and let other processes join."""
    os.ftruncate(mark, 0)
    os.lseek(mark, 0, os.SEEK_SET)
    lines = ["{} {}\n".format(*identity) for identity in identities(path, *_ALL).values()]
    os.write(mark, "".join(lines).encode())
    fcntl.flock(mark, fcntl.LOCK_SH)


def _has_content(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0
    except FileNotFoundError:
        return False


# What is in the file

#: ``PRAGMA application_id`` of an fdbqueue file: "fdbq".
APPLICATION_ID = 0x66646271
#: ``PRAGMA user_version``: the schema below.
SCHEMA_VERSION = 2

_SCHEMA = """
    BEGIN IMMEDIATE;
    CREATE TABLE kv (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE commits (version INTEGER PRIMARY KEY, ranges BLOB NOT NULL);
    CREATE TABLE clock (counter TEXT, reading INTEGER, version INTEGER, unix_microseconds INTEGER);
    INSERT INTO commits VALUES (1, x'00000000');
    INSERT INTO clock VALUES ('', 0, 1, {now});
    PRAGMA application_id = {application_id};
    PRAGMA user_version = {schema_version};
    COMMIT;
"""


def create_or_check_schema(
    connection: sqlite3.Connection, path: str, marked_at: bytes | None
) -> None:
    """Create an empty file's schema, or check that the file has it, and no mark at a key.

    Raises:
        ConfigurationError: It has a mark: its queues were moved to another engine.
        sqlite3.DatabaseError: It is another program's file, or one of another version.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if not tables and not application:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(
            _SCHEMA.format(
                application_id=APPLICATION_ID,
                schema_version=SCHEMA_VERSION,
                now=version_clock.unix_microseconds(),
            )
        )
    elif application != APPLICATION_ID:
        raise sqlite3.DatabaseError("it is another program's SQLite file")
    elif schema != SCHEMA_VERSION:
        raise sqlite3.DatabaseError(f"its schema is version {schema}, not {SCHEMA_VERSION}")
    elif marked_at is not None:
        row = connection.execute("SELECT value FROM kv WHERE key = ?", (marked_at,)).fetchone()
        refuse_marked(path, row and row[0])
