"""The files of a database: whether they are those that were opened, and may be read or written.

SQLite finds ``-wal`` and ``-shm`` by the name of the file, but holds what it has opened by
inode. Once a name leads elsewhere, one process writes where the others do not read. So it is
an error until the names lead to the opened files again, or the processes are started anew.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from fdbqueue.engines.embedded.errors import FDBError
from fdbqueue.exceptions import EngineUnavailable

Identity = tuple[int, int]

WAL, SHM, SYNC = "-wal", "-shm", "-sync"
#: In ``-sync``: says that the file was created, and which files are in use.
MARK = "used"
#: In ``-sync``: the lock files that order the writers.
LOCKS = ("turnstile", "turn")
#: A directory's time stamp may stand still this long while its content changes.
STAMP_GRANULARITY_NS = 50_000_000
_LOST = "{} was deleted, moved or replaced while it was in use"
_MISSING = (
    "the file is missing or empty, but the folder -sync beside it says that it was in use; put it "
    "back, or stop all processes and remove that folder to begin with an empty file"
)


class OpenFiles:
    """Tell whether the names of a database's files still lead to those that were opened.

    Args:
        path: The database's file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._directory = os.path.dirname(path) or os.curdir
        self._opened: dict[str, Identity] = {}
        #: The directory's time stamp and inode since which all names lead to the opened files.
        self._unchanged: tuple[int, int] | None = None

    def opened(self, *suffixes: str) -> None:
        """Note which files the names lead to now, just after they were opened."""
        self._opened = {suffix: _identity(self._path + suffix) for suffix in ("", *suffixes)}
        self._unchanged = None

    def forget_log(self) -> None:
        """Expect the file alone: ``-wal`` and ``-shm`` come and go with the processes."""
        self._opened = {suffix: found for suffix, found in self._opened.items() if not suffix}

    def forget(self) -> None:
        """Forget all files; those that are there at the next use are taken."""
        self._opened = {}

    def check(self) -> None:
        """Raise where a name leads elsewhere.

        As long as nothing changes in the directory, it costs one ``stat``.

        Raises:
            EngineUnavailable: A file was deleted, moved or replaced.
        """
        try:
            found = os.stat(self._directory)
        except OSError as error:
            raise EngineUnavailable(path=self._path, reason=str(error)) from error
        stamp = found.st_mtime_ns, found.st_ino
        if stamp == self._unchanged:
            return
        self._unchanged = None
        for suffix, identity in self._opened.items():
            try:
                is_same = _identity(self._path + suffix) == identity
            except OSError:
                is_same = False
            if not is_same:
                raise EngineUnavailable(path=self._path, reason=_LOST.format(suffix or "the file"))
        if time.time_ns() - found.st_mtime_ns > STAMP_GRANULARITY_NS:
            self._unchanged = stamp


def _identity(path: str) -> Identity:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def join(path: str) -> int:
    """Join the processes that use a file, and return the descriptor by which this one does.

    Each holds a shared lock on a mark in ``-sync``, which says what files they have opened.
    The caller has the writer's turn, and calls :func:`note` once it has opened them itself.

    Raises:
        EngineUnavailable: The names no longer lead to what the others have opened; or the
            file is missing or empty, and was created before.
    """
    mark = os.open(os.path.join(path + SYNC, MARK), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        noted = os.read(mark, 1000).decode()
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(mark, fcntl.LOCK_SH)
            if noted and noted != _found(path):
                raise EngineUnavailable(path=path, reason=_LOST.format("a file")) from None
        if noted and not _has_content(path):
            raise EngineUnavailable(path=path, reason=_MISSING)
    except BaseException:
        os.close(mark)
        raise
    return mark


def note(path: str, mark: int) -> None:
    """Note in the mark which files were opened, and let other processes join."""
    os.ftruncate(mark, 0)
    os.lseek(mark, 0, os.SEEK_SET)
    os.write(mark, _found(path).encode())
    fcntl.flock(mark, fcntl.LOCK_SH)


def _found(path: str) -> str:
    lines = []
    for name in (path, path + WAL, path + SHM):
        try:
            lines.append("{} {}\n".format(*_identity(name)))
        except FileNotFoundError:
            lines.append("\n")
    return "".join(lines)


def obstacle_to_writing(path: str) -> str | None:
    """Return why this process cannot write a file that exists, None where it can."""
    if not os.path.exists(path):
        return None
    directory = os.path.dirname(path)
    needed = [path, path + WAL if os.path.exists(path + WAL) else directory]
    locks = [os.path.join(path + SYNC, name) for name in (*LOCKS, MARK)]
    if all(map(os.path.exists, locks)):
        needed += locks
    else:
        needed.append(path + SYNC if os.path.isdir(path + SYNC) else directory)
    for name in needed:
        if not os.access(name, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            if not os.path.lexists(name):  # another process has closed its files since: look again
                return obstacle_to_writing(path)
            return f"{name} may not be written"
    return None


def _has_content(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0
    except FileNotFoundError:
        return False


def connect_to_read(path: str) -> tuple[sqlite3.Connection, Callable[[], None] | None]:
    """Open a file that cannot be written here, for one snapshot.

    With a log, SQLite reads it together with the processes that write. Without one nothing
    is being written, and SQLite, which could not make a log to take part in, reads the file
    as one that does not change; whether that held is checked after each read.

    Returns:
        The connection, and the check where one is needed.

    Raises:
        EngineUnavailable: SQLite cannot open it.
    """
    name = Path(path).absolute().as_uri()
    has_log = os.path.exists(path + SHM) or _has_content(path + WAL)
    state = None if has_log else _settled_state(path)
    flags = "mode=ro" if has_log else "mode=ro&immutable=1"
    connection = sqlite3.connect(
        f"{name}?{flags}", uri=True, isolation_level=None, check_same_thread=False
    )

    def check() -> None:
        try:
            is_same = _state(path) == state
        except OSError:
            is_same = False
        if not is_same:
            raise FDBError(1007)

    return connection, None if has_log else check


def _state(path: str) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _settled_state(path: str) -> tuple[int, ...]:
    """Return the state of a file, such that a later change makes another one."""
    while True:
        state = _state(path)
        since = time.time_ns() - state[-1]
        if not 0 <= since < STAMP_GRANULARITY_NS:
            return state
        time.sleep((STAMP_GRANULARITY_NS - since) / 1e9)
