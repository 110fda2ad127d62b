"""Groups of commits: which of them conflict, and what they change in the file.

A commit fails with 1020 if a range it read was written after its read version, also by an earlier
one of its group. The others are one SQLite transaction, under one version; their order is the last
two bytes of the versionstamp.
"""

from __future__ import annotations

import itertools
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from fdbqueue.engines.embedded import version_clock
from fdbqueue.engines.embedded.fdb_limits import TRANSACTION_LIFE_SECONDS, VERSIONS_PER_SECOND
from fdbqueue.engines.embedded.keys import Range, RangeSet, after, encoded
from fdbqueue.engines.embedded.snapshots import Snapshot
from fdbqueue.engines.embedded.write_buffer import OPERATIONS, Mutation, stamped

#: Among others a key costs about half of what it costs alone. There is a statement for each
#: number of keys, and SQLite prepares each.
_KEYS_AT_ONCE = 16

_GET = [
    "SELECT " + ", ".join(["(SELECT value FROM kv WHERE key = ?)"] * keys)
    for keys in range(_KEYS_AT_ONCE + 1)
]
_SET = [
    f"INSERT INTO kv VALUES {', '.join(['(?, ?)'] * keys)}"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    for keys in range(_KEYS_AT_ONCE + 1)
]

#: Of no more keys a cleared range looks for those in it; to write all of them takes longer then.
_SEARCHED_KEYS = 250

_KEPT_VERSIONS = int(TRANSACTION_LIFE_SECONDS * VERSIONS_PER_SECOND)
#: No more commits than this are remembered; those before them are read from the file.
_REMEMBERED_COMMITS = 1_000
#: No more values than this are remembered, and none that is longer.
_REMEMBERED_VALUES, _VALUE_BYTES = 500, 100
_NEWEST = """
    SELECT (SELECT max(version) FROM commits), counter, reading, version, unix_microseconds
    FROM clock
"""
_SET_ANCHOR = "UPDATE clock SET counter = ?, reading = ?, version = ?, unix_microseconds = ?"
_ADD = "INSERT INTO commits VALUES (?, ?)"
_SINCE = """
    SELECT version, ranges FROM commits WHERE version > ? AND version <= ? ORDER BY version
"""
#: The newest commit before the kept ones stays: it is what the oldest transactions read.
_PRUNE = """
    DELETE FROM commits
    WHERE version < (SELECT max(version) FROM commits WHERE version <= ?)
"""


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
    #: Called once its group is written, by the thread that leads.
    on_written: Callable[[], object] | None = None
    #: What its thread waits by, if another thread leads.
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
        #: Held by its thread while that waits for it, by ``with``, which no signal keeps from
        #: letting go of it.
        self.at_work = threading.Lock()

    def end(self, error: Exception | None) -> None:
        """Tell how it ended; what was told first counts, and telling it again does no harm."""
        (error,) = vars(self).setdefault("told", (error,))  # one step: of two threads one is first
        if not self.done:
            if error is None:
                self.write_ranges += self.stamped_ranges
            self.error = error
            self.done = True
        waiter = self.waiter
        if waiter is not None:  # its thread may leave by itself meanwhile
            waiter.put(None)

    def release(self) -> None:
        """Release the snapshot; called by the thread that waits, or when none can any more."""
        snapshot, self.snapshot = self.snapshot, None
        if snapshot is not None:
            snapshot.release()


