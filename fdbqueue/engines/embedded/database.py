"""The database object of the embedded engine, and what a fork does to it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections import deque

from fdbqueue.engines.embedded.commits import Committer
from fdbqueue.engines.embedded.errors import FDBError
from fdbqueue.engines.embedded.futures import Value
from fdbqueue.engines.embedded.options import DatabaseDefaults, DatabaseOptions
from fdbqueue.engines.embedded.single_operations import SingleOperations
from fdbqueue.engines.embedded.snapshots import Snapshot
from fdbqueue.engines.embedded.storage import Store
from fdbqueue.engines.embedded.transaction import Transaction
from fdbqueue.engines.embedded.watches import Bells, WatchRegistry
from fdbqueue.exceptions import ConfigurationError, EngineUnavailable

_SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL"}
_FUTURE_VERSION_SECONDS = 1.0
_FUTURE_VERSION_POLL_SECONDS = 0.01


class Database(SingleOperations):
    """A FoundationDB database in one SQLite file, shared by threads and processes.

    Made by :func:`open`. Its file is opened on first use.
    """

    def __init__(self, path: str, durability: str) -> None:
        if durability not in _SYNCHRONOUS:
            raise ConfigurationError(option="durability", value=durability, allowed="full, normal")
        self.path = path
        self.durability = durability
        self.defaults = DatabaseDefaults()
        self._store = Store(path, _SYNCHRONOUS[durability])
        self._bells = Bells(self._store.sync_directory, self._store.doubt_locks)
        self.watches = WatchRegistry(self._store)
        self.committer = Committer(self._store, self._bells.ring)
        # only noted: a finalizer may run in any thread, amid whatever that is doing
        weakref.finalize(self, _unused.append, (self._store, self._bells)).atexit = False

    def __repr__(self) -> str:
        return f"<embedded Database {self.path!r}>"

    @property
    def options(self) -> DatabaseOptions:
        """Defaults for the transactions created from now on."""
        return DatabaseOptions(self.defaults)

    def create_transaction(self) -> Transaction:
        """Return a new transaction; it gets its read version when it first reads."""
        if _unused:
            _close_unused()
        return Transaction(self)

    def open_snapshot(self, version: int | None) -> Snapshot:
        """Open what a transaction reads from: the newest version, or a given one."""
        give_up_at = time.monotonic() + _FUTURE_VERSION_SECONDS
        while True:
            try:
                return self._store.snapshot(version)
            except FDBError as error:
                if error.code != 1009 or time.monotonic() > give_up_at:
                    raise
            time.sleep(_FUTURE_VERSION_POLL_SECONDS)

    def get_client_status(self) -> Value:
        """Return, as JSON, whether the file can be read: ``{"Healthy": true}``."""
        status = b'{"Healthy": true}'
        try:
            self.open_snapshot(None).release()
        except (FDBError, EngineUnavailable):
            status = b'{"Healthy": false}'
        return Value(status)  # type: ignore[arg-type]  # it holds the bytes

    def close(self) -> None:
        """Close the file and end all watches; the next use opens it again.

        Transactions under way fail with 1007, which they may retry. The next use takes
        the file that is there then, also where that is another one.
        """
        self.watches.abandon(FDBError(1101))
        try:
            self.before_fork()
            self._store.files.forget()
        finally:
            try:
                self.after_fork_in_parent()
            finally:  # an interrupt may have kept it from that
                self.after_fork_in_parent()

    # A process that forks must hand no SQLite connection and no lock to its child.

    def before_fork(self) -> None:
        """Let no commit run, and close the file; may be called again where it was interrupted."""
        self.committer.quiesce()
        self._store.pause()
        self._bells.close()

    def after_fork_in_parent(self) -> None:
        """Go on; calling it again does no harm."""
        self._store.resume()
        self.committer.resume()

    def after_fork_in_child(self) -> None:
        """Start with nothing of the parent's threads, watches and commits."""
        self._store.resume()
        self.watches.forget()
        self.committer.disown()
        self.committer = Committer(self._store, self._bells.ring)


#: The files of databases that nobody refers to any more, until they are closed.
_unused: deque[tuple[Store, Bells]] = deque()


def _close_unused() -> None:
    """Close the files of databases that nobody refers to any more."""
    with _databases_lock:
        while _unused:
            store, bells = _unused[0]
            store.is_retired = True
            try:
                store.pause()
            finally:
                store.resume()
            bells.close()
            _unused.popleft()


_databases: weakref.WeakValueDictionary[tuple[str, str], Database] = weakref.WeakValueDictionary()
_databases_lock = threading.RLock()
_forking: list[Database] = []


def open(path: str | os.PathLike[str], *, durability: str = "full") -> Database:
    """Open the embedded engine on a file, which is created on first use.

    A process has one database object for each file. Any number of processes of one
    machine may have the same file open; it must not be on a network file system.

    Args:
        path: Where the file is; ``-wal``, ``-shm`` and ``-sync`` beside it belong to it.
        durability: ``"full"``: a commit survives a power cut once acknowledged.
            ``"normal"``: faster; a power cut may take the last commits back, a crash of
            the process does not.

    Raises:
        ConfigurationError: Another durability, or a path that is no file's.
    """
    name = os.fspath(path)
    if not name or name.startswith((":memory:", "file:")):
        raise ConfigurationError(option="path", value=name, reason="a file's path is needed")
    key = (os.path.realpath(name), durability)
    _close_unused()
    with _databases_lock:
        database = _databases.get(key)
        if database is None:
            database = _databases[key] = Database(*key)
        return database


def _before_fork() -> None:
    try:
        _close_all()
    except BaseException:  # an interrupt, which Python reports; it forks all the same
        _close_all()
        raise


def _close_all() -> None:
    _close_unused()
    _databases_lock.acquire()
    _forking[:] = list(_databases.values())
    for database in _forking:
        database.before_fork()


def _after_fork_in_parent() -> None:
    for database in _forking:
        database.after_fork_in_parent()
    _end_fork()


def _after_fork_in_child() -> None:
    for database in _forking:
        database.after_fork_in_child()
    _end_fork()


def _end_fork() -> None:
    _forking.clear()
    with contextlib.suppress(RuntimeError):  # not held any more
        while True:
            _databases_lock.release()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
