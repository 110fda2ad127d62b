"""Check and encode what is pushed: it becomes entries, which only need to be written.

The FDB tuple layer sorts every integer before every float, whatever their values: 2 comes
before 0.31. So all priorities of a queue have one type, and numbers that fit are converted.
"""

from __future__ import annotations

import datetime
import math
import numbers
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from fdbqueue.exceptions import (
    BatchTooLarge,
    InvalidInput,
    InvalidPriority,
    InvalidValue,
    ValueTooLarge,
    message_of,
)
from fdbqueue.service.clock import duration, in_seconds, microseconds, now_us
from fdbqueue.service.codecs import LATEST_PUSH
from fdbqueue.service.items import NOT_GIVEN, Duration, Item, Priority, Push
from fdbqueue.service.sizes import (
    MAX_RETURNED_BYTES,
    MAX_SECONDS,
    MAX_SENT_BYTES,
    SENT_BY_SET,
    STEP_BYTES,
)
from fdbqueue.service.storage.item_keys import numbered_suffix, random_suffix
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.steady import monotonic

MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**63 - 1

#: The most items of one of the transactions of a push of many.
_PUSHED_AT_ONCE = 5_000
#: A slow source's items are pushed once the first of them has waited this long.
_PUSHED_WITHIN_SECONDS = 1.0
#: An item has up to four keys.
_KEYS_SENT = 4 * SENT_BY_SET


class NoPriorities:
    """Refuse priorities, for a FIFO queue.

    Args:
        queue: The queue's name, for errors.
    """

    name: str | None = None

    def __init__(self, queue: str) -> None:
        self._queue = queue

    def of_push(self, given: Any) -> Priority | None:
        """Return the priority of a push.

        Raises:
            InvalidPriority: A priority is given.
        """
        return None if given is NOT_GIVEN else self.bound(given)

    def bound(self, given: Any) -> Priority | None:
        """Return a bound of a range of priorities.

        Raises:
            InvalidPriority: A priority is given.
        """
        if given is not None:
            raise InvalidPriority(
                queue=self._queue, priority=given, reason="a FIFO queue has no priorities"
            )
        return None


class PriorityType:
    """Convert the priorities of one queue to ``int`` or ``float``.

    Args:
        name: ``"int"`` or ``"float"``, or the type itself.
        queue: The queue's name, for errors.
    """

    def __init__(self, name: str | type, queue: str) -> None:
        self.name: str = name.__name__ if isinstance(name, type) else name
        self._queue = queue

    def of_push(self, given: Any) -> Priority:
        """Return the priority of a push in the queue's type: 0 when none is given.

        Raises:
            InvalidPriority: It does not fit the type, as for :meth:`coerce`.
        """
        priority = 0 if given is NOT_GIVEN else given
        if type(priority) is int and self.name == "int" and MIN_INTEGER <= priority <= MAX_INTEGER:
            return priority
        return self.coerce(priority)

    def bound(self, given: Any) -> Priority | None:
        """Return a bound of a range of priorities in the queue's type, None for no bound.

        Raises:
            InvalidPriority: It does not fit the type, as for :meth:`coerce`.
        """
        return None if given is None else self.coerce(given)

    def coerce(self, priority: Any) -> Priority:
        """Return the priority in the queue's type.

        Raises:
            InvalidPriority: It is a boolean or not a number, not finite, an integer beyond 64
                bits, a fraction in an int queue, or an integer that no float equals.
        """
        if type(priority) is int:
            return self._from_integer(priority)
        if type(priority) is float and self.name == "float" and math.isfinite(priority):
            return priority + 0.0  # the tuple layer sorts -0.0 before 0.0
        if isinstance(priority, bool) or not isinstance(priority, numbers.Real):
            raise self._invalid(priority, "it is not a number")
        if isinstance(priority, numbers.Rational) and priority.denominator == 1:
            return self._from_integer(int(priority.numerator))
        try:
            value = float(priority)
        except OverflowError:
            raise self._invalid(priority, "it is beyond 64 bits") from None
        if not math.isfinite(value):
            raise self._invalid(priority, "it is not finite")
        if self.name == "float":
            return value + 0.0  # the tuple layer sorts -0.0 before 0.0
        if not value.is_integer():
            raise self._invalid(priority, "it is a fraction, and the queue's type is int")
        return int(self._from_integer(int(value)))

    def _from_integer(self, value: int) -> Priority:
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            raise self._invalid(value, "it is beyond 64 bits")
        if self.name == "int":
            return value
        if int(float(value)) != value:
            raise self._invalid(value, "no float equals it, and the queue's type is float")
        return float(value)

    def _invalid(self, priority: Any, reason: str) -> InvalidPriority:
        return InvalidPriority(
            queue=self._queue, priority=priority, priority_type=self.name, reason=reason
        )


