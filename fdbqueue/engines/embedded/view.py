"""What a transaction sees: a snapshot of the database with its own writes over it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import chain

from fdbqueue.engines.embedded.fdb_errors import FDBError
from fdbqueue.engines.embedded.keys import KeySelector, Range, RangeSet, after
from fdbqueue.engines.embedded.snapshots import Row, Snapshot
from fdbqueue.engines.embedded.write_buffer import Pending, Unmodified, WriteBuffer

ROWS_AT_ONCE = 256


#: A key and its value; None if the transaction cleared it by comparison.
Seen = tuple[bytes, bytes | None]


#: The rows of a range, whether a limit ended it, and what it depends on.
RangeRead = tuple[list[Row], bool, Range | None]


class View:
    """Read a snapshot with the writes of a transaction over it, or without them.

    The snapshot is asked for by the first read that the writes do not answer: as with a
    cluster's client, the others need no read version.

    Args:
        snapshot: Return the database at the read version.
        writes: What the transaction wrote; None if reads do not see it.
        end: The end of the keys it may read.
        is_open: Whether the transaction has a snapshot already.
        read: The ranges that it has read, which a cluster's client still knows.
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        writes: WriteBuffer | None,
        end: bytes,
        *,
        is_open: bool,
        read: Sequence[Range] = (),
    ) -> None:
        self._snapshot = snapshot
        self._writes = writes
        self._end = end
        self._is_open = is_open
        self._read = read

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None.

        Raises:
            FDBError: 1036 when it will only be known after the commit.
        """
        if self._writes is None:
            return self._snapshot().get(key)
        entry = self._writes.get(key)
        if isinstance(entry, Unmodified):
            if key in self._writes.unreadable:
                raise FDBError(1036)
            return self._snapshot().get(key)
        if isinstance(entry, Pending):
            if entry.unreadable:
                raise FDBError(1036)
            return entry.over(None if entry.independent else self._snapshot().get(key))
        return entry

    def get_key(self, selector: KeySelector) -> bytes:
        """Resolve a selector: off either end it is the empty key, or the end of the keys.

        As with a cluster's client, a key that this transaction cleared by comparison
        counts as one to go past, but is never the answer.
        """
        forward = selector.offset > 0
        to_pass = selector.offset - 1 if forward else -selector.offset
        for key, value in self._from(selector.key, to_pass + 1, reverse=not forward):
            if to_pass:
                to_pass -= 1
            elif value is not None:
                return key
        return self._end if forward else b""

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
            return [], False, None
        if begin.offset == end.offset == 1:  # as nearly all are
            seen = self.scan(begin.key, end.key, limit or ROWS_AT_ONCE, reverse=reverse)
            rows, more = _take(seen, limit, target_bytes)
            return rows, more, _depends_on(begin, end, rows, more, reverse)
        first, last = begin, end
        if self._writes is not None and self._writes.has_stamps:
            between = _Unreadable(self, self._writes, self._end, self._read, reverse=reverse)
            first, last = between.known(begin), between.known(end)
            if between.have_nothing(first, last):
                return [], False, _depends_on(begin, end, [], False, reverse)
        walk = _Walk(self, first, last, self._end, reverse=reverse)
        rows, more = _take(walk.between(limit), limit, target_bytes)
        low, high = _depends_on(begin, end, rows, more, reverse)
        begin_ran_off, end_ran_off = walk.ran_off(is_empty=not rows, more=more)
        if begin_ran_off and begin.offset <= 0:
            low = b""
        if end_ran_off and end.offset > 0:
            high = self._end
        return rows, more, (low, high)

    def place(self, selector: KeySelector) -> tuple[bytes, int]:
        """Return where a range begins or ends, and by how many keys that ran off an end.

        Unlike :meth:`get_key` it stops at a key cleared by comparison, and right behind
        the last key it has to pass.
        """
        steps = selector.offset - 1
        if not steps:
            return selector.key, 0
        left = abs(steps)
        for key, _ in self._from(selector.key, left, reverse=steps < 0):
            left -= 1
            if not left:
                return (after(key) if steps > 0 else key), 0
        return (self._end, left) if steps > 0 else (b"", -left)

    def _from(self, key: bytes, at_once: int, *, reverse: bool) -> Iterator[Seen]:
        """Return the keys from a place on, to either end."""
        if reverse:
            return self.scan(b"", key, at_once, reverse=True)
        return self.scan(key, self._end, at_once, reverse=False)

    def scan(self, begin: bytes, end: bytes, at_once: int, *, reverse: bool) -> Iterator[Seen]:
        """Return the keys of ``[begin, end)`` from either end, to be iterated.

        Args:
            at_once: About how many rows will be wanted; more are read when they are.

        Raises:
            FDBError: 1036 on reaching a key known only after the commit.
        """
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
            if barrier is not None:
                begin = barrier
        else:
            barrier = writes.readable_from(begin, end)
            if barrier is not None:
                end = barrier
        if not self._is_open:
            begin, end = yield from _answered(writes, begin, end, reverse=reverse)
        if begin < end:
            yield from self._merged(writes, begin, end, at_once, reverse=reverse)
        if barrier is not None:
            raise FDBError(1036)

    def _stored(self, begin: bytes, end: bytes, at_once: int, *, reverse: bool) -> Iterator[Row]:
        return chain.from_iterable(self._parts(begin, end, at_once, reverse=reverse))

    def _parts(
        self, begin: bytes, end: bytes, at_once: int, *, reverse: bool
    ) -> Iterator[list[Row]]:
        at_once = min(at_once, ROWS_AT_ONCE)
        snapshot = self._snapshot()
        while True:
            rows = snapshot.rows(begin, end, at_once, reverse=reverse)
            yield rows
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
            if key is None or (row is not None and (row[0] > key if reverse else row[0] < key)):
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


class _Walk:
    """Go through a range between two selectors, from the near one towards the far one.

    As with a cluster's client, neither is resolved further than the rows that are wanted
    need it: what lies behind them is neither read nor depended on.
    """

    def __init__(
        self, view: View, begin: KeySelector, end: KeySelector, last: bytes, *, reverse: bool
    ) -> None:
        self._view = view
        self._reverse = reverse
        near, far = (end, begin) if reverse else (begin, end)
        sign = -1 if reverse else 1
        past, ahead = sign * (near.offset - 1), sign * (far.offset - 1)
        self._start, self._edge = near.key, far.key
        #: By how many keys the far selector ran off the end it points to; negative: off the other.
        self._far_left = 0
        self._is_crossed = begin.key > end.key and ahead != 0
        if self._is_crossed:
            self._edge, left = view.place(far)
            self._far_left, ahead = sign * left, 0
        self._points_away = past < 0
        if self._points_away:
            self._start, left = view.place(near)
            past = sign * left
        #: The keys still to go past before the first row; negative: by how many keys the near
        #: selector ran off the end it points to.
        self._past = past
        #: The keys that may still come behind the far selector's own key.
        self._ahead = max(0, ahead)
        #: How many keys before its own key the far selector stops.
        self._held = max(0, -ahead)
        self._stop = (b"" if reverse else last) if ahead > 0 else self._edge

    def ran_off(self, *, is_empty: bool, more: bool) -> tuple[bool, bool]:
        """Tell whether the begin ran off before the first key, and the end after the last.

        If both ran off the same way and no row is between them, a cluster's client says
        it of neither.

        Args:
            is_empty: Whether there was no row between them.
            more: Whether a limit ended the walk.
        """
        near, far = self._past < 0, self._far_left > 0 and not more
        if is_empty and self._past >= self._far_left:
            near, far = self._is_crossed and self._points_away and self._far_left < 0, False
        return (far, near) if self._reverse else (near, far)

    def between(self, limit: int) -> Iterator[Seen]:
        """Return the keys between the selectors, to be iterated once.

        Args:
            limit: About how many will be wanted; 0 for any number.
        """
        begin, end = self._start, self._stop
        if self._reverse:
            begin, end = end, begin
        at_once = (limit or ROWS_AT_ONCE) + max(0, self._past) + self._held
        held: deque[Seen] = deque()
        for seen in self._view.scan(begin, end, at_once, reverse=self._reverse):
            if self._past > 0:
                self._past -= 1
            elif self._held:
                held.append(seen)
                if len(held) > self._held:
                    yield held.popleft()
            else:
                yield seen
            if self._ahead and (seen[0] < self._edge) == self._reverse:
                self._ahead -= 1
                if not self._ahead:
                    return
        if self._ahead or self._held:
            self._far_left = self._ahead - (self._held - len(held))


class _Unreadable:
    """Move two selectors in a transaction with keys that cannot be read before its commit.

    A cluster's client moves a selector until it stands at a key, or stops at one that cannot be
    read. Only a row there is an error: if both stop at one place, there is none between them. How
    far it moves one before it looks at the other depends on what it knows already: what the
    transaction has written, and what it has read, snapshot reads and failed ones left aside.

    Args:
        view: What the transaction sees.
        writes: What it wrote.
        last: The end of the keys.
        read: The ranges that it has read.
        reverse: Whether the rows are read from the end: then the near selector is the end.
    """

    def __init__(
        self,
        view: View,
        writes: WriteBuffer,
        last: bytes,
        read: Sequence[Range],
        *,
        reverse: bool,
    ) -> None:
        self._view = view
        self._writes = writes
        self._last = last
        self._known = RangeSet.of(read)
        self._reverse = reverse

    def have_nothing(self, low: KeySelector, high: KeySelector) -> bool:
        """Tell whether no row is between two selectors, which :meth:`known` has moved.

        Raises:
            FDBError: 1036 if that depends on a key that cannot be read.
        """
        if _is_past(low, high):
            return True
        near, far = (high, low) if self._reverse else (low, high)
        if far.offset != 1 and low.key > high.key:
            found = self._view.get_key(far)
            if self._reverse:
                is_beyond = found == self._last or (found >= near.key and near.offset <= 1)
            else:
                is_beyond = not found or (found <= near.key and near.offset > 0)
            if is_beyond:
                return True
        elif self._is_stuck(near):
            raise FDBError(1036)
        stand, other = self._moved_to(near), self._moved_to(far)
        leads_away = near.offset > 1 if self._reverse else near.offset < 1
        if leads_away and self._is_stuck(stand) and self._is_split(low.key, high.key):
            raise FDBError(1036)  # before the far selector is looked at
        if not (_is_past(other, stand) if self._reverse else _is_past(stand, other)):
            return False
        if near.offset == 1 and self._is_known_row(near.key):
            self._view.get_key(far)  # the row was there before the far selector was looked at
        return True

    def known(self, selector: KeySelector) -> KeySelector:
        """Return where a selector stands without a further read."""
        return self._moved_to(selector, is_known=True)

    def _moved_to(self, selector: KeySelector, *, is_known: bool = False) -> KeySelector:
        """Return where a selector stands, at a key or before what stops it."""
        key, offset, writes = selector.key, selector.offset, self._writes
        if offset > 0:
            stop = writes.readable_from(key, self._last) or self._last
            unknown = self._unknown(key, stop) if is_known else []
            stop = unknown[0][0] if unknown else stop
            found = self._view.scan(key, stop, offset, reverse=False)
        else:
            stop = writes.readable_down_to(b"", key) or b""
            unknown = self._unknown(stop, key) if is_known else []
            stop = unknown[-1][1] if unknown else stop
            found = self._view.scan(stop, key, 1 - offset, reverse=True)
        is_forward = offset > 0
        for passed, _ in found:
            offset += 0 if is_forward else 1
            if offset == 1:
                return KeySelector(passed, False, 1)
            offset -= 1 if is_forward else 0
        return KeySelector(stop, False, offset)

    def _unknown(self, begin: bytes, end: bytes) -> list[Range]:
        """Return the parts of a range that only a further read tells."""
        parts = self._writes.undetermined(begin, end)
        return [unknown for part in parts for unknown in self._known.outside(*part)]

    def _is_stuck(self, near: KeySelector) -> bool:
        """Tell whether the next that is read from a selector on cannot be read."""
        key = near.key
        if near.offset < 1 or (near.offset == 1 and self._reverse):
            return bool(key) and self._writes.readable_down_to(b"", key) == key
        return self._writes.readable_from(key, after(key)) == key

    def _is_split(self, begin: bytes, end: bytes) -> bool:
        """Tell whether a cleared range, or what cannot be read, is between two keys.

        A read of the snapshot ends there; not at single keys that were cleared.
        """
        if begin >= end:
            return False
        cleared = self._writes.cleared.within(begin, end)
        is_cleared = any(after(first) < last for first, last in cleared)
        return is_cleared or self._writes.readable_from(begin, end) is not None

    def _is_known_row(self, key: bytes) -> bool:
        """Tell whether there is a row, read forwards, that was known before."""
        if self._reverse or self._unknown(key, after(key)):
            return False
        return any(
            value is not None for _, value in self._view.scan(key, after(key), 1, reverse=False)
        )


def _is_past(low: KeySelector, high: KeySelector) -> bool:
    """Tell whether a range ends where it begins, or before."""
    return low.offset >= high.offset and low.key >= high.key


def _take(seen: Iterator[Seen], limit: int, target_bytes: int) -> tuple[list[Row], bool]:
    """Return the rows up to a limit, and whether one was reached."""
    rows: list[Row] = []
    size = 0
    for key, value in seen:
        if value is None:
            continue
        rows.append((key, value))
        size += len(key) + len(value)
        if len(rows) == limit or 0 < target_bytes <= size:
            return rows, True
    return rows, False


def _depends_on(
    begin: KeySelector, end: KeySelector, rows: list[Row], more: bool, reverse: bool
) -> Range:
    """Return the range whose content decides the rows, as long as no selector ran off."""
    low, high = min(begin.key, end.key), max(begin.key, end.key)
    if begin.key < end.key and more:
        if reverse and begin.offset <= 1:
            low = end.key
        elif not reverse and end.offset > 0:
            high = begin.key
    if rows:
        lowest, highest = (rows[-1][0], rows[0][0]) if reverse else (rows[0][0], rows[-1][0])
        if reverse or begin.offset <= 0:
            low = min(low, lowest)
        if high <= highest and (not reverse or end.offset > 0):
            high = after(highest)
    return low, high


def _answered(
    writes: WriteBuffer, begin: bytes, end: bytes, *, reverse: bool
) -> Generator[Seen, None, Range]:
    """Yield what the writes alone tell of a range, and return the range that is left."""
    unknown = writes.undetermined(begin, end)
    if reverse:
        edge = unknown[-1][1] if unknown else begin
        keys = writes.keys(edge, end)[::-1]
        rest = begin, edge
    else:
        edge = unknown[0][0] if unknown else end
        keys = writes.keys(begin, edge)
        rest = edge, end
    for key in keys:
        entry = writes.entries[key]
        if isinstance(entry, Pending):
            yield key, entry.over(None)
        elif entry is not None:
            yield key, entry
    return rest
