"""Keep the counts and the history of a queue, by atomic operations.

They change in the transaction that changes the items, so they are exact and never conflict.
"""

from __future__ import annotations

import dataclasses
import datetime
import heapq
import math
import random
import struct
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from fdb import fdboptions

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import moment, now_us
from fdbqueue.service.items import DeadReason, Priority
from fdbqueue.service.sizes import MAX_ITEMS_A_CALL
from fdbqueue.service.storage.family_index import Member
from fdbqueue.service.storage.item_keys import End, Place
from fdbqueue.service.storage.tables import Hidden, State, TableKeys

#: How long the history is kept.
HISTORY_MINUTES = 24 * 60

_MINUTE_US = 60_000_000
#: The first fields of the count of ready items.
_READY_AND_TAKEN = struct.Struct("<qq")
_WANT_ALL: int = fdboptions.StreamingMode["want_all"][0]
_FIELD = 64
_HALF = _FIELD // 2
_MASK = (1 << _FIELD) - 1
#: The share of counting transactions that also remove old history.
_TRIMMED_SHARE = 0.01

_STATES = (State.LEASED, State.DELAYED, State.DEAD)
_HIDDEN_FIELDS = len(_STATES)
#: What one item in a state adds to the number that has a field for each state.
_ONE_HIDDEN = {state: 1 << _FIELD * i for i, state in enumerate(_STATES)}


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """How many items a queue holds.

    Attributes:
        ready: Items that can be popped now.
        leased: Items that workers hold; items of expired leases too, until the next pop or
            lease requeues them.
        delayed: Items that are hidden until a time; those of expired delays too, until the
            next pop or lease requeues them.
        dead: Dead letters.
    """

    ready: int
    leased: int
    delayed: int
    dead: int


@dataclasses.dataclass(frozen=True, slots=True)
class Minute:
    """The pushes and pops of one minute.

    What follows ``at`` is stored as the fields of one number, in this order.

    Attributes:
        at: When the minute began, in UTC.
        pushes: Items pushed, those with a delay included.
        pops: Items removed for good: popped or acknowledged.
    """

    at: datetime.datetime
    pushes: int
    pops: int


#: How many fields a minute's number has.
_MINUTE_FIELDS = len(dataclasses.fields(Minute)) - 1


