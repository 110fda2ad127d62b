"""The history of a file: its newest version, the clock's anchor, and what commits wrote lately."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterable, Iterator

from fdbqueue.engines.embedded import clock
from fdbqueue.engines.embedded.limits import TRANSACTION_LIFE_SECONDS, VERSIONS_PER_SECOND
from fdbqueue.engines.embedded.ranges import Range, RangeSet, encoded

_KEPT_VERSIONS = int(TRANSACTION_LIFE_SECONDS * VERSIONS_PER_SECOND)
#: No more commits than this are remembered; those before them are read from the file.
_REMEMBERED = 1_000
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


class History:
    """Read and write the history, by the connection of the process that has the turn.

    A process remembers what it read and wrote. Every commit makes a newer version, so this holds
    as long as the file's newest version is the one it remembers; otherwise it reads anew. So a
    process that is alone on the file never reads its history.
    """

    def __init__(self) -> None:
        self.newest = -1
        self._anchor = clock.Anchor("", 0, 0, 0)
        #: The write conflict ranges of every commit after this version, by version, in order;
        #: as the file has them, until they are asked for.
        self._since = -1
        self._ranges: dict[int, RangeSet | bytes] = {}
        self._pruned_at = 0
        #: What the transaction under way adds.
        self._added: tuple[int, clock.Anchor, bytes] | None = None

    def begin(self, connection: sqlite3.Connection, newest: int | None) -> int:
        """Return the version of the commit that begins inside a transaction.

        Args:
            newest: The version of the file's newest commit; None where that is not known.
        """
        self._added = None
        if newest is None or newest != self.newest:
            newest, *row = connection.execute(_NEWEST).fetchone()
            if newest != self.newest:
                anchor = clock.Anchor(*row)
                # The newest comes last: what a signal cuts short is read anew by the next commit.
                self._ranges, self._since, self._anchor = {}, newest, anchor
                self.newest = newest
        version, anchor = clock.next_version(self._anchor, newest)
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
        if len(self._ranges) >= _REMEMBERED:
            self._since, self._ranges = self.newest, {}
        version, anchor, ranges = self._added
        self._ranges[version] = ranges
        self._anchor = anchor
        self.newest = version  # last, as above
        self._added = None


def conflict(written: Iterable[RangeSet], read_ranges: list[Range]) -> int | None:
    """Return 1020 where a range that was read was written, otherwise None."""
    for ranges in written:
        for begin, end in read_ranges:
            if ranges.intersects(begin, end):
                return 1020
    return None
