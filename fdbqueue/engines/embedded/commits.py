"""Commit transactions: the check for conflicts, group commit, and the version clock.

A commit waits for the writer's turn, fails with 1020 if a range it read was written by a
commit newer than its read version, applies its mutations and makes them durable. The
threads of one process form groups: whoever comes first commits for all that have asked
by then, in one SQLite transaction and one fsync. Each group has one version; the order
within the group is the last two bytes of the versionstamp.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable

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
#: SQLITE_READONLY, SQLITE_CORRUPT, SQLITE_CANTOPEN, SQLITE_NOTADB: not for this commit alone.
_UNUSABLE = frozenset({8, 11, 14, 26})
_QUIESCE_POLL_SECONDS = 0.001
_KEPT_VERSIONS = int(TRANSACTION_LIFE_SECONDS * VERSIONS_PER_SECOND)
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
        "mutations",
        "read_ranges",
        "read_version",
        "size",
        "stamp",
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
        self.waiter: threading.Lock | None = None

    def wake(self) -> None:
        """Let the thread that waits for this commit look again; the caller holds the mutex."""
        if self.waiter is not None and self.waiter.locked():
            self.waiter.release()


class Committer:
    """Commit the requests of one process, in groups.

    There is no thread of its own: a thread that waits for its commit either does the work
    for every request there is, or waits for the one that does.

    Args:
        store: Where to write.
        committed: Called after each group that took effect.
    """

    def __init__(self, store: Store, committed: Callable[[], None]) -> None:
        self._store = store
        self._committed = committed
        self._mutex = threading.Lock()
        self._requests: collections.deque[CommitRequest] = collections.deque()
        self._leading = False
        self._last_commit_at = time.monotonic()
        self._pruned_at = 0

    def submit(self, request: CommitRequest) -> None:
        """Ask for a commit; it runs when somebody waits for it or for another one."""
        with self._mutex:
            self._requests.append(request)

    def withdraw(self, request: CommitRequest, error: Exception) -> None:
        """Report ``error`` for a commit, which then runs only if it was running already."""
        with self._mutex:
            if request in self._requests:
                self._requests.remove(request)
            if not request.done:
                request.error, request.done = error, True
                request.wake()

    def wait(self, request: CommitRequest) -> None:
        """Return when the request is done, having done the work if nobody else was."""
        while not request.done:
            leading = False
            try:
                with self._mutex:
                    if not self._leading:
                        leading = self._leading = True
                    elif request.waiter is None:
                        request.waiter = threading.Lock()
                        request.waiter.acquire()
                if leading:
                    self._lead(request)
                else:
                    self._follow(request)
            finally:
                if leading:
                    self._pass_on()

    def quiesce(self) -> None:
        """Keep every thread from committing until :meth:`resume`; for a fork."""
        while True:
            with self._mutex:
                if not self._leading:
                    self._leading = True
                    return
            time.sleep(_QUIESCE_POLL_SECONDS)

    def resume(self) -> None:
        """Let commits run again after :meth:`quiesce`."""
        self._pass_on()

    def disown(self) -> None:
        """Report 1021 for the commits still to run; a forked child's parent runs them.

        Takes no lock: a thread that did not come along may hold it.
        """
        for request in self._requests:
            request.error, request.done = FDBError(1021), True

    def _follow(self, request: CommitRequest) -> None:
        waiter = request.waiter
        if waiter is None or request.done:
            return
        if request.deadline is None:
            waiter.acquire()
        elif not waiter.acquire(timeout=max(0.0, request.deadline - time.monotonic())):
            self.withdraw(request, FDBError(1031))

    def _pass_on(self) -> None:
        with self._mutex:
            self._leading = False
            for request in self._requests:
                if request.waiter is not None:
                    request.wake()
                    return

    def _lead(self, request: CommitRequest) -> None:
        try:
            with self._store.writer(request.deadline) as connection:
                self._run(connection)
        except (FDBError, EngineUnavailable) as error:  # its turn did not come
            self.withdraw(request, error)
        except BaseException:
            self.withdraw(request, FDBError(1021))
            raise

    def _take_group(self, group: list[CommitRequest]) -> None:
        """Move requests into the group, within its limits."""
        size = 0
        with self._mutex:
            while self._requests and size < _MAX_GROUP_BYTES and len(group) < _MAX_GROUP_COMMITS:
                group.append(self._requests.popleft())
                size += group[-1].size

    def _run(self, connection: sqlite3.Connection) -> None:
        """Commit a group, and tell each of its requests how it ended."""
        group: list[CommitRequest] = []
        accepted: list[CommitRequest] = []
        failure: int | None = 1020  # for an interrupt before anything took effect
        cause: sqlite3.Error | None = None
        try:
            self._take_group(group)
            connection.execute("BEGIN IMMEDIATE")
            accepted = self._apply_group(connection, group)
            failure = 1021
            connection.execute("COMMIT" if accepted else "ROLLBACK")
            failure = None
        except sqlite3.Error as error:
            logger.exception("a commit failed", extra={"path": self._store.path})
            cause = error
            if failure == 1020 or connection.in_transaction or _is_unwritten(error):
                failure = 1510
        finally:
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # tried again by the next commit
                    connection.execute("ROLLBACK")
            with self._mutex:
                for request in group:
                    if failure is not None:
                        request.error = self._error(failure, cause)
                    request.done = True
                    request.wake()
        if failure is None and accepted:
            self._committed()
            with contextlib.suppress(OSError, sqlite3.Error):  # what was committed stays so
                self._store.keep_log_small(connection)

    def _error(self, code: int, cause: sqlite3.Error | None) -> Exception:
        """Return what one request is told: an error of its own, for threads raise it."""
        error: Exception = FDBError(code)
        if code == 1510 and getattr(cause, "sqlite_errorcode", 0) & 0xFF in _UNUSABLE:
            error = EngineUnavailable(path=self._store.path, reason=str(cause))
        error.__cause__ = cause
        return error

    def _apply_group(
        self, connection: sqlite3.Connection, group: list[CommitRequest]
    ) -> list[CommitRequest]:
        (newest,) = connection.execute("SELECT max(version) FROM commits").fetchone()
        version = self._next_version(newest)
        history = _History(connection, newest)
        changes = Changes(connection)
        written: list[Range] = []
        earlier: list[RangeSet] = []
        accepted: list[CommitRequest] = []
        for request in group:
            code = history.conflict(request) or _conflict(earlier, request.read_ranges)
            if code:
                request.error = FDBError(code)
                continue
            request.version = version
            if request.read_version is None:  # a commit that has read nothing reads now
                request.read_version = newest
            request.stamp = version.to_bytes(8, "big") + len(accepted).to_bytes(2, "big")
            for key in changes.add(request.mutations, request.stamp):
                request.write_ranges.append((key, after(key)))
            accepted.append(request)
            written.extend(request.write_ranges)
            if len(group) > 1:
                earlier.append(RangeSet.of(request.write_ranges))
        if accepted:
            changes.write()
            encoded = RangeSet.of(written).encode()
            connection.execute("INSERT INTO commits VALUES (?, ?)", (version, encoded))
            self._prune(connection, version)
        return accepted

    def _next_version(self, newest: int) -> int:
        """Return a version above the newest that keeps pace with real time.

        Where the clock was set back, time goes on from the newest version, so that old
        versions still age.
        """
        now = time.monotonic()
        elapsed = int((now - self._last_commit_at) * VERSIONS_PER_SECOND)
        self._last_commit_at = now
        clock = self._store.clock()
        return clock if clock > newest else newest + max(1, elapsed)

    def _prune(self, connection: sqlite3.Connection, version: int) -> None:
        if version - self._pruned_at < VERSIONS_PER_SECOND:
            return
        self._pruned_at = version
        connection.execute(_PRUNE, (version - _KEPT_VERSIONS,))


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
        if not request.read_ranges or read_version is None or read_version >= self._newest:
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