class CountChange:
    """What a transaction changes in the counts of a queue; written at its end.

    Args:
        tables: The keys of the queue's tables.
        tr: The transaction.

    Attributes:
        tr: As given.
        ready: How many more items are ready.
        taken: One 64-bit number: its low half counts items taken at the min end, its high half
            those taken at the max end. Poppers compare it to see whether others pop.
        wakes: How many items got a time at which they become ready, or came back to their places
            without having ceased to count as ready. It wakes the waiting poppers, who look at once
            and learn the time.
        pushes: How many items were pushed.
        pops: How many items were removed for good.
        high: The highest count or index of a hidden item. Later pushes get a higher one,
            because the hidden item may be requeued.
        news_at: From when there may be something to take that was not there, in microseconds: 0
            for now, None for nothing. It is written to the index of the queue's family.
    """

    #: Of the class, because most transactions that take have none.
    news_at: int | None = None

    def __init__(self, tables: TableKeys, tr: Transaction) -> None:
        self._tables = tables
        self.tr = tr
        self._levels: defaultdict[bytes, int] = defaultdict(int)  # by key: 2 and 2.0 are two
        self._hidden = 0  # all states in one number, as it is stored
        self.ready = 0
        self.taken = 0
        self.wakes = 0
        self.pushes = 0
        self.pops = 0
        self.high = -1
        self._corrects = False

    #: When the first would have expired of the leases that end, and when the first of those that
    #: begin. Of the class, because most transactions have none.
    _first_ended = _first_begun = math.inf

    #: The read of whether the ends of leases are news, if it has begun.
    _limited: Any = None

    #: How many more dead letters each group has. Of the class, because few transactions have any.
    _deaths: Counter[bytes] | None = None

    def enter(self, place: Place, priority: Priority | None, pushed_at: Any) -> None:
        """Count an item that becomes ready."""
        self.ready += 1
        self.news_at = 0
        if priority is not None:
            self._levels[self._tables.level(priority)] += 1
            if pushed_at is not None:
                place.set(self.tr, self._tables.age_prefix(pushed_at), b"")

    def leave(self, place: bytes, priority: Priority | None, pushed_at: Any) -> None:
        """Count an item that is no longer ready."""
        self.ready -= 1
        if priority is not None:
            self._levels[self._tables.level(priority)] -= 1
            if pushed_at is not None:
                self.tr.clear(self._tables.age_prefix(pushed_at) + place)

    def take(self, end: End, count: int) -> None:
        """Note that items were taken at an end."""
        self.taken += count << (_HALF if end == "max" else 0)

    def correct(self, level: bytes, change: int) -> None:
        """Correct the count of a priority, given as its key."""
        self._levels[level] += change
        self._corrects = True

    def hide(self, hidden: Hidden) -> None:
        """Count an item that enters a hidden state."""
        self._hidden += _ONE_HIDDEN[hidden.state]
        if hidden.until < self._first_begun and hidden.state is State.LEASED:
            self._first_begun = hidden.until

    def reveal(self, hidden: Hidden) -> None:
        """Count an item that leaves a hidden state."""
        self._hidden -= _ONE_HIDDEN[hidden.state]
        if hidden.until < self._first_ended and hidden.state is State.LEASED:
            self._first_ended = hidden.until

    def correct_hidden(self, state: State, change: int) -> None:
        """Correct the count of a hidden state."""
        self._hidden += change * _ONE_HIDDEN[state]

    @property
    def leased(self) -> int:
        """How many more items are leased; below zero if more leases end than begin."""
        return (self._hidden + (1 << _FIELD - 1) & _MASK) - (1 << _FIELD - 1)

    def die(self, group: bytes, count: int) -> None:
        """Count items that enter a group of dead letters; a negative number leaves it."""
        if self._deaths is None:
            self._deaths = Counter()
        self._deaths[group] += count

    def expect_ends(self) -> None:
        """Begin to read whether the ends of leases are news: the index of the family says why."""
        member = self._tables.member
        if member is not None and self._limited is None:
            self._limited = member.begin_end_is_news(self.tr)

    def come_at(self, moment: int) -> None:
        """Note that there may be something new to take from a moment on; 0 for now."""
        known = self.news_at
        self.news_at = moment if known is None else min(known, moment)

    def write(self) -> None:
        """Add the changes to the queue's counts, and the news to the index of its family.

        If leases that begin, or are extended, expire before all of those whose place they take,
        who waits for the end of one, and the row of the index, may know a moment that is too late.
        """
        tr, tables = self.tr, self._tables
        is_sooner = self._first_begun < self._first_ended < math.inf
        if is_sooner:
            self.come_at(int(self._first_begun))
        if tables.member is not None and (self._hidden or self.news_at is not None):
            self._write_news(tables.member)
        sums = self.ready + (self.taken << _FIELD) + (self.wakes << 2 * _FIELD)
        # in one field more, which the next change of the count drops
        hidden = self._hidden + (is_sooner << _FIELD * _HIDDEN_FIELDS)
        added = [
            (tables.ready_taken_wakes, sums, 3),
            (tables.hidden, hidden, _HIDDEN_FIELDS + is_sooner),
        ]
        events = self.pushes + (self.pops << _FIELD)  # as the fields of Minute
        if events:
            minute = now_us() // _MINUTE_US
            added.append((tables.minute(minute), events, _MINUTE_FIELDS))
            if random.random() < _TRIMMED_SHARE:
                oldest = max(0, minute - HISTORY_MINUTES)
                tr.clear_range(tables.minute(0), tables.minute(oldest))
        for key, number, fields in added:
            if number:  # one little-endian integer, so that one atomic add changes all fields
                stored = number & ((1 << _FIELD * fields) - 1)
                tr.add(key, stored.to_bytes(8 * fields, "little"))
        if self.high >= 0:
            tr.max(tables.high, (self.high & _MASK).to_bytes(8, "little"))
        for level, change in self._levels.items():
            self._write_one(level, change, clears=change < 0 or self._corrects)
        for group, change in self._deaths.items() if self._deaths else ():
            # Also from below zero to zero: a recount corrects what others have removed.
            self._write_one(tables.reason(group), change, clears=change != 0)

    def _write_news(self, member: Member) -> None:
        if self.leased < 0 and self.news_at != 0:
            self.expect_ends()
            if self._limited is None or self._limited.present():
                self.news_at = 0
        if self.news_at is not None:
            member.announce(self.tr, self.news_at)

    def _write_one(self, key: bytes, change: int, *, clears: bool) -> None:
        """Add to a count that has a key of its own, which is cleared once it is zero."""
        if change:
            self.tr.add(key, (change & _MASK).to_bytes(8, "little"))
        if clears:
            self.tr.compare_and_clear(key, bytes(8))


