"""Commit transactions: the check for conflicts, group commit, and the version clock.

A commit waits for the writer's turn, fails with 1020 if a range it read was written by a
commit newer than its read version, applies its mutations and makes them durable. The
threads of one process form groups: the one that comes first, the leader, commits for all
that have asked by then, in one SQLite transaction and one fsync. Each group has one version;
the order within the group is the last two bytes of the versionstamp.

A signal handler may raise in the leader at any moment (:mod:`fdbqueue.engines.embedded.storage`
says when). So the requests of a group stay in the line until each was told how it ended, and
whether a group took effect is noted by the assignment that follows its COMMIT. A thread that
leaves by an exception gives up the lead by an assignment, and wakes all that wait by one call
of a function in C: the next leader tells a group that took effect that it did, and commits
another one anew.
"""

from __future__ import annotations

import collections
import functools
import itertools
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable

from fdbqueue.engines.embedded import clock
from fdbqueue.engines.embedded.changes import Changes
from fdbqueue.engines.embedded.errors import FDBError
from fdbqueue.engines.embedded.limits import TRANSACTION_LIFE_SECONDS, VERSIONS_PER_SECOND
from fdbqueue.engines.embedded.ranges import Range, RangeSet, after
from fdbqueue.engines.embedded.storage import Store
from fdbqueue.engines.embedded.writes import Mutation
from fdbqueue.exceptions import EngineUnavailable

logger = logging.getLogger(__name__)

_MAX_GROUP_BYTES = 16_000_000
_MAX_GROUP_COMMITS = 1_000  # each is checked against those before it
#: SQLITE_READONLY, SQLITE_CORRUPT, SQLITE_CANTOPEN, SQLITE_NOTADB: later commits fail, too.
_UNUSABLE = frozenset({8, 11, 14, 26})
_QUIESCE_POLL_SECONDS = 0.001
_KEPT_VERSIONS = int(TRANSACTION_LIFE_SECONDS * VERSIONS_PER_SECOND)
_NEWEST = """
    SELECT (SELECT max(version) FROM commits), counter, reading, version, unix_microseconds
    FROM clock
"""
_SET_ANCHOR = "UPDATE clock SET counter = ?, reading = ?, version = ?, unix_microseconds = ?"
#: The newest commit before the kept ones stays: it is what the oldest transactions read.
_PRUNE = """
    DELETE FROM commits
    WHERE version < (SELECT max(version) FROM commits WHERE version <= ?)
"""


class CommitRequest:
    """One transaction's commit: what it read, what it writes, and how it ended.

    ``version`` and ``stamp`` are set when it took effect, ``error`` when it did not.
    """

    __slots__ = (
        "deadline",
        "done",
        "error",
        "is_abandoned",
        "mutations",
        "read_ranges",
        "read_version",
        "refusal",
        "size",
        "stamp",
        "stamped_ranges",
        "version",
        "waiter",
        "write_ranges",
    )

    def __init__(
        self,
        *,
        read_version: int | None,
        read_ranges: list[Range],
        write_ranges: list[Range],
        mutations: list[Mutation],
        size: int,
        deadline: float | None,
    ) -> None:
        self.read_version = read_version
        self.read_ranges = read_ranges
        self.write_ranges = write_ranges
        self.mutations = mutations
        self.size = size
        self.deadline = deadline
        self.done = False
        self.error: Exception | None = None
        self.version = -1
        self.stamp = b""
        #: The write conflict ranges of the keys that the stamp became part of.
        self.stamped_ranges: list[Range] = []
        #: The code that refuses it, once its group has taken effect.
        self.refusal: int | None = None
        #: Its thread left by an exception while it waited.
        self.is_abandoned = False
        self.waiter: queue.SimpleQueue[None] | None = None

    def end(self, error: Exception | None) -> None:
        """Tell how it ended, unless that was told; the caller holds the mutex."""
        if not self.done:
            if error is None:
                self.write_ranges += self.stamped_ranges
            self.error = error
            self.done = True
        if self.waiter is not None:
            self.waiter.put(None)


class _Group:
    """Requests committed together, until each was told how that ended."""

    __slots__ = ("accepted", "failure", "has_ended", "requests")

    def __init__(self, requests: list[CommitRequest]) -> None:
        self.requests = requests
        self.accepted = 0
        #: Whether SQLite's transaction is over: None before its end was asked for.
        self.has_ended: bool | None = None
        self.failure: sqlite3.Error | None = None

    def failure_code(self) -> int:
        """Return 1510 where it certainly had no effect, 1021 otherwise."""
        is_unwritten = self.failure is not None and _is_unwritten(self.failure)
        return 1021 if self.has_ended and not is_unwritten else 1510


