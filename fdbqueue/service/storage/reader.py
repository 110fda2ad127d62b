"""Read rows from any table, and decode them into items."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from fdb import fdboptions

from fdbqueue.engines.protocols import SnapshotTransaction, Transaction
from fdbqueue.exceptions import CorruptItem, InvalidInput, message_of
from fdbqueue.service.codecs import Codec
from fdbqueue.service.items import Item, Page, Undecodable, moment
from fdbqueue.service.limits import MAX_RETURNED_BYTES, MAX_VALUE_BYTES
from fdbqueue.service.storage.format import Format
from fdbqueue.service.storage.item_keys import ItemKeys, Position
from fdbqueue.service.storage.tables import TableKeys

#: Which end of a queue: ``"min"`` is the lowest priority and the earliest pushed.
End = Literal["min", "max"]
ENDS: tuple[End, End] = ("min", "max")

_WANT_ALL: int = fdboptions.StreamingMode["want_all"][0]
_NOWHERE = Position(None, 0, 1)


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


class ItemReader:
    """Read and decode the rows of one queue.

    Args:
        keys: The keys of its items.
        tables: The keys of its tables.
        codec: The queue's codec.
        format: What decides how its bytes are read.
        queue: The queue's name, for errors.
    """

    def __init__(
        self, keys: ItemKeys, tables: TableKeys, codec: Codec, format: Format, queue: str
    ) -> None:
        self._keys = keys
        self._tables = tables
        self._codec = codec
        self._format = format
        self._queue = queue

    def rows(
        self, tr: SnapshotTransaction, begin: bytes, stop: bytes, limit: int, end: End
    ) -> Iterable[Any]:
        """Begin to read the rows of a range of keys, from one end.

        Raises:
            InvalidInput: There is no such end.
        """
        if end not in {"min", "max"}:
            raise InvalidInput(queue=self._queue, end=end, allowed="min, max")
        found: Iterable[Any] = tr.get_range(
            begin, stop, limit=limit, reverse=end == "max", streaming_mode=_WANT_ALL
        )
        return found

    def ready(
        self, tr: SnapshotTransaction, begin: bytes, stop: bytes, limit: int, end: End
    ) -> Iterable[Any]:
        """Begin to read the rows of the ready items between two places, from one end.

        The rows of all shards are in one order. Of each shard about its part is read at first.
        """
        if not self._keys.shards:
            (bounds,) = self._keys.ranges(begin, stop)
            return self.rows(tr, *bounds, limit, end)
        at_once = min(limit, 1 + 2 * limit // self._keys.shards)
        reads = [
            (part, self.rows(tr, *part, at_once, end)) for part in self._keys.ranges(begin, stop)
        ]
        return self._merged(
            [self._rest(tr, read, *part, at_once, end) for part, read in reads], limit, end
        )

    def heads(
        self, tr: SnapshotTransaction, shards: Sequence[int], limit: int, end: End, slot: int
    ) -> Iterable[Any]:
        """Begin to read rows near the heads of some shards, in one order.

        Args:
            tr: The transaction.
            shards: The shards.
            limit: How many rows of all of them; of each about its part is read.
            end: Which end.
            slot: Twice as many parts of each are skipped, if it has so many.
        """
        part = min(limit, 1 + 2 * limit // len(shards))
        # Twice, because another process may take some of those between while this one reads.
        skipped = slot * 2 * part
        reads: list[Iterable[Any]] = [
            self.rows(tr, *self._keys.shard_range(one), skipped + part, end) for one in shards
        ]
        if slot:
            reads = [_behind(read, skipped, part) for read in reads]
        return self._merged(reads, limit, end)

    def _merged(self, reads: Sequence[Iterable[Any]], limit: int, end: End) -> Iterable[Any]:
        merged = heapq.merge(*reads, key=self._place_in, reverse=end == "max")
        return itertools.islice(merged, limit)

    def _place_in(self, row: Any) -> bytes:
        return self._keys.place_of(row.key)

    def _rest(
        self,
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
            read = self.rows(tr, begin, stop, at_once, end)

    def size_of(self, row: Row) -> int:
        """Return about how long a row's value is, all chunks included."""
        size = len(row.value)
        if size < MAX_VALUE_BYTES:
            return size
        position = self._position(row.place)
        return size * (1 if isinstance(position, CorruptItem) else position.chunks)

    def load(self, tr: Transaction, rows: Sequence[Row], *, retried: bool) -> list[Loaded]:
        """Return the items of rows, with the chunks and attempts that are stored apart.

        All reads are sent before the first is awaited.

        Args:
            tr: The transaction.
            rows: The rows.
            retried: Whether attempts may be stored in rows of their own.

        Raises:
            FormatMismatch: The queue was written under other settings.
        """
        if rows and not self._format.known_key:
            self._format.check(tr)
        begun = []
        for row in rows:
            position = self._position(row.place)
            chunks = None
            if not isinstance(position, CorruptItem) and position.chunks > 1:
                bounds = self._tables.chunks(row.place)
                chunks = tr.get_range(*bounds, streaming_mode=_WANT_ALL)
            attempts = tr[self._tables.attempts(row.place)] if retried else None
            begun.append((row, position, chunks, attempts))
        return [self._load(*parts) for parts in begun]

    def _load(
        self, row: Row, position: Position | CorruptItem, chunks: Any, attempts: Any
    ) -> Loaded:
        has_attempts = attempts is not None and attempts.present()
        if isinstance(position, CorruptItem):
            return Loaded(row, _NOWHERE, position, None, has_attempts)
        data = row.value
        try:
            if chunks is not None:
                data += _joined(chunks, position.chunks - 1)
            stored = self._codec.decode_to_show(data)
        except (ValueError, TypeError) as error:
            corrupt = self._corrupt(row.place, error)
            pushed_at = self._codec.pushed_at(data)
            return Loaded(row, position, corrupt, pushed_at, has_attempts)
        item = Item(
            value=stored.value,
            priority=position.priority,
            id=self._keys.item_id(row.place),
            pushed_at=None if stored.pushed_at is None else moment(stored.pushed_at),
            attempts=int.from_bytes(bytes(attempts), "big") if has_attempts else stored.attempts,
            size_bytes=len(data),
            queue=self._queue,
        )
        return Loaded(row, position, item, stored.pushed_at, has_attempts, data)

    def items(self, tr: Transaction, rows: Sequence[Row], *, retried: bool) -> list[Item]:
        """Return the items of rows.

        Raises:
            CorruptItem: One of them cannot be decoded.
        """
        return [_sound(loaded) for loaded in self.load(tr, rows, retried=retried)]

    def shown(self, tr: Transaction, rows: Sequence[Row], *, retried: bool) -> list[Item]:
        """Return the items of rows, those that cannot be decoded included."""
        return [self.shown_item(loaded) for loaded in self.load(tr, rows, retried=retried)]

    def page(self, tr: Transaction, begin: bytes, stop: bytes, limit: int, end: End) -> Page:
        """Return the ready items between two places, and where the next page starts."""
        retried = tr.snapshot[self._tables.retried]
        rows: list[Row] = []
        size = 0
        for row in self.ready(tr, begin, stop, limit, end):
            rows.append(Row(self._keys.place_of(row.key), row.value))
            size += self.size_of(rows[-1])
            if size >= MAX_RETURNED_BYTES:
                break
        items = self.shown(tr, rows, retried=retried.present())
        more = len(rows) == limit or size >= MAX_RETURNED_BYTES
        return Page(items, items[-1].id if more else None)

    def sequence(self, place: bytes) -> Any:
        """Return the order of a place among its equals.

        Raises:
            CorruptItem: It is not the place of an item.
        """
        position = self._position(place)
        if isinstance(position, CorruptItem):
            try:
                raise position
            finally:
                del position  # its traceback holds this frame, and with it the caller's items
        return position.sequence

    def _position(self, place: bytes) -> Position | CorruptItem:
        try:
            return self._keys.position(place)
        except (ValueError, TypeError) as error:
            return self._corrupt(place, error)

    def _corrupt(self, place: bytes, error: Exception) -> CorruptItem:
        return CorruptItem(queue=self._queue, id=self._keys.id_of(place), reason=message_of(error))

    def shown_item(self, loaded: Loaded) -> Item:
        """Return a decoded item, or what stands for one that cannot be decoded."""
        if isinstance(loaded.item, Item):
            return loaded.item
        return Item(
            value=Undecodable(loaded.row.value, loaded.item.context["reason"]),
            priority=loaded.position.priority,
            id=self._keys.id_of(loaded.row.place),
            pushed_at=None if loaded.pushed_at is None else moment(loaded.pushed_at),
            size_bytes=len(loaded.row.value),
            queue=self._queue,
        )


def _behind(rows: Iterable[Any], skipped: int, part: int) -> Iterator[Any]:
    """Yield the rows behind some; the last if there are not so many."""
    found = list(rows)
    yield from found[min(skipped, max(0, len(found) - part)) :]


def _sound(loaded: Loaded) -> Item:
    if isinstance(loaded.item, CorruptItem):
        raise loaded.item
    return loaded.item


def _joined(chunks: Iterable[Any], count: int) -> bytes:
    values = [chunk.value for chunk in chunks]
    if len(values) != count:
        raise ValueError(f"{len(values)} of its {count} later chunks are there")
    return b"".join(values)
