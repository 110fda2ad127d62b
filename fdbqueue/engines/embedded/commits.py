"""Commit transactions: which thread commits, for which others, and how each learns the result.

- *Any thread* puts its request in the line. The first leads; the others wait to be woken.
- *The leader* waits for the writer's turn, commits all in line by then in one SQLite transaction,
  gives the turn up, waits until the disk has the log, tells each how it ended, and passes the lead
  on.
- *No wake is lost*: a thread registers to be woken, then looks whether it is done; the leader marks
  it as done, then looks whether it has registered.

Others see a commit before the disk has it; theirs are later in the same log. A transaction that has
only read waits at its commit, unless the lock file says that the disk has its version. If the
disk fails, the log is copied into the database, which SQLite syncs; until then this process reads
and commits nothing.

If a signal handler's exception ends a leader, the lead is free, and all are woken. An assignment
after COMMIT notes that a group took effect: by it the next leader tells the group, or commits it
again. A request whose thread has left is not begun. A signal handler is refused if its own thread
waits for a commit, opens or closes the file, or forks. If it forks there, its child cannot use the
file.
"""

from __future__ import annotations

import collections
import functools
import itertools
import queue
import sqlite3
import threading
import time
from collections.abc import Callable

from fdbqueue.engines.embedded.commit_groups import (
    CommitGroup,
    CommitRequest,
    History,
    is_unwritten,
)
from fdbqueue.engines.embedded.fdb_errors import FDBError
from fdbqueue.engines.embedded.files import disk_space
from fdbqueue.engines.embedded.snapshots import Snapshot
from fdbqueue.engines.embedded.storage import Store
from fdbqueue.exceptions import EngineUnavailable
from fdbqueue.locks import IN_A_HANDLER, RLock
from fdbqueue.logs import get_logger
from fdbqueue.steady import monotonic

logger = get_logger(__name__)

_MAX_GROUP_BYTES = 16_000_000
_MAX_GROUP_COMMITS = 1_000  # each is checked against those before it
#: SQLITE_READONLY, SQLITE_CORRUPT, SQLITE_CANTOPEN, SQLITE_NOTADB: later commits fail, too.
_UNUSABLE = frozenset({8, 11, 14, 26})
_QUIESCE_POLL_SECONDS = 0.001
#: After how many groups the log is made longer, and after how many its size is read.
_GROUPS_BETWEEN_EXTENSIONS, _GROUPS_BETWEEN_LOG_CHECKS = 20, 100
#: A larger commit is made by the connection that has room for it in its cache.
_SMALL_BYTES = 250_000


class _Own(threading.local):
    """What a thread waits for."""

    request: CommitRequest | None = None


