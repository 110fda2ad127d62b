"""Groups of commits: which of them conflict, and what they change in the file.

A commit fails with 1020 if a range it read was written by a commit newer than its read
version, or by an earlier one of its group. Those that do not are written in one SQLite
transaction. Each group has one version; the order within the group is the last two bytes of
the versionstamp.
"""

from __future__ import annotations

import queue
import sqlite3
from collections.abc import Sequence

from fdbqueue.engines.embedded.changes import Changes
from fdbqueue.engines.embedded.history import History, conflict
from fdbqueue.engines.embedded.ranges import Range, RangeSet, after
from fdbqueue.engines.embedded.snapshots import Snapshot
from fdbqueue.engines.embedded.writes import Mutation


class CommitRequest:
    """One transaction's commit: what it read, what it writes, and how it ended.

    ``version`` and ``stamp`` are set when it took effect, ``error`` when it did not.
    """

    done = False
    error: Exception | None = None
    version = -1
    stamp = b""
    #: What it read by, until it is released.
    snapshot: Snapshot | None = None
    #: The write conflict ranges of the keys that the stamp became part of.
    stamped_ranges: Sequence[Range] = ()
    #: The code that refuses it, once its group has taken effect.
    refusal: int | None = None
    #: Its thread left by an exception while it waited.
    is_abandoned = False
    #: What its thread waits by, where another thread leads.
    waiter: queue.SimpleQueue[None] | None = None

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

    def end(self, error: Exception | None) -> None:
        """Tell how it ended, unless that was told; the caller holds the mutex."""
        if not self.done:
            if error is None:
                self.write_ranges += self.stamped_ranges
            self.error = error
            self.done = True
        if self.waiter is not None:
            self.waiter.put(None)

    def release(self) -> None:
        """Release the snapshot; called by the thread that waits, or when none can any more."""
        snapshot, self.snapshot = self.snapshot, None
        if snapshot is not None:
            snapshot.release()


class Group:
    """Requests committed together, until each was told how that ended."""

    accepted = 0
    #: Whether SQLite's transaction is over: None before its end was asked for.
    has_ended: bool | None = None
    failure: sqlite3.Error | None = None

    def __init__(self, requests: list[CommitRequest]) -> None:
        self.requests = requests

    def failure_code(self) -> int:
        """Return 1510 where it certainly had no effect, 1021 otherwise."""
        is_unwritten = self.failure is not None and _is_unwritten(self.failure)
        return 1021 if self.has_ended and not is_unwritten else 1510

    def apply(self, connection: sqlite3.Connection, history: History, version: int) -> None:
        """Write what the requests do, except those that conflict.

        Args:
            connection: Inside the transaction that writes.
            history: The commits before.
            version: The group's.
        """
        changes = Changes(connection)
        written: list[Range] = []
        earlier: list[RangeSet] = []
        self.accepted = 0
        for request in self.requests:
            if request.read_version is None:  # a commit that has read nothing reads now
                request.read_version = history.newest
            if request.read_ranges:
                request.refusal = history.conflict(
                    connection, request.read_version, request.read_ranges
                ) or conflict(earlier, request.read_ranges)
                if request.refusal:
                    continue
            request.version = version
            request.stamp = version.to_bytes(8, "big") + self.accepted.to_bytes(2, "big")
            stamped = changes.add(request.mutations, request.stamp)
            ranges = request.write_ranges
            if stamped:
                request.stamped_ranges = [(key, after(key)) for key in stamped]
                ranges = [*ranges, *request.stamped_ranges]
            self.accepted += 1
            written += ranges
            if len(self.requests) > 1:
                earlier.append(RangeSet.of(ranges))
        if self.accepted:
            changes.write()
            history.add(connection, written)


def _is_unwritten(error: sqlite3.Error) -> bool:
    """Tell whether a failed COMMIT certainly had no effect: its last frame is not there."""
    name = getattr(error, "sqlite_errorname", "")  # Python 3.11
    return name in {"SQLITE_FULL", "SQLITE_IOERR_WRITE"}
