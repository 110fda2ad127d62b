"""The reading half of the transaction API, shared by transactions and their snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fdbqueue.engines.embedded.errors import FDBError
from fdbqueue.engines.embedded.futures import Future, KeyValue, Value
from fdbqueue.engines.embedded.limits import KEYS_END
from fdbqueue.engines.embedded.ranges import after
from fdbqueue.engines.embedded.reading import Reading
from fdbqueue.engines.embedded.selectors import (
    KeySelector,
    as_key,
    as_selector,
    first_after_prefix,
)
from fdbqueue.engines.embedded.view import RangeRead


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
        self._limit = 0 if limit == -1 else limit  # both stand for no limit
        self._reverse = reverse
        self._mode = mode
        self._first = self._fetch(begin, end, self._limit, mode, 1)

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
        return self._reads.fetch(begin, end, limit, wanted, self._reverse)


class Reads:
    """Read through a transaction: serializable reads, or snapshot reads that never conflict."""

    _snapshot: bool

    def _reader(self) -> Reading:
        raise NotImplementedError

    def get(self, key: Any) -> Value:
        """Read one key; the result equals None where it is absent."""
        return self._reader().read_key(as_key(key), self._snapshot)

    def get_key(self, key_selector: Any) -> Value:
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

    def get_estimated_range_size_bytes(self, begin_key: Any, end_key: Any) -> Future[int]:
        """Return how many bytes the keys and values of a range have now.

        Here it is exact, and all of the range is read for it; a cluster estimates it.
        """
        if begin_key is None or end_key is None:
            raise Exception("Invalid begin key or end key")  # noqa: TRY002  # as the binding does
        return self._reader().range_size(as_key(begin_key), as_key(end_key))

    def get_range_split_points(
        self, begin_key: Any, end_key: Any, chunk_size: int
    ) -> Future[list[bytes]]:
        """Return keys that cut a range into parts of about ``chunk_size`` bytes, both ends too.

        Here the parts are exact, and all of the range is read for them; a cluster estimates.
        """
        if begin_key is None or end_key is None or chunk_size <= 0:
            raise Exception(  # noqa: TRY002  # as the binding does
                "Invalid begin key, end key or chunk size"
            )
        return self._reader().split_points(as_key(begin_key), as_key(end_key), chunk_size)

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

    def __init__(self, transaction: Reading) -> None:
        self._transaction = transaction
        self._snapshot = True

    def _reader(self) -> Reading:
        return self._transaction