class Committer:
    """Commit the requests of one process, in groups.

    There is no thread of its own: a thread that waits for its commit either does the work
    for every request there is, or waits for the one that does.

    Args:
        store: Where to write.
        notify_watchers: Called after each group that took effect; calling it again does no harm.

    Attributes:
        own: The request that this thread waits for; if there is one, what runs is a signal handler.
    """

    def __init__(self, store: Store, notify_watchers: Callable[[], None]) -> None:
        self._store = store
        self._notify_watchers = notify_watchers
        self._start_empty()

    def _start_empty(self) -> None:
        self.own = _Own()
        #: Held to take the lead and to register to be woken, and for nothing that a leader does.
        self._mutex = RLock()
        #: The line: all that were not told yet how they ended, and some that were.
        self._requests: collections.deque[CommitRequest] = collections.deque()
        #: Ask for a commit; it runs when a thread waits for it or for another one.
        self.submit: Callable[[CommitRequest], None] = self._requests.append
        self._group: CommitGroup | None = None
        self._has_notified = True
        #: The request whose thread leads, or the thread that keeps others from leading.
        self._leader: CommitRequest | int | None = None
        self._waiters: list[queue.SimpleQueue[None]] = []
        self._wake_all = _alarm(self._waiters)
        self._history = History()
        self._groups_until_log_check = _GROUPS_BETWEEN_LOG_CHECKS

    def withdraw(self, request: CommitRequest, error: Exception) -> None:
        """Report ``error`` for a commit, which then runs only if it was running already."""
        request.end(error)
        self._leave_line()
        if self._leader is None:  # maybe it was passed on to this request's thread, which leaves
            self._wake_all()

    def wait(self, request: CommitRequest) -> None:
        """Return when the request is done, having done the work if no other thread was.

        A request whose thread left by an exception does not run any more, unless it was
        running already: waited for again, or by a signal handler whose thread waits for another, it
        ends with 1021.
        """
        outer = self.own.request
        if request.is_abandoned or outer is not None:  # or a signal handler asks
            self.withdraw(request, FDBError(1021))
        try:
            self.own.request = request
            while not request.done:
                self._seek_lead(request)
                if self._leader is request:
                    self._lead(request)
                    self._leader = None
                    if self._requests:
                        self._pass_on()
                elif not request.done:
                    request.release()
                    self._follow(request)
        except BaseException:
            request.is_abandoned = True
            if self._leader is request:
                self._leader = None
            self._wake_all()
            raise
        finally:
            self.own.request = outer
            waiter, request.waiter = request.waiter, None
            if waiter is not None:
                self._waiters.remove(waiter)
            request.release()

    def quiesce(self) -> None:
        """Keep every thread from committing until :meth:`resume`, by the same thread.

        Raises:
            EngineUnavailable: A signal handler asks for it, whose own thread leads.
        """
        thread = threading.get_ident()
        while self._leader != thread:
            with self._mutex:
                leader, own = self._leader, self.own.request
                if own is not None and leader is own:
                    raise EngineUnavailable(path=self._store.path, reason=IN_A_HANDLER)
                if leader is None:
                    self._leader = thread
                    self._history = History()  # another file may be there afterwards
                    return
            time.sleep(_QUIESCE_POLL_SECONDS)

    def resume(self) -> None:
        """Let commits run again after :meth:`quiesce`; calling it again does no harm."""
        if self._leader == threading.get_ident():
            self._leader = None
        self._wake_all()

    def restart_after_fork(self) -> None:
        """Start again in a forked child, and report 1021 for the commits still to run.

        The parent runs them. Takes no lock: a thread that did not come along may hold it.
        """
        for request in self._requests:
            request.end(FDBError(1021))
        self._start_empty()

    def _seek_lead(self, request: CommitRequest) -> None:
        """Take the lead, or register to be woken; neither if the request is done."""
        with self._mutex:
            leader = self._leader
            if request.done:  # told just now, maybe: then it is not woken any more
                return
            if leader is None:
                self._leader = request
            elif leader == threading.get_ident():
                raise EngineUnavailable(path=self._store.path, reason=IN_A_HANDLER)
            else:
                self._register(request)

    def _register(self, request: CommitRequest) -> None:
        """Let the request's thread be woken by its leader, or by one that gives up the lead."""
        if request.waiter is None:
            request.waiter = queue.SimpleQueue()
            self._waiters.append(request.waiter)
        self._wake_all = _alarm(self._waiters)

    def _follow(self, request: CommitRequest) -> None:
        if request.waiter is None or self._leader is None:  # given up while it registered
            return
        try:
            if request.deadline is None:
                request.waiter.get()
            else:
                request.waiter.get(timeout=max(0.0, request.deadline - monotonic()))
        except queue.Empty:
            self.withdraw(request, FDBError(1031))

    def _pass_on(self) -> None:
        """Wake one that waits for the lead, which is free; one that is about to wait sees it."""
        for one in list(self._requests):
            waiter = one.waiter
            if waiter is not None and not one.done:
                waiter.put(None)
                return

    def _lead(self, request: CommitRequest) -> None:
        try:
            if self._group is not None:
                self._tell_group()
            if not request.done:
                version, snapshot = 0, request.snapshot
                if snapshot is not None:
                    version = snapshot.version
                    if version < self._history.newest or request.size > _SMALL_BYTES:
                        snapshot = None  # too old to write by, or with too small a cache
                run = functools.partial(self._run, snapshot, version, request)
                self._store.write(request.deadline, run, snapshot, request.release)
                for one in self._group.requests if self._group is not None else ():
                    if (on_written := one.on_written) is not None:
                        on_written()
                self._tell_group()
        except (FDBError, EngineUnavailable) as error:  # it did not get the turn
            self.withdraw(request, error)
        finally:
            if not self._has_notified:
                try:
                    self._notify_watchers()
                    self._has_notified = True
                finally:
                    if not self._has_notified:  # an exception kept it from that
                        self._notify_watchers()
                        self._has_notified = True

    def _next_in_line(self) -> list[CommitRequest]:
        """Return the first requests of the line, within a group's limits; they stay in the line."""
        requests: list[CommitRequest] = []
        size = 0
        for request in list(self._requests):
            if size >= _MAX_GROUP_BYTES or len(requests) >= _MAX_GROUP_COMMITS:
                break
            if not (request.done or request.is_abandoned):
                requests.append(request)
                size += request.size
        return requests

    def _leave_line(self) -> None:
        """Remove the requests at the line's front that have ended or are abandoned."""
        for request in list(self._requests):
            if not (request.done or request.is_abandoned):
                return
            try:  # noqa: SIM105  # suppress() is two calls for each commit
                self._requests.remove(request)
            except ValueError:  # another thread has done so meanwhile
                pass

    def _run(
        self,
        snapshot: Snapshot | None,
        version: int,
        leader: CommitRequest,
        connection: sqlite3.Connection,
        is_again: bool = False,
    ) -> None:
        """Commit a group, and tell each of its requests how it ended.

        If it finds no room on the disk, it runs again once the log is used from its beginning.

        Args:
            snapshot: If ``connection`` is its connection, a transaction that may write has begun.
            version: The snapshot's, before that.
            leader: The request whose thread leads.
            connection: The one to write by.
            is_again: Whether it has found no room.
        """
        history = self._history
        requests = [leader] if len(self._requests) == 1 else self._next_in_line()
        self._group = group = CommitGroup(requests, connection)
        try:
            newest = None
            if snapshot is not None and snapshot.connection is connection:
                newest = version
            else:
                connection.execute("BEGIN IMMEDIATE")
            group.apply(history, history.begin(connection, newest))
            self._has_notified = not group.accepted
            self._groups_until_log_check -= 1
            if self._groups_until_log_check % _GROUPS_BETWEEN_EXTENSIONS == 0:
                self._store.extend_log()
            try:
                connection.execute("COMMIT" if group.accepted else "ROLLBACK")
            finally:
                group.has_ended = not connection.in_transaction
            if group.accepted:
                history.remember()
        except sqlite3.Error as error:
            group.failure = error
            if not is_again and is_unwritten(error) and self._store.reuse_log(connection):
                self._run(None, version, leader, connection, is_again=True)
                return
            logger.exception("a commit failed", extra={"path": self._store.path})
        if self._groups_until_log_check <= 0:
            self._groups_until_log_check = _GROUPS_BETWEEN_LOG_CHECKS
            self._store.shrink_large_log(connection)

    def _tell_group(self) -> None:
        """Tell the requests of the last group that were not told yet how it ended.

        They are told once the disk has the group. If an exception came before its end they are
        still in the line, and run again.
        """
        group = self._group
        if group is None:
            return
        if group.failure is None and group.has_ended and group.accepted:
            try:
                self._store.sync(group.version)
            except (FDBError, EngineUnavailable) as error:
                group.failure = error
                logger.exception("a commit failed", extra={"path": self._store.path})
        if group.failure is not None:
            for request in group.requests:
                request.end(self._error(group.failure_code(), group.failure))
        elif group.has_ended:
            for request in group.requests:
                request.end(None if request.refusal is None else FDBError(request.refusal))
        self._group = None
        self._leave_line()

    def _error(self, code: int, cause: Exception | None) -> Exception:
        """Return what one request is told: an error of its own, for threads raise it."""
        is_full = code == 1510 and cause is not None and is_unwritten(cause)
        error: Exception = FDBError(code, disk_space(self._store.path).full if is_full else "")
        if code == 1510 and getattr(cause, "sqlite_errorcode", 0) & 0xFF in _UNUSABLE:
            error = EngineUnavailable(path=self._store.path, reason=str(cause))
        error.__cause__ = cause
        return error


def _alarm(waiters: list[queue.SimpleQueue[None]]) -> Callable[[], object]:
    """Return a function in C that, called once, wakes all that wait by then."""
    waking = map(queue.SimpleQueue.put, waiters, itertools.repeat(None))
    return functools.partial(collections.deque, waking, 0)
