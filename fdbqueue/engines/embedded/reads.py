"""The reading half of the transaction API, shared by transactions and their snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fdbqueue.engines.embedded.errors import FDBError
from fdbqueue.engines.embedded.futures import Future, KeyValue, Value
from fdbqueue.engines.embedded.limits import KEYS_END
from fdbqueue.engines.embedded.ranges import after
from fdbqueue.engines.embedded.selectors import (
    KeySelector,
    as_key,
    as_selector,
    first_after_prefix,
)
from fdbqueue.engines.embedded.view import RangeRead

if TYPE_CHECKING:
    from fdbqueue.engines.embedded.transaction import Transaction


class StreamingMode:
    """How much of a range each step of its iteration fetches."""

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
    """The rows of a range read, fetched as they are iterated; the first part at once."""

    def __init__(
        self,
        reads: Reads,
        begin: KeySelector,
        end: KeySelector,
        limit: int,
        reverse: bool,
        mode: int,
    ) -> None:
        self._reads = reads
        self._begin = begin
        self._end = end
        self._limit = limit
        self._reverse = reverse
        self._mode = mode
        self._first = reads.fetch(begin, end, limit, self._bytes_wanted(mode, 1), reverse)

    def to_list(self) -> list[KeyValue]:
        """Return all rows."""
        mode = self._mode
        if mode == StreamingMode.iterator:
            mode = StreamingMode.exact if self._limit > 0 else StreamingMode.want_all
        return list(self._rows(mode))

    def __iter__(self) -> Iterator[KeyValue]:
        return self._rows(self._mode)

    def _rows(self, mode: int) -> Iterator[KeyValue]:
        begin, end, limit = self._begin, self._end, self._limit
        part, step = self._first.wait(), 1
        while True:
            for key, value in part.rows:
                yield KeyValue(key, value)
            if not part.more or not part.rows or limit == len(part.rows):
                return
            limit = limit - len(part.rows) if limit else 0
            step += 1
            if self._reverse:
                end = KeySelector(part.rows[-1][0], False, 1)
            else:
                begin = KeySelector(after(part.rows[-1][0]), False, 1)
            wanted = self._bytes_wanted(mode, step)
            part = self._reads.fetch(begin, end, limit, wanted, self._reverse).wait()

    def _bytes_wanted(self, mode: int, step: int) -> int:
        if mode == StreamingMode.iterator:
            return _ITERATOR_BYTES[min(step, len(_ITERATOR_BYTES)) - 1]
        if mode == StreamingMode.exact and not self._limit:
            raise FDBError(2210)
        return _BYTES_WANTED[mode]


class Reads:
    """Read through a transaction: serializable reads, or snapshot reads that never conflict."""

    _snapshot: bool

    def _reader(self) -> Transaction:
        raise NotImplementedError

    def get(self, key: Any) -> Value:
        """Read one key; the result equals None where it is absent."""
        return self._reader().read_key(as_key(key), self._snapshot)

    def get_key(self, key_selector: KeySelector) -> Value:
        r"""Resolve a selector: the empty key before the first, ``\xff`` after the last."""
        selector = as_selector(key_selector, b"")
        return self._reader().read_selector(selector, self._snapshot)

    def get_range(
        self,
        begin: Any,
        end: Any,
        limit: int = 0,
        reverse: bool = False,
        streaming_mode: int = StreamingMode.iterator,
    ) -> RangeResult:
        """Read the rows of ``[begin, end)``, keys or selectors; None stands for either end."""
        return RangeResult(
            self,
            as_selector(begin, b""),
            as_selector(end, KEYS_END),
            limit,
            reverse,
            streaming_mode,
        )

    def get_range_startswith(self, prefix: Any, *args: Any, **kwargs: Any) -> RangeResult:
        """Read the rows whose keys start with ``prefix``."""
        prefix = as_key(prefix)
        return self.get_range(prefix, first_after_prefix(prefix), *args, **kwargs)

    def get_read_version(self) -> Future[int]:
        """Return the version all reads of the transaction are of."""
        return self._reader().read_version()

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self.get_range(key.start, key.stop, reverse=(key.step == -1))
        return self.get(key)

    def fetch(
        self, begin: KeySelector, end: KeySelector, limit: int, wanted: int, reverse: bool
    ) -> Future[RangeRead]:
        """Read one part of a range, for :class:`RangeResult`."""
        return self._reader().read_range(begin, end, limit, wanted, reverse, self._snapshot)


class SnapshotReads(Reads):
    """``transaction.snapshot``: the same reads, adding no read conflicts."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._snapshot = True

    def _reader(self) -> Transaction:
        return self._transaction