class Counters:
    """Read the counts of one queue.

    Args:
        tables: The keys of its tables.
    """

    def __init__(self, tables: TableKeys) -> None:
        self._tables = tables

    def size(self, tr: Transaction) -> int:
        """Return how many items are ready."""
        return ready_and_taken(_bytes(tr.snapshot[self._tables.ready_taken_wakes]))[0]

    def begin_counts(self, tr: Transaction) -> Callable[[], Counts]:
        """Begin to read the counts by state; call the returned function for the result."""
        tables, snapshot = self._tables, tr.snapshot
        ready, hidden = snapshot[tables.ready_taken_wakes], snapshot[tables.hidden]

        def result() -> Counts:
            size, _ = ready_and_taken(_bytes(ready))
            return Counts(size, *_fields(_bytes(hidden), _HIDDEN_FIELDS))

        return result

    def hidden(self, tr: Transaction) -> dict[State, int]:
        """Return how many items are in each hidden state."""
        fields = _fields(_bytes(tr.snapshot[self._tables.hidden]), _HIDDEN_FIELDS)
        return dict(zip(_STATES, fields, strict=True))

    def by_priority(
        self, tr: Transaction, after: Priority | None, limit: int
    ) -> list[tuple[Priority, int]]:
        """Return priorities in order, each with its number of ready items."""
        return self.some_by_priority(tr, after, limit)[0]

    def some_by_priority(
        self, tr: Transaction, after: Priority | None, limit: int
    ) -> tuple[list[tuple[Priority, int]], bool]:
        """Return what :meth:`by_priority` does, and whether there may be more priorities."""
        begin, end = self._tables.levels
        if after is not None:
            begin = self._tables.level(after) + b"\x00"
        rows = list(tr.snapshot.get_range(begin, end, limit=limit))
        counted = [(self._tables.priority_of(row.key), _fields(row.value, 1)[0]) for row in rows]
        return [(priority, count) for priority, count in counted if count], len(rows) == limit

    def levels(self, tr: Transaction, low: bytes | None, high: bytes | None) -> Counter[bytes]:
        """Return the counts by priority, by their keys, from ``low`` to below ``high``."""
        begin, end = self._tables.levels
        rows = tr.snapshot.get_range(low or begin, high or end)
        return Counter({bytes(row.key): _fields(row.value, 1)[0] for row in rows})

    def by_reason(self, tr: Transaction) -> Counter[bytes]:
        """Return the stored counts of dead letters by group, those below zero included."""
        rows = tr.snapshot.get_range(*self._tables.reasons, streaming_mode=_WANT_ALL)
        return Counter({self._tables.group_of(row.key): _fields(row.value, 1)[0] for row in rows})

    def dead_by_reason(self, tr: Transaction, limit: int) -> list[DeadReason]:
        """Return the most frequent of the first 10,000 reasons of dead letters, the most first."""
        bounds = self._tables.reasons
        rows = tr.snapshot.get_range(*bounds, limit=MAX_ITEMS_A_CALL, streaming_mode=_WANT_ALL)
        found = [(_fields(row.value, 1)[0], self._tables.group_of(row.key)) for row in rows]
        most = heapq.nsmallest(limit, ((-count, group) for count, group in found if count > 0))
        return [DeadReason(group.decode(errors="replace"), -count) for count, group in most]

    def history(self, tr: Transaction, minutes: int) -> list[Minute]:
        """Return the last minutes, idle ones included; the current one is the last."""
        return self.begin_history(tr, minutes)()

    def begin_history(self, tr: Transaction, minutes: int) -> Callable[[], list[Minute]]:
        """Begin to read :meth:`history`; call the returned function for the result."""
        present = now_us() // _MINUTE_US
        first = present - minutes + 1
        begin, end = self._tables.minute(first), self._tables.minute(present + 1)
        rows = tr.snapshot.get_range(begin, end, streaming_mode=_WANT_ALL)

        def result() -> list[Minute]:
            found = {
                self._tables.minute_of(row.key): _fields(row.value, _MINUTE_FIELDS) for row in rows
            }
            idle = (0,) * _MINUTE_FIELDS
            return [
                Minute(moment(number * _MINUTE_US), *found.get(number, idle))
                for number in range(first, present + 1)
            ]

        return result


#: :attr:`CountChange.high` for items in commit order, which sort behind all counts.
HIGHEST = _MASK


def high_of(value: Any) -> int:
    """Return the highest count or index ever hidden, from the stored value; -1 for none."""
    return int.from_bytes(bytes(value), "little") if value.present() else -1


def leased_in(data: bytes) -> int:
    """Return how many items are leased, from the stored count of the hidden ones."""
    return _fields(data, 1)[0]


def taken_at(end: End, taken: int) -> int:
    """Return how many items were ever taken at an end, up to a multiple of 2**32."""
    return taken >> (_HALF if end == "max" else 0) & ((1 << _HALF) - 1)


def ready_and_taken(data: bytes) -> tuple[int, int]:
    """Return how many items are ready, and how many were ever taken, for :func:`taken_at`."""
    ready, taken = _READY_AND_TAKEN.unpack_from(data.ljust(_READY_AND_TAKEN.size, b"\0"))
    return ready, taken + (ready < 0)  # which has borrowed from the next field


def _bytes(value: Any) -> bytes:
    return bytes(value) if value.present() else b""


def _fields(data: bytes, count: int) -> tuple[int, ...]:
    """Return the signed fields of a number that atomic adds made."""
    number = int.from_bytes(data, "little")
    found = []
    for _ in range(count):
        field = number & _MASK
        if field >> (_FIELD - 1):
            field -= 1 << _FIELD
        found.append(field)
        number = (number - field) >> _FIELD
    return tuple(found)
