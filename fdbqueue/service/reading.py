"""Read items: from the ends of a queue, or a page of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from fdb import fdboptions

from fdbqueue.exceptions import CorruptItem, InvalidInput
from fdbqueue.service.codecs import Codec
from fdbqueue.service.items import Item, Page, Priority, Undecodable, moment
from fdbqueue.service.keyspace import ItemKeys

#: Which end of a queue: ``"min"`` is the lowest priority and the earliest pushed.
End = Literal["min", "max"]

#: One operation returns no more stored bytes than this.
MAX_RETURNED_BYTES = 5_000_000

_WANT_ALL: int = fdboptions.StreamingMode["want_all"][0]


class ItemReader:
    """Turn the rows of one queue into items.

    Args:
        keys: The queue's keys.
        codec: The queue's codec.
        queue: The queue's name, for errors.
    """

    def __init__(self, keys: ItemKeys, codec: Codec, queue: str) -> None:
        self._keys = keys
        self._codec = codec
        self._queue = queue

    def ends(self, tr: Any, count: int, end: End) -> list[tuple[bytes, Item]]:
        """Return the keys and items at one end: up to a number, and to 5,000,000 bytes.

        Raises:
            CorruptItem: One of them cannot be decoded.
        """
        found, size = [], 0
        for row in self._rows(tr, *self._keys.bounds(), count, end):
            found.append((row.key, self.item(row.key, row.value)))
            size += len(row.value)
            if size >= MAX_RETURNED_BYTES:
                break
        return found

    def page(self, tr: Any, begin: bytes, stop: bytes, limit: int, end: End) -> Page:
        """Return the items of a range of keys, those that cannot be decoded included."""
        items, size = [], 0
        for row in self._rows(tr, begin, stop, limit, end):
            items.append(self.shown(row.key, row.value))
            size += len(row.value)
            if len(items) == limit or size >= MAX_RETURNED_BYTES:
                return Page(items, items[-1].id)
        return Page(items, None)

    def item(self, key: bytes, data: bytes) -> Item:
        """Return the item of a row.

        Raises:
            CorruptItem: The key or the value cannot be decoded.
        """
        try:
            stored = self._codec.decode(data)
            position = self._keys.position(key)
        except (ValueError, TypeError) as error:
            raise self._corrupt(key, error) from error
        return Item(
            value=stored.value,
            priority=position.priority,
            id=self._keys.item_id(key),
            pushed_at=None if stored.pushed_at is None else moment(stored.pushed_at),
            attempts=stored.attempts,
            size_bytes=len(data),
        )

    def shown(self, key: bytes, data: bytes) -> Item:
        """Return the item of a row, its value :class:`Undecodable` where it cannot be read."""
        try:
            return self.item(key, data)
        except CorruptItem as error:
            return Item(
                value=Undecodable(data, error.context["reason"]),
                priority=self._priority(key),
                id=self._keys.id_of(key),
                size_bytes=len(data),
            )

    def sequence(self, key: bytes) -> int:
        """Return the place of a key among its equals.

        Raises:
            CorruptItem: It is not the key of an item.
        """
        try:
            return self._keys.position(key).sequence
        except (ValueError, TypeError) as error:
            raise self._corrupt(key, error) from error

    def _priority(self, key: bytes) -> Priority | None:
        try:
            return self._keys.position(key).priority
        except (ValueError, TypeError):
            return None

    def _corrupt(self, key: bytes, error: Exception) -> CorruptItem:
        return CorruptItem(queue=self._queue, id=self._keys.id_of(key), reason=str(error))

    def _rows(self, tr: Any, begin: bytes, stop: bytes, limit: int, end: End) -> Iterable[Any]:
        if end not in {"min", "max"}:
            raise InvalidInput(queue=self._queue, end=end, allowed="min, max")
        rows: Iterable[Any] = tr.get_range(
            begin, stop, limit=limit, reverse=end == "max", streaming_mode=_WANT_ALL
        )
        return rows