class Committer:
    """Commit the requests of one process, in groups.

    There is no thread of its own: a thread that waits for its commit either does the work
    for every request there is, or waits for the one that does.

    Args:
        store: Where to write.
        committed: Called after each group that took effect; calling it again does no harm.
    """

    def __init__(self, store: Store, committed: Callable[[], None]) -> None:
        self._store = store
        self._committed = committed
        self._start_empty()

    def _start_empty(self) -> None:
        self._mutex = threading.Lock()
        #: The line: all that were not told yet how they ended, and some that were.
        self._requests: collections.deque[CommitRequest] = collections.deque()
        self._group: _Group | None = None
        self._is_announced = True
        #: The request whose thread leads, or the thread that keeps others from leading.
        self._leader: CommitRequest | int | None = None
        self._waiters: list[queue.SimpleQueue[None]] = []
        self._wake_all = _alarm(self._waiters)
        self._pruned_at = 0

    def submit(self, request: CommitRequest) -> None:
        """Ask for a commit; it runs when a thread waits for it or for another one."""
        with self._mutex:
            self._requests.append(request)

    def withdraw(self, request: CommitRequest, error: Exception) -> None:
        """Report ``error`` for a commit, which then runs only if it was running already."""
        with self._mutex:
            request.end(error)
            self._leave_line()

    def wait(self, request: CommitRequest) -> None:
        """Return when the request is done, having done the work if no other thread was.

        A request whose thread left by an exception does not run any more, unless it was
        running already: waited for again, it ends with 1021.
        """
        if request.is_abandoned:
            self.withdraw(request, FDBError(1021))
        try:
            while True:
                with self._mutex:
                    if request.done:  # told just now, maybe: then it is not woken any more
                        break
                    if self._leader is None:
                        self._leader = request
                    else:
                        self._register(request)
                if self._leader is request:
                    self._lead(request)
                    self._pass_on()
                else:
                    self._follow(request)
        except BaseException:
            request.is_abandoned = True
            if self._leader is request:
                self._leader = None
            self._wake_all()
            raise
        finally:
            waiter, request.waiter = request.waiter, None
            if waiter is not None:
                self._waiters.remove(waiter)

    def quiesce(self) -> None:
        """Keep every thread from committing until :meth:`resume`, by the same thread."""
        thread = threading.get_ident()
        while self._leader != thread:
            with self._mutex:
                if self._leader is None:
                    self._leader = thread
                    return
            time.sleep(_QUIESCE_POLL_SECONDS)

    def resume(self) -> None:
        """Let commits run again after :meth:`quiesce`; calling it again does no harm."""
        thread = threading.get_ident()
        with self._mutex:
            if self._leader == thread:
                self._leader = None
        self._wake_all()

    def forget(self) -> None:
        """Start anew in a forked child, and report 1021 for the commits still to run.

        The parent runs them. Takes no lock: a thread that did not come along may hold it.
        """
        for request in self._requests:
            request.end(FDBError(1021))
        self._start_empty()

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
                request.waiter.get(timeout=max(0.0, request.deadline - time.monotonic()))
        except queue.Empty:
            self.withdraw(request, FDBError(1031))

    def _pass_on(self) -> None:
        with self._mutex:
            self._leader = None
            for request in self._requests:
                if request.waiter is not None and not request.done:
                    request.waiter.put(None)
                    return

    def _lead(self, request: CommitRequest) -> None:
        try:
            if self._group is not None:
                self._tell_group()
            if not request.done:
                self._store.write(request.deadline, self._run)
        except (FDBError, EngineUnavailable) as error:  # it did not get the turn
            self.withdraw(request, error)
        finally:
            if not self._is_announced:
                try:
                    self._announce()
                finally:
                    if not self._is_announced:  # an exception kept it from that
                        self._announce()

    def _announce(self) -> None:
        self._committed()
        self._is_announced = True

    def _take_group(self) -> _Group:
        """Return the first requests of the line, within a group's limits; they stay in the line."""
        requests: list[CommitRequest] = []
        size = 0
        with self._mutex:
            self._leave_line()
            for request in self._requests:
                if size >= _MAX_GROUP_BYTES or len(requests) >= _MAX_GROUP_COMMITS:
                    break
                if not (request.done or request.is_abandoned):
                    requests.append(request)
                    size += request.size
        return _Group(requests)

    def _leave_line(self) -> None:
        """Remove the requests at the line's front that have ended or are abandoned."""
        requests = self._requests
        while requests and (requests[0].done or requests[0].is_abandoned):
            requests.popleft()

    def _run(self, connection: sqlite3.Connection) -> None:
        """Commit a group, and tell each of its requests how it ended."""
        group = self._group = self._take_group()
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._apply(connection, group)
            self._is_announced = not group.accepted
            try:
                connection.execute("COMMIT" if group.accepted else "ROLLBACK")
            finally:
                group.has_ended = not connection.in_transaction
        except sqlite3.Error as error:
            group.failure = error
            logger.exception("a commit failed", extra={"path": self._store.path})
        self._tell_group()
        if group.failure is None and group.accepted:
            self._store.keep_log_small(connection)

    def _tell_group(self) -> None:
        """Tell the requests of the last group that were not told yet how it ended.

        Where an exception came before its end they are still in the line, and run again.
        """
        group = self._group
        if group is None:
            return
        with self._mutex:
            if group.failure is not None:
                for request in group.requests:
                    request.end(self._error(group.failure_code(), group.failure))
            elif group.has_ended:
                for request in group.requests:
                    request.end(None if request.refusal is None else FDBError(request.refusal))
            self._group = None
            self._leave_line()

    def _error(self, code: int, cause: sqlite3.Error | None) -> Exception:
        """Return what one request is told: an error of its own, for threads raise it."""
        error: Exception = FDBError(code)
        if code == 1510 and getattr(cause, "sqlite_errorcode", 0) & 0xFF in _UNUSABLE:
            error = EngineUnavailable(path=self._store.path, reason=str(cause))
        error.__cause__ = cause
        return error

    def _apply(self, connection: sqlite3.Connection, group: _Group) -> None:
        """Write what the group's requests do, except those that conflict."""
        newest, *row = connection.execute(_NEWEST).fetchone()
        anchor = clock.Anchor(*row)
        version, new_anchor = clock.next_version(anchor, newest)
        history = _History(connection, newest)
        changes = Changes(connection)
        written: list[Range] = []
        earlier: list[RangeSet] = []
        group.accepted = 0
        for request in group.requests:
            if request.read_ranges:
                request.refusal = history.conflict(request) or _conflict(
                    earlier, request.read_ranges
                )
                if request.refusal:
                    continue
            request.version = version
            if request.read_version is None:  # a commit that has read nothing reads now
                request.read_version = newest
            request.stamp = version.to_bytes(8, "big") + group.accepted.to_bytes(2, "big")
            stamped = changes.add(request.mutations, request.stamp)
            ranges = request.write_ranges
            if stamped:
                request.stamped_ranges = [(key, after(key)) for key in stamped]
                ranges = ranges + request.stamped_ranges
            group.accepted += 1
            written.extend(ranges)
            if len(group.requests) > 1:
                earlier.append(RangeSet.of(ranges))
        if group.accepted:
            changes.write()
            encoded = RangeSet.of(written).encode()
            connection.execute("INSERT INTO commits VALUES (?, ?)", (version, encoded))
            if new_anchor is not anchor:
                connection.execute(_SET_ANCHOR, new_anchor)
            self._prune(connection, version)

    def _prune(self, connection: sqlite3.Connection, version: int) -> None:
        if version - self._pruned_at < VERSIONS_PER_SECOND:
            return
        self._pruned_at = version
        connection.execute(_PRUNE, (version - _KEPT_VERSIONS,))


