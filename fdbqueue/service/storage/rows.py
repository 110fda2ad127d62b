"""The rows of items, and how those of ready ones are read: those of all shards in one order."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from fdb import fdboptions

from fdbqueue.engines.protocols import SnapshotTransaction
from fdbqueue.exceptions import CorruptItem
from fdbqueue.service.items import Item
from fdbqueue.service.storage.item_keys import ItemKeys, Position

#: Which end of a queue: ``"min"`` is the lowest priority and the earliest pushed.
End = Literal["min", "max"]
ENDS: tuple[End, End] = ("min", "max")

#: The streaming mode that reads all of a range at once.
WANT_ALL: int = fdboptions.StreamingMode["want_all"][0]


class Row(NamedTuple):
    """A stored item: its place, and its value or the first chunk of it."""

    place: bytes
    value: bytes


class Loaded(NamedTuple):
    """A decoded item, or the error of decoding it, and what its removal needs to know.

    ``pushed_at`` is the stored time, in microseconds, which may be known of an item that cannot
    be decoded. ``has_attempts`` says that the attempts
    are in a row of their own. ``data`` is the whole stored value, all chunks of it.
    """

    row: Row
    position: Position
    item: Item | CorruptItem
    pushed_at: int | None
    has_attempts: bool
    data: bytes = b""


def begin_rows(
    tr: SnapshotTransaction, begin: bytes, stop: bytes, limit: int, end: End
) -> Iterable[Any]:
    """Begin to read the rows of a range of keys, from one end."""
    found: Iterable[Any] = tr.get_range(
        begin, stop, limit=limit, reverse=end == "max", streaming_mode=WANT_ALL
    )
    return found


def begin_ready(
    tr: SnapshotTransaction, keys: ItemKeys, begin: bytes, stop: bytes, limit: int, end: End
) -> Iterable[Any]:
    """Begin to read the rows of the ready items between two places, from one end.

    The rows of all shards are in one order. Of each shard about its part is read at first.
    """
    if not keys.shards:
        (bounds,) = keys.ranges(begin, stop)
        return begin_rows(tr, *bounds, limit, end)
    at_once = min(limit, 1 + 2 * limit // keys.shards)
    reads = [(part, begin_rows(tr, *part, at_once, end)) for part in keys.ranges(begin, stop)]
    return _merged(keys, [_rest(tr, read, *part, at_once, end) for part, read in reads], limit, end)


def begin_heads(
    tr: SnapshotTransaction, keys: ItemKeys, shards: Sequence[int], limit: int, end: End, slot: int
) -> Iterable[Any]:
    """Begin to read rows near the heads of some shards, in one order.

    Args:
        tr: The transaction.
        keys: The keys of the queue's items.
        shards: The shards.
        limit: How many rows of all of them; of each about its part is read.
        end: Which end.
        slot: Twice as many parts of each are skipped, if it has so many.
    """
    part = min(limit, 1 + 2 * limit // len(shards))
    # Twice, because another process may take some of those between while this one reads.
    skipped = slot * 2 * part
    reads: list[Iterable[Any]] = [
        begin_rows(tr, *keys.shard_range(one), skipped + part, end) for one in shards
    ]
    if slot:
        reads = [_behind(read, skipped, part) for read in reads]
    return _merged(keys, reads, limit, end)


def _merged(keys: ItemKeys, reads: Sequence[Iterable[Any]], limit: int, end: End) -> Iterable[Any]:
    merged = heapq.merge(*reads, key=lambda row: keys.place_of(row.key), reverse=end == "max")
    return itertools.islice(merged, limit)


def _rest(
    tr: SnapshotTransaction,
    read: Iterable[Any],
    begin: bytes,
    stop: bytes,
    at_once: int,
    end: End,
) -> Iterator[Any]:
    """Yield the rows of a range, of which the first are read already."""
    while True:
        count, key = 0, b""
        for row in read:
            count, key = count + 1, row.key
            yield row
        if count < at_once:
            return
        begin, stop = (key + b"\x00", stop) if end == "min" else (begin, key)
        read = begin_rows(tr, begin, stop, at_once, end)


def _behind(rows: Iterable[Any], skipped: int, part: int) -> Iterator[Any]:
    """Yield the rows behind some; the last if there are not so many."""
    found = list(rows)
    yield from found[min(skipped, max(0, len(found) - part)) :]
