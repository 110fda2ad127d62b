"""Push items: one, or many split into transactions well within FoundationDB's limits."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from fdbqueue.exceptions import (
    BatchTooLarge,
    InvalidInput,
    InvalidValue,
    KeyTooLarge,
    OutcomeUnknown,
    PushInterrupted,
    ValueTooLarge,
    message_of,
)
from fdbqueue.service import instrumentation
from fdbqueue.service.clock import now_us
from fdbqueue.service.items import Priority
from fdbqueue.service.storage.counts import HIGHEST, Tally, high_of
from fdbqueue.service.storage.keys import MAX_KEY_BYTES, Place, random_suffix
from fdbqueue.service.storage.reader import MAX_RETURNED_BYTES, MAX_VALUE_BYTES, Row
from fdbqueue.service.storage.store import Hidden, Stock
from fdbqueue.service.storage.tables import State
from fdbqueue.service.transactions import run

#: FoundationDB advises transactions under 1 MB; its limit is 10 MB.
MAX_BATCH_BYTES = 1_000_000
MAX_BATCH_ITEMS = 5_000
#: A slow source's items are pushed once the first of them has waited this long.
MAX_BATCH_SECONDS = 1.0

#: What the keys of the queue's tables have more than those of its items.
_TABLE_BYTES = 16

#: A key is sent three times: in its mutation and as both ends of its conflict range.
_KEY_COPIES = 3
#: An item has up to four keys. FoundationDB's limit is 10,000,000 bytes.
_KEYS_SENT = 4 * _KEY_COPIES
_MAX_SENT_BYTES = 9_000_000


class Entry(NamedTuple):
    """An item ready to be pushed.

    ``random`` is drawn once for each call. ``until`` is when a delayed item comes to its
    place, None for one that is ready at once.
    """

    value: bytes
    priority: Priority | None
    random: bytes
    pushed_at: int
    until: int | None = None


#: Writes something in the transaction that pushes some entries, and returns what to do once
#: that is committed.
Beside = Callable[[Any, list[Entry]], Callable[[], None]]


def _nothing() -> None:
    """Do nothing."""


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
        stock: The queue's items.
        in_commit_order: Whether items are in the order of their commits, by versionstamps.
        max_value_bytes: The longest encoded value; longer ones than FoundationDB takes are
            split over several keys.
    """

    def __init__(self, stock: Stock, *, in_commit_order: bool, max_value_bytes: int) -> None:
        self._stock = stock
        self._keys = stock.keys
        self._codec = stock.codec
        self._queue = stock.queue
        self._in_commit_order = in_commit_order
        self._max_value_bytes = max_value_bytes

    def entry(self, value: Any, priority: Priority | None, until: int | None = None) -> Entry:
        """Encode a value.

        Raises:
            InvalidValue: The codec cannot encode it.
            ValueTooLarge: It is over the queue's limit once encoded.
        """
        pushed_at = now_us()
        try:
            data = self._codec.encode(value, pushed_at, 0)
        except (ValueError, TypeError) as error:
            raise InvalidValue(
                queue=self._queue, codec=self._codec.name, reason=message_of(error)
            ) from error
        if len(data) > self._max_value_bytes:
            raise ValueTooLarge(
                queue=self._queue, size_bytes=len(data), limit_bytes=self._max_value_bytes
            )
        return Entry(data, priority, random_suffix(), pushed_at, until)

    def check_batch(self, entries: list[Entry]) -> None:
        """Refuse more than one transaction takes.

        Raises:
            BatchTooLarge: They are too large together.
        """
        size = sum([len(entry.value) for entry in entries])
        sent = size + len(entries) * _KEYS_SENT * self._keys.size_bytes
        if size > MAX_RETURNED_BYTES or sent > _MAX_SENT_BYTES:
            raise BatchTooLarge(queue=self._queue, size_bytes=size, limit_bytes=MAX_RETURNED_BYTES)

    def put(self, tr: Any, entries: list[Entry]) -> list[Place]:
        """Write entries behind what is there, and return their places.

        In the recipes' order the tail is read once for each priority, by a snapshot read;
        in commit order nothing is read. Pushes never conflict.

        Raises:
            KeyTooLarge: The subspace's prefix leaves no room for a key.
            CorruptItem: What is at the tail is no item.
            InvalidInput: What is at the tail was pushed in commit order, and this is not.
        """
        following = {} if self._in_commit_order else self._following(tr, entries)
        tally = self._stock.tally()
        places = []
        for entry in entries:
            chunks = max(1, -(-len(entry.value) // MAX_VALUE_BYTES))
            if self._in_commit_order:
                place = self._keys.place_in_commit_order(entry.priority, chunks)
            else:
                index = following[entry.priority]
                following[entry.priority] = index + 1
                place = self._keys.place(entry.priority, index, entry.random, chunks)
            self._check_key(place)
            self._write(tr, tally, entry, place)
            places.append(place)
        tally.pushes += len(entries)
        tally.write(tr)
        return places

    def put_all(self, database: Any, entries: Iterable[Entry], beside: Beside | None = None) -> int:
        """Write any number of entries in as many transactions as that takes.

        Args:
            database: Anything with ``create_transaction()``.
            entries: The entries.
            beside: Writes something else in each transaction.

        Returns:
            How many were written.

        Raises:
            PushInterrupted: Something failed when some were written already, or may be.
        """
        pushed = 0
        begun: list[Entry] = []
        try:
            for batch in split(entries, self._keys.size_bytes):
                begun = batch
                put = functools.partial(self._put_batch, database, batch, beside)
                pushed += instrumentation.observed("push_many", self._queue, put)
                begun = []
        except BaseException as error:
            unknown = 0 if getattr(error, "outcome_known", False) else len(begun)
            if not isinstance(error, Exception):
                vars(error)["outcome_known"] = not pushed and not unknown
            elif pushed or isinstance(error, OutcomeUnknown):
                counts = {"pushed": pushed, **({"unknown": unknown} if unknown else {})}
                raise PushInterrupted(queue=self._queue, **counts) from error
            raise
        return pushed

    def _put_batch(self, database: Any, entries: list[Entry], beside: Beside | None) -> int:
        """Write entries in a transaction of its own, and return how many."""
        put = functools.partial(self._put_beside, entries=entries, beside=beside)
        run(database, put, wrote=lambda _: True)()
        return len(entries)

    def _put_beside(
        self, tr: Any, entries: list[Entry], beside: Beside | None
    ) -> Callable[[], None]:
        """Write entries and what goes beside them; return what to do once it is committed."""
        committed = _nothing if beside is None else beside(tr, entries)
        self.put(tr, entries)
        return committed

    def _write(self, tr: Any, tally: Tally, entry: Entry, place: Place) -> None:
        value = self._stock.write_chunks(tr, place, entry.value)
        pushed_at = entry.pushed_at if self._codec.keeps_metadata else None
        if entry.until is None:
            place.set(tr, self._keys.key(b""), value)
            tally.enter(tr, place, entry.priority, pushed_at)
        else:
            row = Row(place.data, value)
            hidden = Hidden(State.DELAYED, row, entry.until, 0, pushed_at)
            self._stock.hide(tr, tally, hidden, place=place)

    def _following(self, tr: Any, entries: list[Entry]) -> dict[Any, int]:
        """Return the next index of each priority, above all that are ready or hidden."""
        tails = {}
        high = tr.snapshot[self._stock.meta.high]
        for priority in {entry.priority: None for entry in entries}:
            begin, stop = self._keys.level(priority)
            tails[priority] = tr.snapshot.get_range(begin, stop, limit=1, reverse=True)
        above = high_of(high) + 1 if high.present() else 0
        if above > HIGHEST:
            raise self._refusal()
        return {priority: max(above, self._behind(tail)) for priority, tail in tails.items()}

    def _behind(self, tail: Iterable[Any]) -> int:
        for row in tail:
            sequence = self._stock.reader.sequence(self._keys.place_of(row.key))
            if not isinstance(sequence, int):
                raise self._refusal()
            return sequence + 1
        return self._keys.first_index

    def _refusal(self) -> InvalidInput:
        return InvalidInput(
            queue=self._queue,
            reason="it has held items in commit order: push with order='commit', or clear it",
        )

    def _check_key(self, place: Place) -> None:
        size = len(self._keys.key(place.data)) + _TABLE_BYTES
        if size > MAX_KEY_BYTES:
            raise KeyTooLarge(queue=self._queue, size_bytes=size, limit_bytes=MAX_KEY_BYTES)
