r"""Reads of ranges: rows that come in parts, and rows that stand for special keys.

Of these only the transaction's own write conflict ranges exist, merged: ``b"1"`` under each begin,
``b"0"`` under each end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, starmap

from fdbqueue.engines.embedded.fdb_errors import FDBError
from fdbqueue.engines.embedded.fdb_limits import SYSTEM_KEYS_END
from fdbqueue.engines.embedded.futures import Future, KeyValue
from fdbqueue.engines.embedded.keys import (
    KeySelector,
    Place,
    Range,
    RangeSet,
    after,
    first_after_prefix,
)
from fdbqueue.engines.embedded.snapshots import Row
from fdbqueue.engines.embedded.transaction_state import TransactionState
from fdbqueue.engines.embedded.write_buffer import STAMP_BYTES, stamped

#: A part of a range: its rows, and whether a limit ended it.
Part = tuple[list[Row], bool]

WRITE_CONFLICT_RANGES = b"\xff\xff/transaction/write_conflict_range/"
_WRITE_CONFLICT_RANGES_END = first_after_prefix(WRITE_CONFLICT_RANGES)


class StreamingMode:
    """How much of a range each part of it has."""

    want_all = -2
    iterator = -1
    exact = 0
    small = 1
    medium = 2
    large = 3
    serial = 4


_BYTES_WANTED = {
    StreamingMode.want_all: 80_000,
    StreamingMode.iterator: 4_096,
    StreamingMode.exact: 0,
    StreamingMode.small: 256,
    StreamingMode.medium: 1_000,
    StreamingMode.large: 4_096,
    StreamingMode.serial: 80_000,
}
#: Of the second part that is iterated and those after it; the last for all further ones.
_ITERATOR_BYTES = (6_144, 9_216, 13_824, 20_736, 31_104, 46_656, 69_984, 80_000, 120_000)


class RangeResult:
    """The rows of a range read; the first part is read at once, the others when needed.

    Args:
        read_part: Reads a part: from one place to another, with at most so many rows and about so
            many bytes (0 for no limit), from the end or not.
        begin: The first key.
        end: The key after the last one.
        limit: The most rows; 0 or -1 for no limit.
        reverse: Read from the end.
        mode: A number of :class:`StreamingMode`.
    """

    __slots__ = ("_begin", "_end", "_first", "_limit", "_mode", "_read_part", "_reverse")

    def __init__(
        self,
        read_part: Callable[[Place, Place, int, int, bool], Future[Part]],
        begin: Place,
        end: Place,
        limit: int,
        reverse: bool,
        mode: int,
    ) -> None:
        self._read_part = read_part
        self._begin = begin
        self._end = end
        self._limit = 0 if limit == -1 else limit
        self._reverse = reverse
        self._mode = mode
        self._first: Future[Part]
        if mode not in _BYTES_WANTED:
            self._first = Future(error=FDBError(2000))
        elif mode == StreamingMode.exact and not self._limit:
            self._first = Future(error=FDBError(2210))
        else:
            self._first = read_part(begin, end, self._limit, _BYTES_WANTED[mode], reverse)

    def to_list(self) -> list[KeyValue]:
        """Return all rows."""
        rows, more = self._first.wait()
        if not more or len(rows) == self._limit:
            return list(starmap(KeyValue, rows))
        mode = self._mode
        if mode == StreamingMode.iterator:
            mode = StreamingMode.exact if self._limit > 0 else StreamingMode.want_all
        return list(chain.from_iterable(self._parts(mode)))

    def __iter__(self) -> Iterator[KeyValue]:
        rows, more = self._first.wait()
        if not more or len(rows) == self._limit:
            return starmap(KeyValue, rows)
        return chain.from_iterable(self._parts(self._mode))

    def _parts(self, mode: int) -> Iterator[Iterator[KeyValue]]:
        begin, end, limit = self._begin, self._end, self._limit
        (rows, more), step = self._first.wait(), 0
        while True:
            yield starmap(KeyValue, rows)
            if not more or not rows or limit == len(rows):
                return
            limit = limit - len(rows) if limit else 0
            wanted = _BYTES_WANTED[mode]
            if mode == StreamingMode.iterator:
                wanted = _ITERATOR_BYTES[min(step, len(_ITERATOR_BYTES) - 1)]
                step += 1
            if self._reverse:
                end = rows[-1][0]
            else:
                begin = after(rows[-1][0])
            rows, more = self._read_part(begin, end, limit, wanted, self._reverse).wait()


def is_special(begin: KeySelector, end: KeySelector) -> bool:
    """Tell whether a read is one of special keys alone."""
    return (
        min(begin.key, end.key) >= WRITE_CONFLICT_RANGES
        and max(begin.key, end.key) <= _WRITE_CONFLICT_RANGES_END
        and begin.offset == end.offset == 1
    )


def special_rows(
    state: TransactionState, begin: bytes, end: bytes, limit: int, reverse: bool
) -> Future[Part]:
    """Read special keys, also of a transaction that was cancelled or committed.

    This opens no snapshot, and adds no read conflict.
    """
    with state.lock:
        if state.deferred is not None:
            return Future(error=state.deferred)
        rows = []
        for written_begin, written_end in _written(state):
            rows.append((WRITE_CONFLICT_RANGES + written_begin, b"1"))
            if written_end < SYSTEM_KEYS_END:
                rows.append((WRITE_CONFLICT_RANGES + written_end, b"0"))
        rows = [row for row in rows if begin <= row[0] < end]
        if reverse:
            rows.reverse()
        more = 0 < limit <= len(rows)
        return Future((rows[:limit] if more else rows, more))


def _written(state: TransactionState) -> RangeSet:
    """Return the write conflict ranges so far, also of keys that a stamp completes."""
    return RangeSet.of(
        [*state.write_conflicts, *(_stamped(key, state) for key in state.versionstamped_keys)]
    )


def _stamped(key: bytes, state: TransactionState) -> Range:
    """Return the keys that a versionstamped key may become."""
    least = (state.read_version.known or 0).to_bytes(8, "big").ljust(STAMP_BYTES, b"\x00")
    end = after(stamped(key, b"\xff" * STAMP_BYTES))
    return stamped(key, least), min(end, state.options.keys_end)