def _alarm(waiters: list[queue.SimpleQueue[None]]) -> Callable[[], object]:
    """Return a function in C that, called once, wakes all that wait by then."""
    waking = map(queue.SimpleQueue.put, waiters, itertools.repeat(None))
    return functools.partial(collections.deque, waking, 0)


def _is_unwritten(error: sqlite3.Error) -> bool:
    """Tell whether a failed COMMIT certainly had no effect: its last frame is not there."""
    name = getattr(error, "sqlite_errorname", "")  # Python 3.11
    return name in {"SQLITE_FULL", "SQLITE_IOERR_WRITE"}


class _History:
    """The write conflict ranges of recent commits, read from the file when asked for."""

    def __init__(self, connection: sqlite3.Connection, newest: int) -> None:
        self._connection = connection
        self._newest = newest
        self._loaded: dict[int, RangeSet] = {}
        self._loaded_from = newest

    def conflict(self, request: CommitRequest) -> int | None:
        """Return the code that refuses the request: 1020, 1007, or None."""
        read_version = request.read_version
        if read_version is None or read_version >= self._newest:
            return None
        if read_version < self._loaded_from:
            (oldest,) = self._connection.execute("SELECT min(version) FROM commits").fetchone()
            if read_version < oldest:
                return 1007
            rows = self._connection.execute(
                "SELECT version, ranges FROM commits WHERE version > ? AND version <= ?",
                (read_version, self._loaded_from),
            )
            self._loaded.update((version, RangeSet.decode(data)) for version, data in rows)
            self._loaded_from = read_version
        newer = (ranges for version, ranges in self._loaded.items() if version > read_version)
        return _conflict(newer, request.read_ranges)


def _conflict(written: Iterable[RangeSet], read_ranges: list[Range]) -> int | None:
    for ranges in written:
        for begin, end in read_ranges:
            if ranges.intersects(begin, end):
                return 1020
    return None
