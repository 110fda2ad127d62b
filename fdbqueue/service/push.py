"""Push items: one, several in one transaction, or any number split into transactions.

How a push goes: :class:`Writer` checks and encodes the values (:meth:`Writer.prepare`); in a
transaction it looks for the response that is saved under an idempotency key, reads where the
queue ends (in the recipes' order alone, and by a snapshot read), and writes the items and what
they change in the counts. Pushes never conflict with one another.
"""

from __future__ import annotations

import datetime
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import (
    BatchTooLarge,
    InvalidInput,
    InvalidPriority,
    InvalidValue,
    KeyTooLarge,
    OutcomeUnknown,
    PushInterrupted,
    ValueTooLarge,
    message_of,
)
from fdbqueue.service import instrumentation
from fdbqueue.service.clock import duration, now_us
from fdbqueue.service.idempotency import (
    Call,
    IdempotencyKey,
    Placed,
    SavedResponses,
    packed_places,
    unpacked_places,
)
from fdbqueue.service.items import LAST_MOMENT, Item, Priority, Push, microseconds, moment
from fdbqueue.service.limits import (
    BATCH_BYTES,
    MAX_KEY_BYTES,
    MAX_RETURNED_BYTES,
    MAX_SENT_BYTES,
    MAX_VALUE_BYTES,
    SENT_BY_SET,
)
from fdbqueue.service.priorities import Priorities
from fdbqueue.service.runner import Runner
from fdbqueue.service.storage.counts import HIGHEST, CountChange, high_of
from fdbqueue.service.storage.keys import Place, random_suffix
from fdbqueue.service.storage.reader import Row
from fdbqueue.service.storage.store import Hidden, ItemStore
from fdbqueue.service.storage.tables import State
from fdbqueue.service.transactions import run, run_stamped

MAX_BATCH_ITEMS = 5_000
#: A slow source's items are pushed once the first of them has waited this long.
MAX_BATCH_SECONDS = 1.0

#: What the keys of the queue's tables have more than those of its items.
_TABLE_BYTES = 16

#: An item has up to four keys.
_KEYS_SENT = 4 * SENT_BY_SET


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
Beside = Callable[[Transaction, list[Entry]], Callable[[], None]]
#: Pushes what was prepared, in the transaction it is given, or in one of its own for None.
Prepared = Callable[[Transaction | None], list[Item]]


class _Pushed(NamedTuple):
    """Where items were written, now or by an earlier call: then ``stamp`` is that commit's."""

    placed: list[Placed]
    stamp: bytes | None


def _is_new(pushed: _Pushed) -> bool:
    return pushed.stamp is None


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
        entry_size = len(entry.value) + SENT_BY_SET * key_bytes
        if batch and size + entry_size > BATCH_BYTES:
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


