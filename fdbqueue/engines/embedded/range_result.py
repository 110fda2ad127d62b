"""The rows of a range read, fetched in parts while they are iterated."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, starmap

from fdbqueue.engines.embedded.errors import FDBError
from fdbqueue.engines.embedded.futures import Future, KeyValue
from fdbqueue.engines.embedded.ranges import after
from fdbqueue.engines.embedded.reads import Reads
from fdbqueue.engines.embedded.selectors import KeySelector
from fdbqueue.engines.embedded.view import RangeRead


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
    StreamingMode.exact: 0,
    StreamingMode.small: 256,
    StreamingMode.medium: 1_000,
    StreamingMode.large: 4_096,
    StreamingMode.serial: 80_000,
}
_ITERATOR_BYTES = (4_096, 6_144, 9_216, 13_824, 20_736, 31_104, 46_656, 69_984, 80_000, 120_000)


class RangeResult:
    """The rows of a range read; the first part is read at once, the others when needed.

    Args:
        reads: Reads the parts.
        is_snapshot: Whether to add no read conflicts.
        begin: The first key.
        end: The key after the last one.
        limit: The most rows; 0 or -1 for no limit.
        reverse: Read from the end.
        mode: A number of :class:`StreamingMode`.
    """

    __slots__ = (
        "_begin",
        "_end",
        "_first",
        "_is_snapshot",
        "_limit",
        "_mode",
        "_reads",
        "_reverse",
    )

    def __init__(
        self,
        reads: Reads,
        is_snapshot: bool,
        begin: KeySelector,
        end: KeySelector,
        limit: int,
        reverse: bool,
        mode: int,
    ) -> None:
        self._reads = reads
        self._is_snapshot = is_snapshot
        self._begin = begin
        self._end = end
        self._limit = 0 if limit == -1 else limit
        self._reverse = reverse
        self._mode = mode
        self._first = self._fetch(begin, end, self._limit, mode, 1)

    def to_list(self) -> list[KeyValue]:
        """Return all rows."""
        part = self._first.wait()
        if not part.more or len(part.rows) == self._limit:
            return list(starmap(KeyValue, part.rows))
        mode = self._mode
        if mode == StreamingMode.iterator:
            mode = StreamingMode.exact if self._limit > 0 else StreamingMode.want_all
        return list(chain.from_iterable(self._parts(mode)))

    def __iter__(self) -> Iterator[KeyValue]:
        part = self._first.wait()
        if not part.more or len(part.rows) == self._limit:
            return starmap(KeyValue, part.rows)
        return chain.from_iterable(self._parts(self._mode))

    def _parts(self, mode: int) -> Iterator[Iterator[KeyValue]]:
        begin, end, limit = self._begin, self._end, self._limit
        part, step = self._first.wait(), 1
        while True:
            yield starmap(KeyValue, part.rows)
            if not part.more or not part.rows or limit == len(part.rows):
                return
            limit = limit - len(part.rows) if limit else 0
            step += 1
            if self._reverse:
                end = KeySelector(part.rows[-1][0], False, 1)
            else:
                begin = KeySelector(after(part.rows[-1][0]), False, 1)
            part = self._fetch(begin, end, limit, mode, step).wait()

    def _fetch(
        self, begin: KeySelector, end: KeySelector, limit: int, mode: int, step: int
    ) -> Future[RangeRead]:
        if mode == StreamingMode.iterator:
            wanted = _ITERATOR_BYTES[min(step, len(_ITERATOR_BYTES)) - 1]
        elif mode == StreamingMode.exact and not limit:
            return Future(error=FDBError(2210))
        elif mode not in _BYTES_WANTED:
            return Future(error=FDBError(2000))
        else:
            wanted = _BYTES_WANTED[mode]
        return self._reads.rows(begin, end, limit, wanted, self._reverse, self._is_snapshot)