Priorities = NoPriorities | PriorityType


class Entry(NamedTuple):
    """An item ready to be pushed.

    ``random`` is drawn once for each call, and ends with the tag of the unique key. ``until`` is
    when a delayed item comes to its place, None for one that is ready at once. ``tag`` is empty
    if there is no unique key. ``attempts`` are those that a moved item brings; they are in
    ``value`` too, if the codec keeps metadata.
    """

    value: bytes
    priority: Priority | None
    random: bytes
    pushed_at: int
    until: int | None = None
    tag: bytes = b""
    attempts: int = 0


class Encoder:
    """Check and encode what is pushed to one queue.

    Args:
        store: The queue's items.
        priorities: Its type of priorities.
    """

    def __init__(self, store: ItemStore, priorities: Priorities) -> None:
        self.store = store
        self._queue = store.queue
        self._codec = store.codec
        self._key_bytes = store.keys.size_bytes
        # In a queue with shards the places of items have the numbers of their pushes.
        self._suffix = numbered_suffix if store.keys.shards else random_suffix
        self.priorities = priorities
        self.max_value_bytes = store.options.max_value_bytes

    def entry(self, value: Any, priority: Any = None) -> Entry:
        """Return an item to be pushed that is ready at once.

        Raises:
            InvalidInput: The queue does not take it.
        """
        return self._entry(value, self._given(priority), None)

    def of_push(self, push: Push, tag: bytes = b"") -> Entry:
        """Return what to write for a push, given the tag of its unique key.

        Raises:
            InvalidInput: The queue does not take it.
        """
        until = None
        if push.delay is not None or push.not_before is not None:
            until = self.until(push.delay, push.not_before)
        return self._entry(push.value, self.priorities.of_push(push.priority), until, tag)

    def of_many(
        self, items: Iterable[Any], delay: Duration | None, not_before: datetime.datetime | None
    ) -> Iterator[Entry]:
        """Return what to write for values, or for pairs of a value and a priority.

        Raises:
            InvalidInput: The delay, or an item once it is reached, is not acceptable.
        """
        until = self.until(delay, not_before)
        if self.priorities.name is None:
            return (self._entry(value, None, until) for value in items)
        return (self._of_pair(pair, until) for pair in items)

    def of_moved(self, item: Item, priority: Any) -> Entry:
        """Return what to write for an item of another queue, with its time and its attempts.

        Args:
            item: The item. A delayed one stays hidden until its time; others become ready.
            priority: Its priority in this queue; None for its own.

        Raises:
            InvalidInput: The queue cannot hold its value or its priority; it names the item.
        """
        pushed_at = now_us() if item.pushed_at is None else microseconds(item.pushed_at)
        try:
            if pushed_at >= LATEST_PUSH:
                raise InvalidInput(queue=self._queue, reason="its pushed_at is after the year 9891")
            level = None
            if self.priorities.name is not None:
                level = self._given(item.priority if priority is None else priority)
            data = self._encoded(item.value, pushed_at, item.attempts)
        except InvalidInput as error:
            raise type(error)(**{**error.context, "id": item.id}) from error
        until = self.until(None, item.until) if item.state == "delayed" else None
        return Entry(data, level, self._suffix(), pushed_at, until, attempts=item.attempts)

    def facts(self, push: Push, entry: Entry) -> tuple[Any, ...]:
        """Return what identifies a push under an idempotency key: not when it is made."""
        return (
            self._codec.encode(push.value, 0, 0),
            entry.priority,
            None if push.delay is None else in_seconds(push.delay),
            push.not_before and microseconds(push.not_before),
            *([entry.tag] if entry.tag else []),
        )

    def _of_pair(self, pair: tuple[Any, Any], until: int | None) -> Entry:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidInput(queue=self._queue, reason="(value, priority) pairs are needed")
        value, priority = pair
        return self._entry(value, self._given(priority), until)

    def _given(self, priority: Any) -> Priority | None:
        """Return a priority that has to be given, if the queue has priorities.

        Raises:
            InvalidPriority: It is missing, or does not fit.
        """
        if priority is None and self.priorities.name is not None:
            raise InvalidPriority(queue=self._queue, priority=None, reason="it is not a number")
        return self.priorities.bound(priority)

    def _entry(
        self, value: Any, priority: Priority | None, until: int | None, tag: bytes = b""
    ) -> Entry:
        pushed_at = now_us()
        data = self._encoded(value, pushed_at, 0)
        return Entry(data, priority, self._suffix() + tag, pushed_at, until, tag)

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

    def until(self, delay: Duration | None, not_before: datetime.datetime | None) -> int | None:
        """Return when a pushed item becomes ready, None for at once.

        Raises:
            InvalidInput: Both are given, or one is out of its range.
        """
        if delay is None and not_before is None:
            return None
        if delay is not None and not_before is not None:
            raise InvalidInput(queue=self._queue, reason="either delay or not_before")
        if delay is not None:
            hidden = duration(self._queue, "delay", delay)
            return now_us() + hidden if hidden else None
        if not isinstance(not_before, datetime.datetime) or not_before.tzinfo is None:
            raise InvalidInput(
                queue=self._queue, not_before=not_before, allowed="a datetime with its time zone"
            )
        until, now = microseconds(not_before), now_us()
        if until - now > MAX_SECONDS * 1_000_000:
            allowed = f"at most {MAX_SECONDS} seconds ahead"
            raise InvalidInput(queue=self._queue, not_before=not_before, allowed=allowed)
        return until if until > now else None

    # Sizes

    def sent_bytes(self, entries: list[Entry]) -> int:
        """Return about how many bytes a transaction sends that pushes entries."""
        size = len(entries) * _KEYS_SENT * self._key_bytes
        for entry in entries:
            size += len(entry.value)
            if entry.tag:  # longer keys, and the row of the unique key
                size += _KEYS_SENT * self._key_bytes
        return size

    def check_fits_transaction(self, entries: list[Entry]) -> None:
        """Refuse more than one transaction takes.

        Raises:
            BatchTooLarge: They are too large together.
        """
        size = sum([len(entry.value) for entry in entries])
        if size > MAX_RETURNED_BYTES or self.sent_bytes(entries) > MAX_SENT_BYTES:
            raise BatchTooLarge(queue=self._queue, size_bytes=size, limit_bytes=MAX_RETURNED_BYTES)

    def split(self, entries: Iterable[Entry | None]) -> Iterator[list[Entry]]:
        """Yield entries in order, in lists for one transaction each.

        Each is bounded by bytes, by number, and by how long its first entry has waited; a None
        ends it, because the next entry may take long to come. Only one list is held at a time, so
        a source of any length takes little memory.
        """
        batch: list[Entry] = []
        size = 0
        begun_at = 0.0
        for entry in entries:
            if entry is None:
                if batch:
                    yield batch
                    batch, size = [], 0
                continue
            entry_size = len(entry.value) + SENT_BY_SET * self._key_bytes
            if batch and size + entry_size > STEP_BYTES:
                yield batch
                batch, size = [], 0
            if not batch:
                begun_at = monotonic()
            batch.append(entry)
            size += entry_size
            if len(batch) >= _PUSHED_AT_ONCE or monotonic() - begun_at > _PUSHED_WITHIN_SECONDS:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch
