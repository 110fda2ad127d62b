"""Commit transactions: which thread commits, for which others, and how each learns the result.

- *The leader*, a thread that found none, waits for the writer's turn, commits all in line by then
  in one SQLite transaction, gives the turn up, waits until the disk has the log, tells each how it
  ended, and passes the lead on.
- *No wake is lost*: a thread registers to be woken, then looks whether it is done; the leader marks
  it as done, then looks whether it has registered.
- *The disk*: others see a commit before the disk has it; theirs are later in the same log. Who has
  only read waits for the disk. If that fails, the log is copied into the database, which SQLite
  syncs; until then this process reads and commits nothing.

An exception that is not the engine's, as a signal handler's, leaves behind

- *of a leader*: nothing held. While SQLite writes, it closes the file: that undoes what has not
  taken effect, and frees the turn. Its group is told 1021. The lead is free, and who waits or
  watches is woken. What one more exception keeps it from doing is done by the next call, or one
  that waits, within half a second;
- *of one that waits*: its request ends with 1021, and is not begun any more;
- *while the file is opened, closed or forked*: it is closed, and open to all again.

A signal handler's call is refused if its own thread leads, opens or closes. A fork waits until no
other thread does; a handler must not fork.
"""

from __future__ import annotations

import collections
import functools
import math
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence

from fdbqueue.engines.embedded.commit_groups import (
    CommitGroup,
    CommitRequest,
    History,
    is_unwritten,
)
from fdbqueue.engines.embedded.fdb_errors import FDBError
from fdbqueue.engines.embedded.files import disk_space
from fdbqueue.engines.embedded.keys import Range
from fdbqueue.engines.embedded.snapshots import Snapshot
from fdbqueue.engines.embedded.sqlite_file import Store
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
#: After how long one that waits looks whether the leader's thread has left without a word.
_LOOK_SECONDS = 0.5
#: After how many groups the log is made longer, and after how many its size is read.
_GROUPS_BETWEEN_EXTENSIONS, _GROUPS_BETWEEN_LOG_CHECKS = 20, 100
#: A larger commit is made by the connection that has room for it in its cache.
_SMALL_BYTES = 250_000


class Committer:
    """Commit the requests of one process, in groups.

    There is no thread of its own: a thread that waits for its commit either does the work
    for every request there is, or waits for the one that does.

    Args:
        store: Where to write.
        notify_watchers: Called after each group that took effect, with what it has written, or with
            None; calling it again does no harm.
    """

    def __init__(
        self, store: Store, notify_watchers: Callable[[Sequence[Range] | None], None]
    ) -> None:
        self._store = store
        self._notify_watchers = notify_watchers
        self._start_empty()

    def _start_empty(self) -> None:
        #: Held to take the lead and to register to be woken, and for nothing that a leader does.
        self._mutex = RLock()
        #: The line: all that were not told yet how they ended, and some that were.
        self._requests: collections.deque[CommitRequest] = collections.deque()
        #: Ask for a commit; it runs when a thread waits for it or for another one.
        self.submit: Callable[[CommitRequest], None] = self._requests.append
        self._group: CommitGroup | None = None
        #: The request whose thread leads, or the thread that keeps others from leading.
        self._leader: CommitRequest | int | None = None
        #: The thread that led last.
        self._leading_thread = 0
        self._waiters: list[queue.SimpleQueue[None]] = []
        self._history = History()
        self._groups_until_log_check = _GROUPS_BETWEEN_LOG_CHECKS

    def withdraw(self, request: CommitRequest, error: Exception) -> None:
        """Report ``error`` for a commit, which then runs only if it was running already."""
        request.end(error)
        self._leave_line()
        if self._leader is None:  # maybe it was passed on to this request's thread, which leaves
            self._wake_all()

    def wait(self, request: CommitRequest) -> None:
        """Return when the request is done, having done the work if no other thread was."""
        try:
            with request.at_work:
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
            request.end(FDBError(1021))
            self._free_left_lead()
            self._wake_all()
            raise
        finally:
            waiter, request.waiter = request.waiter, None
            if waiter is not None:
                self._waiters.remove(waiter)
            request.release()

    def _is_left(self) -> bool:
        """Tell whether an exception has taken the thread that leads out of that."""
        leader = self._leader
        return isinstance(leader, CommitRequest) and not leader.at_work.locked()

    def _free_left_lead(self) -> None:
        """Free the lead of a thread that an exception has taken out of it, in a commit maybe.

        That thread does so itself, unless one more exception comes; then any other does. Nobody
        leads before all of the group were told that its outcome is unknown.
        """
        with self._mutex:
            if not self._is_left():
                return
            for request in self._group.requests if self._group is not None else ():
                request.end(FDBError(1021))
            self._group, self._history = None, History()
            self._notify_watchers(None)
            self._leader = None

    def _wake_all(self) -> None:
        """Wake all that wait: whoever is first leads."""
        for waiter in list(self._waiters):
            waiter.put(None)

    def is_led_by_this_thread(self) -> bool:
        """Tell whether this thread is in the middle of a commit: then a signal handler asks."""
        is_led = self._leader is not None and self._leading_thread == threading.get_ident()
        return is_led and not self._is_left()

    def quiesce(self) -> None:
        """Keep every thread from committing until :meth:`resume`, by the same thread."""
        thread = threading.get_ident()
        while self._leader != thread:
            with self._mutex:
                if self._leader is None:
                    self._leading_thread, self._leader = thread, thread
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
        if self._leader is not None and self._is_left():
            self._free_left_lead()
        with self._mutex:
            if request.done:  # told just now, maybe: then it is not woken any more
                return
            if self._leader is None:
                self._leading_thread, self._leader = threading.get_ident(), request
            elif self.is_led_by_this_thread():
                raise EngineUnavailable(path=self._store.path, reason=IN_A_HANDLER)
            elif request.waiter is None:
                request.waiter = queue.SimpleQueue()
                self._waiters.append(request.waiter)

    def _follow(self, request: CommitRequest) -> None:
        if request.waiter is None or self._leader is None:  # given up while it registered
            return
        left = math.inf if request.deadline is None else request.deadline - monotonic()
        try:
            request.waiter.get(timeout=max(0.0, min(left, _LOOK_SECONDS)))
        except queue.Empty:
            if left <= _LOOK_SECONDS:  # else it looks whether the leader has left
                self.withdraw(request, FDBError(1031))

    def _pass_on(self) -> None:
        """Wake one that waits for the lead, which is free; one that is about to wait sees it."""
        for one in list(self._requests):
            waiter = one.waiter
            if waiter is not None and not one.done:
                waiter.put(None)
                return

    def _lead(self, request: CommitRequest) -> None:
        version, snapshot = 0, request.snapshot
        if snapshot is not None:
            version = snapshot.version
            if version < self._history.newest or request.size > _SMALL_BYTES:
                snapshot = None  # too old to write by, or with too small a cache
        run = functools.partial(self._run, snapshot, version, request)
        try:
            self._store.write(request.deadline, run, snapshot, request.release)
        except (FDBError, EngineUnavailable) as error:  # it did not get the turn
            self.withdraw(request, error)
            return
        group = self._group
        if group is None:  # SQLite has failed before: again, by another connection
            return
        for one in group.requests:
            if (on_written := one.on_written) is not None:
                on_written()
        self._tell(group)
        if group.accepted:
            self._notify_watchers(group.written)

    def _next_in_line(self) -> list[CommitRequest]:
        """Return the first requests of the line, within a group's limits; they stay in the line."""
        requests: list[CommitRequest] = []
        size = 0
        for request in list(self._requests):
            if size >= _MAX_GROUP_BYTES or len(requests) >= _MAX_GROUP_COMMITS:
                break
            if not request.done:
                requests.append(request)
                size += request.size
        return requests

    def _leave_line(self) -> None:
        """Remove the requests at the line's front that have ended."""
        for request in list(self._requests):
            if not request.done:
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

    def _tell(self, group: CommitGroup) -> None:
        """Tell the requests of a group how it ended, once the disk has it."""
        if group.failure is None and group.accepted:
            try:
                self._store.sync(group.version)
            except (FDBError, EngineUnavailable) as error:
                group.failure = error
                logger.exception("a commit failed", extra={"path": self._store.path})
        for request in group.requests:
            if group.failure is not None:
                request.end(self._error(group.failure_code(), group.failure))
            else:
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
