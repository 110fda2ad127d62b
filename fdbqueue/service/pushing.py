"""Push items: one, or many split into transactions well within FoundationDB's limits."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from fdbqueue.exceptions import (
    InvalidValue,
    KeyTooLarge,
    OutcomeUnknown,
    PushInterrupted,
    ValueTooLarge,
)
from fdbqueue.service.codecs import Codec
from fdbqueue.service.items import Priority
from fdbqueue.service.keyspace import MAX_KEY_BYTES, ItemKeys, random_suffix
from fdbqueue.service.reading import ItemReader
from fdbqueue.service.transactions import run

MAX_VALUE_BYTES = 100_000

#: FoundationDB advises transactions under 1 MB; its limit is 10 MB.
MAX_BATCH_BYTES = 1_000_000
MAX_BATCH_ITEMS = 5_000
#: A slow source's items are pushed once the first of them has waited this long.
MAX_BATCH_SECONDS = 1.0

#: A key is sent three times: in its mutation and as both ends of its conflict range.
_KEY_COPIES = 3


class Entry(NamedTuple):
    """An item ready to be pushed.

    ``random`` is drawn once for each call, so that a retry writes no second item.
    """

    value: bytes
    priority: Priority | None
    random: bytes
    pushed_at: int


def split(entries: Iterable[Entry], key_bytes: int) -> Iterator[list[Entry]]:
    """Yield the entries in order, in lists for one transaction each.

    Each is bounded by bytes, by number, and by how long its first entry has waited. Only
    one list is held at a time, so a source of any length takes little memory.

    Args:
        entries: The entries.
        key_bytes: About how long their keys will be.
    """
    batch: list[Entry] = []
    size = 0
    begun_at = 0.0
    for entry in entries:
        entry_size = len(entry.value) + _KEY_COPIES * key_bytes
        if batch and size + entry_size > MAX_BATCH_BYTES:
            yield batch
            batch, size = [], 0
        if not batch:
            begun_at = time.monotonic()
        batch.append(entry)
        size += entry_size
        if len(batch) >= MAX_BATCH_ITEMS or time.monotonic() - begun_at > MAX_BATCH_SECONDS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Pusher:
    """Encode and write the items of one queue.

    Args:
        keys: The queue's keys.
        codec: The queue's codec.
        reader: Reads the queue's tail.
        queue: The queue's name, for errors.
    """

    def __init__(self, keys: ItemKeys, codec: Codec, reader: ItemReader, queue: str) -> None:
        self._keys = keys
        self._codec = codec
        self._reader = reader
        self._queue = queue

    def entry(self, value: Any, priority: Priority | None) -> Entry:
        """Encode a value.

        Raises:
            InvalidValue: The codec cannot encode it.
            ValueTooLarge: It is over 100,000 bytes once encoded.
        """
        pushed_at = time.time_ns() // 1000
        try:
            data = self._codec.encode(value, pushed_at, 0)
        except (ValueError, TypeError) as error:
            raise InvalidValue(
                queue=self._queue, codec=self._codec.name, reason=str(error)
            ) from error
        if len(data) > MAX_VALUE_BYTES:
            raise ValueTooLarge(
                queue=self._queue, size_bytes=len(data), limit_bytes=MAX_VALUE_BYTES
            )
        return Entry(data, priority, random_suffix(), pushed_at)

    def put(self, tr: Any, entries: list[Entry]) -> list[bytes]:
        """Write entries behind what is there, and return their keys.

        The tail is read once for each priority, by a snapshot read: pushes never conflict.

        Raises:
            KeyTooLarge: The subspace's prefix leaves no room for a key.
            CorruptItem: What is at the tail is no item.
        """
        tails = {}
        for priority in {entry.priority: None for entry in entries}:
            begin, stop = self._keys.level(priority)
            tails[priority] = tr.snapshot.get_range(begin, stop, limit=1, reverse=True)
        following = {priority: self._following(tail) for priority, tail in tails.items()}
        keys = []
        for entry in entries:
            index = following[entry.priority]
            following[entry.priority] = index + 1
            key = self._keys.key(entry.priority, index, entry.random)
            if len(key) > MAX_KEY_BYTES:
                raise KeyTooLarge(queue=self._queue, size_bytes=len(key), limit_bytes=MAX_KEY_BYTES)
            tr[key] = entry.value
            keys.append(key)
        return keys

    def put_all(self, database: Any, entries: Iterable[Entry]) -> int:
        """Write any number of entries in as many transactions as that takes.

        Returns:
            How many were written.

        Raises:
            PushInterrupted: Something failed when some were written already, or may be.
        """
        pushed = 0
        batch: list[Entry] = []
        try:
            for batch in split(entries, self._keys.size_bytes):
                pushed += len(run(database, functools.partial(self.put, entries=batch)))
        except OutcomeUnknown as error:
            raise PushInterrupted(queue=self._queue, pushed=pushed, unknown=len(batch)) from error
        except Exception as error:
            if pushed:
                raise PushInterrupted(queue=self._queue, pushed=pushed) from error
            raise
        return pushed

    def _following(self, tail: Iterable[Any]) -> int:
        for row in tail:
            return self._reader.sequence(row.key) + 1
        return self._keys.first_index