class Writer:
    """Check, encode and write the items of one queue.

    Args:
        runner: Runs its operations.
        store: The queue's items.
        responses: The saved responses of calls with an idempotency key.
        priorities: The queue's type of priorities.
        in_commit_order: Whether items are in the order of their commits, by versionstamps.
        max_value_bytes: The longest encoded value.
    """

    def __init__(
        self,
        runner: Runner,
        store: ItemStore,
        responses: SavedResponses,
        priorities: Priorities,
        *,
        in_commit_order: bool,
        max_value_bytes: int,
    ) -> None:
        self._runner = runner
        self._store = store
        self._responses = responses
        self._keys = store.keys
        self._codec = store.codec
        self._queue = store.queue
        self._in_commit_order = in_commit_order
        self.priorities = priorities
        self.max_value_bytes = max_value_bytes

    # Some items in one transaction

    def prepare(self, push: Push, once: IdempotencyKey | str | None) -> Prepared:
        """Check and encode a value now, to be pushed later."""
        entries = [self._entry_of(push)]
        call = None if once is None else self._call(once, "push", [push], entries)
        return functools.partial(self._push, [push], entries, call)

    def prepare_batch(self, pushes: Sequence[Push], once: IdempotencyKey | str | None) -> Prepared:
        """Check and encode values now, to be pushed later in one transaction."""
        pushes, entries = list(pushes), []
        for index, push in enumerate(pushes):
            try:
                entries.append(self._entry_of(push))
            except InvalidInput as error:
                raise type(error)(**error.context, index=index) from error
        self.check_batch(entries)
        if not entries and once is None:
            return lambda _: []
        call = None if once is None else self._call(once, "push_batch", pushes, entries)
        return functools.partial(self._push, pushes, entries, call)

    def _push(
        self,
        pushes: Sequence[Push],
        entries: list[Entry],
        call: Call | None,
        tr: Transaction | None,
    ) -> list[Item]:
        """Write entries in one transaction, and return their items."""
        if tr is not None:
            return self._items(pushes, entries, self._put_once(tr, entries, call), b"")
        push = functools.partial(self._push_alone, pushes, entries, call)
        return instrumentation.observed("push", self._queue, push)

    def _push_alone(
        self, pushes: Sequence[Push], entries: list[Entry], call: Call | None
    ) -> list[Item]:
        database = self._runner.database
        put = functools.partial(self._put_once, entries=entries, call=call)
        if self._in_commit_order:
            pushed, stamp = run_stamped(database, put, wrote=_is_new)
        else:
            pushed, stamp = run(database, put, wrote=_is_new), b""
        return self._items(pushes, entries, pushed, stamp)

    def _put_once(self, tr: Transaction, entries: list[Entry], call: Call | None) -> _Pushed:
        """Write entries, unless the call was made before."""
        if call is not None:
            found = self._responses.recall(self._responses.ask(tr, call), call)
            if found is not None:
                return _Pushed(unpacked_places(found[0]), found[1])
        placed = self.put(tr, entries)
        if call is not None:
            self._responses.save(tr, call, packed_places(placed), stamped=self._in_commit_order)
        return _Pushed(placed, None)

    def _call(
        self, once: IdempotencyKey | str, verb: str, pushes: Sequence[Push], entries: list[Entry]
    ) -> Call | None:
        """Return the call that pushes these; when it is made does not matter."""
        described = (
            (
                self._codec.encode(push.value, 0, 0),
                entry.priority,
                None if push.delay is None else float(push.delay),
                push.not_before and microseconds(push.not_before),
            )
            for push, entry in zip(pushes, entries, strict=True)
        )
        return self._responses.call(once, verb, *described)

    def _items(
        self, pushes: Sequence[Push], entries: list[Entry], pushed: _Pushed, stamp: bytes
    ) -> list[Item]:
        stamp = pushed.stamp or stamp
        return [
            self._item(push, entry, placed, stamp)
            for push, entry, placed in zip(pushes, entries, pushed.placed, strict=True)
        ]

    def _item(self, push: Push, entry: Entry, placed: Placed, stamp: bytes) -> Item:
        place, pushed_at, until = placed
        is_known = place.stamp_at is None or stamp
        return Item(
            value=push.value,
            priority=entry.priority,
            id=self._keys.item_id(place.stamped(stamp)) if is_known else "",
            pushed_at=moment(pushed_at) if self._codec.keeps_metadata else None,
            size_bytes=len(entry.value),
            state="ready" if until is None else "delayed",
            until=None if until is None else moment(until),
        )

    # Entries

    def entry(self, value: Any, priority: Any = None) -> Entry:
        """Return an item for :meth:`put_all`, ready at once.

        Raises:
            InvalidInput: The queue does not take it.
        """
        return self._entry(value, self._given(priority), None)

    def _given(self, priority: Any) -> Priority | None:
        """Return a priority that has to be given, where the queue has priorities.

        Raises:
            InvalidPriority: It is missing, or does not fit.
        """
        if priority is None and self.priorities.name is not None:
            raise InvalidPriority(queue=self._queue, priority=None, reason="it is not a number")
        return self.priorities.bound(priority)

    def _entry_of(self, push: Push) -> Entry:
        until = self.until(push.delay, push.not_before)
        return self._entry(push.value, self.priorities.of_push(push.priority), until)

    def _entry(self, value: Any, priority: Priority | None, until: int | None) -> Entry:
        pushed_at = now_us()
        data = self._encoded(value, pushed_at, 0)
        return Entry(data, priority, random_suffix(), pushed_at, until)

    def entry_moved(self, item: Item, priority: Any) -> Entry:
        """Return what to write for an item of another queue, with its time and its attempts.

        Args:
            item: The item.
            priority: Its priority in this queue; None for its own.

        Raises:
            InvalidInput: The queue cannot hold its value or its priority; it names the item.
        """
        pushed_at = now_us() if item.pushed_at is None else microseconds(item.pushed_at)
        try:
            level = None
            if self.priorities.name is not None:
                level = self._given(item.priority if priority is None else priority)
            data = self._encoded(item.value, pushed_at, item.attempts)
        except InvalidInput as error:
            raise type(error)(**{**error.context, "id": item.id}) from error
        return Entry(data, level, random_suffix(), pushed_at)

    def _encoded(self, value: Any, pushed_at: int, attempts: int) -> bytes:
        try:
            data = self._codec.encode(value, pushed_at, attempts)
        except (ValueError, TypeError) as error:
            raise InvalidValue(
                queue=self._queue, codec=self._codec.name, reason=message_of(error)
            ) from error
        if len(data) > self.max_value_bytes:
            raise ValueTooLarge(
                queue=self._queue, size_bytes=len(data), limit_bytes=self.max_value_bytes
            )
        return data

    def until(self, delay: float | None, not_before: datetime.datetime | None) -> int | None:
        """Return when a pushed item becomes ready, None for at once.

        Raises:
            InvalidInput: Both are given, or one is out of its range.
        """
        if delay is not None and not_before is not None:
            raise InvalidInput(queue=self._queue, reason="either delay or not_before")
        if delay is not None:
            hidden = duration(self._queue, "delay", delay)
            return now_us() + hidden if hidden else None
        if not_before is None:
            return None
        if not isinstance(not_before, datetime.datetime) or not_before.tzinfo is None:
            raise InvalidInput(
                queue=self._queue, not_before=not_before, allowed="a datetime with its time zone"
            )
        until, now = microseconds(not_before), now_us()
        if until > LAST_MOMENT:
            raise InvalidInput(queue=self._queue, not_before=not_before, allowed="up to year 9999")
        return until if until > now else None

    # Any number of items

    def push_many(
        self,
        items: Iterable[Any],
        delay: float | None,
        not_before: datetime.datetime | None,
        tr: Transaction | None,
    ) -> int:
        """Write values, or pairs of a value and a priority, and return how many."""
        until = self.until(delay, not_before)
        if self.priorities.name is None:
            entries = (self._entry(value, None, until) for value in items)
        else:
            entries = (self._pair(pair, until) for pair in items)
        if tr is not None:
            return len(self.put(tr, list(entries)))
        return self.put_all(entries)

    def _pair(self, pair: tuple[Any, Any], until: int | None) -> Entry:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidInput(queue=self._queue, reason="(value, priority) pairs are needed")
        value, priority = pair
        return self._entry(value, self._given(priority), until)

    def check_batch(self, entries: list[Entry]) -> None:
        """Refuse more than one transaction takes.

        Raises:
            BatchTooLarge: They are too large together.
        """
        size = sum([len(entry.value) for entry in entries])
        sent = size + len(entries) * _KEYS_SENT * self._keys.size_bytes
        if size > MAX_RETURNED_BYTES or sent > MAX_SENT_BYTES:
            raise BatchTooLarge(queue=self._queue, size_bytes=size, limit_bytes=MAX_RETURNED_BYTES)

    def put(self, tr: Transaction, entries: list[Entry]) -> list[Placed]:
        """Write entries behind what is there, and return their places.

        In the recipes' order the tail is read once for each priority, by a snapshot read;
        in commit order nothing is read. Pushes never conflict.

        Raises:
            KeyTooLarge: The subspace's prefix leaves no room for a key.
            CorruptItem: What is at the tail is no item.
            InvalidInput: What is at the tail was pushed in commit order, and this is not.
        """
        following = {} if self._in_commit_order else self._following(tr, entries)
        count_change = self._store.count_change()
        placed = []
        for entry in entries:
            chunks = max(1, -(-len(entry.value) // MAX_VALUE_BYTES))
            if self._in_commit_order:
                place = self._keys.place_in_commit_order(entry.priority, chunks)
            else:
                index = following[entry.priority]
                following[entry.priority] = index + 1
                place = self._keys.place(entry.priority, index, entry.random, chunks)
            self._check_key(place)
            self._write(tr, count_change, entry, place)
            placed.append(Placed(place, entry.pushed_at, entry.until))
        count_change.pushes += len(entries)
        count_change.write(tr)
        return placed

    def put_all(self, entries: Iterable[Entry], beside: Beside | None = None) -> int:
        """Write any number of entries in as many transactions as that takes.

        Args:
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
                put = functools.partial(self._put_batch, batch, beside)
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

    def _put_batch(self, entries: list[Entry], beside: Beside | None) -> int:
        """Write entries in a transaction of its own, and return how many."""
        put = functools.partial(self._put_beside, entries=entries, beside=beside)
        run(self._runner.database, put, wrote=lambda _: True)()
        return len(entries)

    def _put_beside(
        self, tr: Transaction, entries: list[Entry], beside: Beside | None
    ) -> Callable[[], None]:
        """Write entries and what goes beside them; return what to do once it is committed."""
        committed = _nothing if beside is None else beside(tr, entries)
        self.put(tr, entries)
        return committed

    def _write(
        self, tr: Transaction, count_change: CountChange, entry: Entry, place: Place
    ) -> None:
        value = self._store.write_chunks(tr, place, entry.value)
        pushed_at = entry.pushed_at if self._codec.keeps_metadata else None
        if entry.until is None:
            place.set(tr, self._keys.key(b""), value)
            count_change.enter(tr, place, entry.priority, pushed_at)
        else:
            row = Row(place.data, value)
            hidden = Hidden(State.DELAYED, row, entry.until, 0, pushed_at)
            self._store.hide(tr, count_change, hidden, place=place)

    def _following(self, tr: Transaction, entries: list[Entry]) -> dict[Any, int]:
        """Return the next index of each priority, above all that are ready or hidden."""
        tails = {}
        high = tr.snapshot[self._store.tables.high]
        for priority in {entry.priority: None for entry in entries}:
            begin, stop = self._keys.level(priority)
            tails[priority] = tr.snapshot.get_range(begin, stop, limit=1, reverse=True)
        above = high_of(high) + 1
        if above > HIGHEST:
            raise self._refusal()
        return {priority: max(above, self._behind(tail)) for priority, tail in tails.items()}

    def _behind(self, tail: Iterable[Any]) -> int:
        for row in tail:
            sequence = self._store.reader.sequence(self._keys.place_of(row.key))
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
