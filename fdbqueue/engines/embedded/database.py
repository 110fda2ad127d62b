"""The database object of the embedded engine, and what a fork does to it."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections import deque
from collections.abc import Callable

from fdbqueue.engines.embedded.commit_groups import advance
from fdbqueue.engines.embedded.commits import Committer
from fdbqueue.engines.embedded.fdb_errors import FDBError
from fdbqueue.engines.embedded.files import DiskSpace, disk_space
from fdbqueue.engines.embedded.options import DatabaseOptions
from fdbqueue.engines.embedded.sqlite_file import Store
from fdbqueue.engines.embedded.transaction import Transaction
from fdbqueue.engines.embedded.transaction_state import OptionValues
from fdbqueue.engines.embedded.watches import Notifier, WatchRegistry
from fdbqueue.exceptions import ConfigurationError, EngineUnavailable
from fdbqueue.locks import IN_A_HANDLER, RLock

_DURABILITIES = ("full", "normal")


class Database:
    """A FoundationDB database in one SQLite file, shared by threads and processes.

    Made by :func:`open`. Its file is opened on first use. Its transactions and watches keep it
    alive: what a fork does to them, it does by the database.
    """

    #: A file has one writer: who has several commits to make gains nothing by making them at once.
    commits_one_at_a_time = True
    #: Its transactions have ``reserve()``: those that use it do not conflict with each other.
    has_reservations = True
    #: All clients have the clock of one machine; versions stand still while nothing is committed.
    is_of_one_machine = True

    def __init__(self, path: str, durability: str) -> None:
        if durability not in _DURABILITIES:
            raise ConfigurationError(option="durability", value=durability, allowed="full, normal")
        self.path = path
        self.durability = durability
        self.defaults = OptionValues()
        self._store = Store(path, syncs=durability == "full")
        self._notifier = Notifier(self._store.turn)
        self.watches = WatchRegistry(self._store)
        self.committer = Committer(self._store, self._notifier.notify)
        # only noted: a finalizer may run in any thread, in the middle of anything
        weakref.finalize(self, _unused.append, (self._store, self._notifier)).atexit = False
        with _databases_lock:
            _all_databases.add(self)

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
        return Transaction(self, self._store, self.committer, self.watches, self.defaults)

    def file_sizes(self) -> tuple[int, int]:
        """Return how many bytes the file has, and how many of them nothing is stored in.

        Those are for what is stored later: the file does not shrink.
        """
        snapshot = self._store.snapshot()
        try:
            names = ("page_size", "page_count", "freelist_count")
            size, pages, free = (snapshot.query(f"PRAGMA {name}")[0][0] for name in names)
        finally:
            snapshot.release()
        return size * pages, size * free

    def disk_space(self) -> DiskSpace:
        """Return how much room there is where the file is."""
        return disk_space(self.path)

    def refuse_marked_at(self, key: bytes | None) -> None:
        """Refuse this process when it opens the file and finds a mark at a key, if any."""
        self._store.marked_at = key

    def is_shared(self) -> bool:
        """Tell whether another process has the file open, and may write to it."""
        self._store.snapshot().release()  # which opens it
        return self._store.files.is_shared()

    def advance_version(self, version: int) -> None:
        """Let later commits have versions above one that no commit has had.

        No other process may have the file open: it would go on from its own last version.
        """
        self.committer.quiesce()  # which forgets the versions so far
        try:
            self._store.write(None, lambda writer: advance(writer, version))
        finally:
            self.committer.resume()

    def close(self) -> None:
        """Close the file and end all watches; the next use opens it again.

        Transactions under way fail with 1007, which they may retry. The next use takes
        the file that is there then, also if that is another one.

        Raises:
            EngineUnavailable: A signal handler asks, in the middle of a call of its thread.
        """
        if self.is_in_a_call():
            raise EngineUnavailable(path=self.path, reason=IN_A_HANDLER)
        self.watches.abandon(FDBError(1101))
        try:
            self.before_fork()
            self._store.forget_files()
        finally:
            try:
                self.after_fork_in_parent()
            finally:  # an interrupt may have kept it from that
                self.after_fork_in_parent()

    # Forks: a process that forks must hand no SQLite connection and no lock to its child.

    def is_in_a_call(self) -> bool:
        """Tell whether this thread is in the middle of a call, and a signal handler asks."""
        return self.committer.is_led_by_this_thread() or self._store.is_opened_by_this_thread()

    def before_fork(self) -> None:
        """Stop commits and close the file; call it again if it was interrupted."""
        self.committer.quiesce()
        self._store.pause()
        self._notifier.close()

    def after_fork_in_parent(self) -> None:
        """Let commits go on; may be called twice."""
        self._store.resume()
        self.committer.resume()

    def after_fork_in_child(self) -> None:
        """Start with nothing of the parent's threads, watches and commits."""
        self._store.resume()
        self.watches.restart_after_fork()
        self.committer.restart_after_fork()


#: The files of databases that no object refers to any more, until they are closed.
_unused: deque[tuple[Store, Notifier]] = deque()


def _close_unused() -> None:
    """Close the files of databases that no object refers to any more."""
    with _databases_lock:
        while _unused:
            store, notifier = _unused[0]
            store.is_retired = True
            try:
                store.pause()
            finally:
                store.resume()
            notifier.close()
            if _unused and _unused[0][0] is store:  # else a signal handler has closed it meanwhile
                _unused.popleft()


#: Those that :func:`open` has made, and all, which a fork closes.
_databases: weakref.WeakValueDictionary[tuple[str, str], Database] = weakref.WeakValueDictionary()
_all_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_databases_lock = RLock()
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
        ConfigurationError: Another durability, or a path that does not name a file.
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
    if _forking:  # all are closed
        return
    try:
        _close_all()
    except BaseException:  # an interrupt, which Python reports; it forks all the same
        _close_all()
        raise


def _close_all() -> None:
    _close_unused()
    _databases_lock.acquire()
    for database in list(_all_databases):
        # A signal handler that forks in a call would wait for itself.
        if database in _forking or not database.is_in_a_call():
            _forking.append(database)
            database.before_fork()


def _after_fork_in_parent() -> None:
    _go_on(Database.after_fork_in_parent)


def _after_fork_in_child() -> None:
    _go_on(Database.after_fork_in_child)


def _go_on(go_on: Callable[[Database], None]) -> None:
    """Let all databases go on; done again if an exception has kept it from that."""
    try:
        _go_on_once(go_on)
    except BaseException:  # as above
        _go_on_once(go_on)
        raise


def _go_on_once(go_on: Callable[[Database], None]) -> None:
    for database in _forking:
        go_on(database)
    _forking.clear()
    with contextlib.suppress(RuntimeError):  # not held any more
        while True:
            _databases_lock.release()


# Twice: an exception may come at the start of a function, which then does nothing. The second time
# there is nothing left to do.
for _ in range(2):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