class CommitGroup:
    """Requests committed together, until each was told how that ended.

    A key that the group changes more than once is read once and written once.

    Args:
        requests: Those in the order of the line.
        connection: What they are written by.
    """

    accepted = 0
    version = 0
    #: Whether SQLite's transaction is over.
    has_ended = False
    failure: Exception | None = None

    def __init__(self, requests: list[CommitRequest], connection: sqlite3.Connection) -> None:
        self.requests = requests
        self.connection = connection
        #: The write conflict ranges of those that took effect.
        self.written: list[Range] = []
        #: What the keys come to hold, until it is written; None clears.
        self._values: dict[bytes, bytes | None] = {}
        #: What some of them hold before that; see :class:`History`.
        self._known: dict[bytes, bytes | None] = {}

    def failure_code(self) -> int:
        """Return 1510 if it certainly had no effect, 1021 otherwise."""
        has_room = self.failure is None or not is_unwritten(self.failure)
        return 1021 if self.has_ended and has_room else 1510

    def apply(self, history: History, version: int) -> None:
        """Write what the requests do, except those that conflict, inside SQLite's transaction.

        Args:
            history: The commits before.
            version: The group's.
        """
        self.version = version
        written = self.written = []
        earlier: list[RangeSet] = []
        self.accepted = 0
        self._known = history.known
        for request in self.requests:
            if request.read_version is None:  # a commit that has read nothing reads now
                request.read_version = history.newest
            request.refusal = None  # by a group that was cut short
            if request.read_ranges and (earlier or request.read_version < history.newest):
                request.refusal = history.conflict(
                    self.connection, request.read_version, request.read_ranges
                ) or conflict(earlier, request.read_ranges)
                if request.refusal:
                    continue
            request.version = version
            request.stamp = version.to_bytes(8, "big") + self.accepted.to_bytes(2, "big")
            stamped_keys = self._change(request.mutations, request.stamp)
            ranges = request.write_ranges
            if stamped_keys:
                request.stamped_ranges = [(key, after(key)) for key in stamped_keys]
                ranges = [*ranges, *request.stamped_ranges]
            self.accepted += 1
            written += ranges
            if len(self.requests) > 1:
                earlier.append(RangeSet.of(ranges))
        if self.accepted:
            self._write()
            history.add(self.connection, written)

    def _change(self, mutations: list[Mutation], stamp: bytes) -> list[bytes]:
        """Apply the mutations of one commit, in order, after the earlier commits' mutations.

        Returns:
            The keys that its versionstamp became part of.
        """
        values = self._values
        stamped_keys = []
        for place, (name, key, param) in enumerate(mutations):
            if name == "set":
                values[key] = param
            elif name == "clear":
                values[key] = None
            elif name == "clear_range":
                self._clear_range(key, param)
            elif name == "set_versionstamped_value":
                values[key] = stamped(param, stamp)
            elif name == "set_versionstamped_key":
                stamped_keys.append(stamped(key, stamp))
                values[stamped_keys[-1]] = param
            else:
                if key not in values:
                    self._read(mutations[place : place + _KEYS_AT_ONCE])
                values[key] = OPERATIONS[name](values[key], param)
        return stamped_keys

    def _clear_range(self, begin: bytes, end: bytes) -> None:
        """Clear what is stored in a range, and what was worked out for its keys."""
        if len(self._values) + len(self._known) > _SEARCHED_KEYS:
            self._write()
            self._known.clear()
        both = self._values, self._known
        for held, key in [(one, key) for one in both for key in one if begin <= key < end]:
            held[key] = None
        self.connection.execute("DELETE FROM kv WHERE key >= ? AND key < ?", (begin, end))

    def _read(self, mutations: list[Mutation]) -> None:
        """Start from what is stored under the keys that the next mutations depend on."""
        values, known = self._values, self._known
        keys = []
        for name, key, _ in mutations:
            if name in OPERATIONS and key not in values:
                if key in known:
                    values[key] = known[key]
                else:
                    keys.append(key)
        if keys:
            stored = self.connection.execute(_GET[len(keys)], keys).fetchone()
            found = dict(zip(keys, stored, strict=True))
            values.update(found)
            known.update(found)

    def _write(self) -> None:
        """Write what was worked out so far."""
        rows: list[bytes] = []  # each key followed by its value
        cleared = []
        known = self._known
        for key, value in self._values.items():
            if key in known:
                if value is None or len(value) <= _VALUE_BYTES:
                    known[key] = value
                else:
                    del known[key]
            if value is None:
                cleared.append((key,))
            else:
                rows += (key, value)
        for start in range(0, len(rows), 2 * _KEYS_AT_ONCE):
            part = rows[start : start + 2 * _KEYS_AT_ONCE]
            self.connection.execute(_SET[len(part) // 2], part)
        if cleared:
            self.connection.executemany("DELETE FROM kv WHERE key = ?", cleared)
        self._values.clear()


def is_unwritten(error: Exception) -> bool:
    """Tell whether there was no room for a commit, so that it certainly had no effect."""
    name = getattr(error, "sqlite_errorname", "")  # Python 3.11
    return name in {"SQLITE_FULL", "SQLITE_IOERR_WRITE"}


class History:
    """Read and write the history, by the connection of the process that has the turn.

    A process remembers what it read and wrote. Every commit makes a newer version, so this holds
    as long as the file's newest version is the one it remembers; otherwise it reads again. So a
    process that is alone on the file never reads its history.

    It also remembers what its atomic operations made of some keys (the counts of a queue), so that
    its next commit need not read them.

    Attributes:
        newest: The version of the newest commit.
        known: What some keys hold at that version; inside a transaction, at this point of it.
    """

    def __init__(self) -> None:
        self.newest = -1
        self.known: dict[bytes, bytes | None] = {}
        self._values: dict[bytes, bytes | None] = {}
        self._anchor = version_clock.Anchor("", 0, 0, 0)
        #: The write conflict ranges of every commit after this version, by version, in order;
        #: as the file has them, until they are asked for.
        self._since = -1
        self._ranges: dict[int, RangeSet | bytes] = {}
        self._pruned_at = 0
        #: What the transaction under way adds.
        self._added: tuple[int, version_clock.Anchor, bytes] | None = None

    def begin(self, connection: sqlite3.Connection, newest: int | None) -> int:
        """Return the version of the commit that begins inside a transaction.

        Args:
            newest: The version of the file's newest commit; None if that is not known.
        """
        self._added = None
        # What the transaction changes is remembered if it takes effect.
        self.known, self._values = self._values, {}
        if newest is None or newest != self.newest:
            newest, *row = connection.execute(_NEWEST).fetchone()
            if newest != self.newest:
                anchor = version_clock.Anchor(*row)
                self._ranges, self._since, self._anchor, self.known = {}, newest, anchor, {}
                self.newest = newest
        version, anchor = version_clock.next_version(self._anchor, newest)
        self._added = version, anchor, b""
        return version

    def conflict(
        self, connection: sqlite3.Connection, read_version: int, read_ranges: list[Range]
    ) -> int | None:
        """Return the code that refuses a commit by what it read: 1020, 1007, or None."""
        if read_version >= self.newest:
            return None
        if read_version < self._since:
            (oldest,) = connection.execute("SELECT min(version) FROM commits").fetchone()
            if read_version < oldest:
                return 1007
            rows = connection.execute(_SINCE, (read_version, self._since)).fetchall()
            self._since, self._ranges = read_version, dict([*rows, *self._ranges.items()])
        return conflict(self._newer(read_version), read_ranges)

    def _newer(self, version: int) -> Iterator[RangeSet]:
        """Return the write conflict ranges of the commits after a version, the newest first."""
        for newer in itertools.takewhile(version.__lt__, reversed(self._ranges)):
            ranges = self._ranges[newer]
            if isinstance(ranges, bytes):
                ranges = self._ranges[newer] = RangeSet.decode(ranges)
            yield ranges

    def add(self, connection: sqlite3.Connection, written: list[Range]) -> None:
        """Add the commit under way.

        Args:
            written: Its write conflict ranges.
        """
        assert self._added is not None
        version, anchor, _ = self._added
        ranges = encoded(written)
        connection.execute(_ADD, (version, ranges))
        if anchor is not self._anchor:
            connection.execute(_SET_ANCHOR, anchor)
        if version - self._pruned_at >= VERSIONS_PER_SECOND:
            self._prune(connection, version)
        self._added = version, anchor, ranges

    def _prune(self, connection: sqlite3.Connection, version: int) -> None:
        self._pruned_at = version
        oldest = version - _KEPT_VERSIONS
        connection.execute(_PRUNE, (oldest,))
        kept = {version: ranges for version, ranges in self._ranges.items() if version > oldest}
        self._since, self._ranges = max(self._since, oldest), kept

    def remember(self) -> None:
        """Take the commit that was added as the newest: it has taken effect."""
        if self._added is None:
            return
        if len(self._ranges) >= _REMEMBERED_COMMITS:
            self._since, self._ranges = self.newest, {}
        version, anchor, ranges = self._added
        self._ranges[version] = ranges
        self._anchor = anchor
        self.newest = version
        self._values = self.known if len(self.known) <= _REMEMBERED_VALUES else {}
        self._added = None


def advance(connection: sqlite3.Connection, version: int) -> None:
    """Let later commits have versions above one that no commit has had."""
    now = version_clock.reading(), version, version_clock.unix_microseconds()
    connection.execute(_SET_ANCHOR, version_clock.Anchor(version_clock.counter(), *now))


def conflict(written: Iterable[RangeSet], read_ranges: list[Range]) -> int | None:
    """Return 1020 if a range that was read was written, otherwise None."""
    for ranges in written:
        for begin, end in read_ranges:
            if ranges.intersects(begin, end):
                return 1020
    return None
