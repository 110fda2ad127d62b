"""What a transaction sees: a snapshot of the database with its own writes over it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fdbqueue.engines.embedded.errors import FDBError
from fdbqueue.engines.embedded.ranges import Range, after
from fdbqueue.engines.embedded.selectors import KeySelector
from fdbqueue.engines.embedded.snapshots import Row, Snapshot
from fdbqueue.engines.embedded.writes import UNMODIFIED, Pending, Unmodified, WriteBuffer

_ROWS_AT_ONCE = 256


#: A key and its value; None where the transaction cleared it by comparison.
Seen = tuple[bytes, bytes | None]


class Resolved(NamedTuple):
    """The key a selector stands for, and whether it ran off an end of the keys."""

    key: bytes
    before_begin: bool = False
    after_end: bool = False


class RangeRead(NamedTuple):
    """The rows of one range read, whether a limit ended it, and what it depends on."""

    rows: list[Row]
    more: bool
    conflict: Range | None


class View:
    """Read a snapshot through the writes of a transaction, or without them.

    Args:
        snapshot: The database at the read version.
        writes: What the transaction wrote; None to read past it.
        end: The end of the keys it may read.
    """

    def __init__(self, snapshot: Snapshot, writes: WriteBuffer | None, end: bytes) -> None:
        self._snapshot = snapshot
        self._writes = writes
        self._end = end

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None.

        Raises:
            FDBError: 1036 when it will only be known after the commit.
        """
        entry = self._writes.get(key) if self._writes is not None else UNMODIFIED
        if isinstance(entry, Unmodified):
            if self._writes is not None and key in self._writes.unreadable:
                raise FDBError(1036)
            return self._snapshot.get(key)
        if isinstance(entry, Pending):
            if entry.unreadable:
                raise FDBError(1036)
            return entry.over(self._snapshot.get(key))
        return entry

    def get_key(self, selector: KeySelector) -> Resolved:
        """Resolve a selector: off either end it is the empty key, or the end of the keys.

        As with a cluster's client, a key that this transaction cleared by comparison
        counts as one to go past, but is never the answer.
        """
        forward = selector.offset > 0
        to_pass = selector.offset - 1 if forward else -selector.offset
        if forward:
            rows = self._scan(selector.key, self._end, to_pass + 1, reverse=False)
        else:
            rows = self._scan(b"", selector.key, to_pass + 1, reverse=True)
        for key, value in rows:
            if to_pass:
                to_pass -= 1
            elif value is not None:
                return Resolved(key)
        if forward:
            return Resolved(self._end, after_end=True)
        return Resolved(b"", before_begin=True)

    def get_range(
        self,
        begin: KeySelector,
        end: KeySelector,
        limit: int,
        target_bytes: int,
        *,
        reverse: bool,
    ) -> RangeRead:
        """Read the rows between two selectors, up to a number of rows and of bytes.

        Args:
            limit: The most rows; 0 for no limit.
            target_bytes: Stop at the first row that reaches it; 0 for no limit.
        """
        if begin.offset >= end.offset and begin.key >= end.key:
            return RangeRead([], False, None)
        first, last = self._resolve(begin), self._resolve(end)
        rows: list[Row] = []
        more = False
        size = 0
        for key, value in self._scan(first.key, last.key, limit or _ROWS_AT_ONCE, reverse=reverse):
            if value is None:
                continue
            rows.append((key, value))
            size += len(key) + len(value)
            if len(rows) == limit or 0 < target_bytes <= size:
                more = True
                break
        return RangeRead(rows, more, self._depends_on(begin, end, first, last, rows, more, reverse))

    def _resolve(self, selector: KeySelector) -> Resolved:
        if selector.offset == 1:
            return Resolved(selector.key)
        return self.get_key(selector)

    def _depends_on(
        self,
        begin: KeySelector,
        end: KeySelector,
        first: Resolved,
        last: Resolved,
        rows: list[Row],
        more: bool,
        reverse: bool,
    ) -> Range:
        low, high = min(begin.key, end.key), max(begin.key, end.key)
        if begin.key < end.key and more:
            if reverse and begin.offset <= 1:
                low = end.key
            elif not reverse and end.offset > 0:
                high = begin.key
        if first.before_begin or last.before_begin:
            low = b"" if begin.offset <= 0 else low
        if (first.after_end or last.after_end) and end.offset > 0:
            high = self._end
        if rows:
            lowest, highest = (rows[-1][0], rows[0][0]) if reverse else (rows[0][0], rows[-1][0])
            if reverse or begin.offset <= 0:
                low = min(low, lowest)
            if high <= highest and (not reverse or end.offset > 0):
                high = after(highest)
        return low, high

    def _scan(self, begin: bytes, end: bytes, at_once: int, *, reverse: bool) -> Iterator[Seen]:
        """Return the keys of ``[begin, end)`` from either end, to be iterated.

        Args:
            at_once: About how many rows will be wanted; more are read when they are.

        Raises:
            FDBError: 1036 on reaching a key known only after the commit.
        """
        end = min(end, self._end)
        if begin >= end:
            return iter(())
        if self._writes is None or not self._writes.touches(begin, end):
            return self._stored(begin, end, at_once, reverse=reverse)
        return self._overlaid(self._writes, begin, end, at_once, reverse=reverse)

    def _overlaid(
        self, writes: WriteBuffer, begin: bytes, end: bytes, at_once: int, *, reverse: bool
    ) -> Iterator[Seen]:
        if reverse:
            barrier = writes.readable_down_to(begin, end)
            yield from self._merged(writes, barrier or begin, end, at_once, reverse=True)
        else:
            barrier = writes.readable_from(begin, end)
            readable_end = end if barrier is None else barrier
            yield from self._merged(writes, begin, readable_end, at_once, reverse=False)
        if barrier is not None:
            raise FDBError(1036)

    def _stored(self, begin: bytes, end: bytes, at_once: int, *, reverse: bool) -> Iterator[Row]:
        at_once = min(at_once, _ROWS_AT_ONCE)
        while True:
            rows = self._snapshot.rows(begin, end, at_once, reverse=reverse)
            yield from rows
            if len(rows) < at_once:
                return
            if reverse:
                end = rows[-1][0]
            else:
                begin = after(rows[-1][0])

    def _merged(
        self, writes: WriteBuffer, begin: bytes, end: bytes, at_once: int, *, reverse: bool
    ) -> Iterator[Seen]:
        stored = self._uncleared(writes, begin, end, at_once, reverse=reverse)
        keys = writes.keys(begin, end)
        written = iter(reversed(keys) if reverse else keys)
        row, key = next(stored, None), next(written, None)
        while row is not None or key is not None:
            if key is None or (row is not None and _comes_first(row[0], key, reverse)):
                yield row  # type: ignore[misc]  # not None: one of the two is left
                row = next(stored, None)
                continue
            under = None
            if row is not None and row[0] == key:
                under = row[1]
                row = next(stored, None)
            entry = writes.entries[key]
            if isinstance(entry, Pending):
                yield key, entry.over(under)
            elif entry is not None:
                yield key, entry
            key = next(written, None)

    def _uncleared(
        self, writes: WriteBuffer, begin: bytes, end: bytes, at_once: int, *, reverse: bool
    ) -> Iterator[Row]:
        parts = writes.cleared.outside(begin, end)
        for part_begin, part_end in reversed(parts) if reverse else parts:
            yield from self._stored(part_begin, part_end, at_once, reverse=reverse)


def _comes_first(row_key: bytes, key: bytes, reverse: bool) -> bool:
    return row_key > key if reverse else row_key < key
