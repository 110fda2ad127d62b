"""Read queues without changing them: their items, and the figures of many queues at once.

Figures are begun to be read for all queues before the first is awaited. So a list of queues costs a
few round trips to a cluster, however many queues it has.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fdb import fdboptions

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import FormatMismatch, ItemNotFound
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.allowance import Limits
from fdbqueue.service.consume.head import Head, TransactionBudget
from fdbqueue.service.consume.round import Taker
from fdbqueue.service.consume.state import Pause, all_due, begin_pause, begin_state, parse_state
from fdbqueue.service.entries import Priorities
from fdbqueue.service.items import Item, Page, Priority, Undecodable, moment
from fdbqueue.service.limits import MAX_RETURNED_BYTES
from fdbqueue.service.storage.counts import Counters, Counts, Minute
from fdbqueue.service.storage.handoffs import all_handoffs
from fdbqueue.service.storage.hidden import Hidden
from fdbqueue.service.storage.item_keys import EVERY_PLACE
from fdbqueue.service.storage.reader import ENDS, End, Row
from fdbqueue.service.storage.store import STATES, ItemStore, check_state
from fdbqueue.service.storage.tables import HIDDEN_END, Kind
from fdbqueue.service.uniques import kept_while

if TYPE_CHECKING:
    from typing import Protocol

    class Overseen(Protocol):
        """A queue that has an overview."""

        @property
        def overview(self) -> Overview:
            """Begins to read its figures."""


#: The names of the states that items may be in.
ITEM_STATES = ("ready", *STATES)

_WANT_ALL: int = fdboptions.StreamingMode["want_all"][0]

Moment = datetime.datetime | None

#: What ends when the lease or the delay of an item in a state does.
_DUE_KINDS = {"leased": Kind.LEASE, "delayed": Kind.DELAY}

#: How many rows of the index of moments are read at once, and how many of the items that it names:
#: each may have a value of 100,000 bytes.
_MOMENTS_AT_ONCE = 1_000
_VALUES_AT_ONCE = 50

#: In search of the oldest item no more rows are passed by: of items that are gone, and of items
#: that do not say when they were pushed.
_MAX_GHOSTS = 2_000
_MAX_UNDATED = 100


class Browser:
    """Read the items of one queue, in the transaction it is given.

    Args:
        store: The queue's items.
        taker: Says how a pop would take its items.
        priorities: The queue's type of priorities.
    """

    def __init__(self, store: ItemStore, taker: Taker, priorities: Priorities) -> None:
        self._store = store
        self._keys = store.keys
        self._reader = store.reader
        self._taker = taker
        self._priorities = priorities

    def peek(self, tr: Transaction, count: int, end: End) -> list[Item]:
        """Return the first items at an end, in strict order, also in a queue with shards.

        They include what the next pop would requeue.

        Raises:
            CorruptItem: One of them cannot be decoded.
        """
        now = now_us()
        read = begin_state(self._store, tr, now)
        head = Head(tr, self._keys, self._reader, end, count, TransactionBudget(0))
        state = parse_state(self._store, tr, now, read, at_random=self._taker.choices > 0)
        preview = functools.partial(expiry.preview, self._store, tr)
        returned, attempts = preview(state.dues, state.expired, self._taker.max_attempts)
        head.add(returned)
        rows = head.take(count)
        if not rows and state.dues:  # these all die, or are too many: find one that becomes ready
            for entry in all_due(self._store, tr, now):
                returned, attempts = preview([entry], [], self._taker.max_attempts)
                if returned:
                    head.add(returned)
                    rows = head.take(count)
                    break
        head.depend()
        items = self._reader.items(tr, rows, retried=state.retried)
        return [
            dataclasses.replace(item, attempts=attempts.get(row.place, item.attempts))
            for item, row in zip(items, rows, strict=True)
        ]

    def get(self, tr: Transaction, place: bytes, item_id: str) -> Item:
        """Return the item at a place, whatever state it is in.

        Raises:
            ItemNotFound: No item is there.
        """
        ready = tr[self._keys.key(place)]
        reads = [(state, self._store.begin_read(tr, state, place)) for state in STATES.values()]
        failures = self._store.failures.begin_read(tr, place)
        if ready.present():
            (item,) = self._reader.shown(tr, [Row(place, bytes(ready))], retried=True)
            return dataclasses.replace(item, failures=self._store.failures.parse(failures))
        for state, read in reads:
            hidden = self._store.parse(state, place, read)
            if hidden is not None:
                (item,) = self._store.shown(tr, [hidden])
                return dataclasses.replace(item, failures=self._store.failures.parse(failures))
        raise ItemNotFound(queue=self._store.queue, id=item_id)

    def has_item(self, tr: Transaction, place: bytes) -> bool:
        """Tell whether an item has a place, taken for a popper or in a batch, too."""
        ready = tr[self._keys.key(place)]
        reads = [(one, self._store.begin_facts(tr, one, place)) for one in STATES.values()]
        return (
            ready.present()
            or any(self._store.parse(one, place, read) is not None for one, read in reads)
            or any(
                row.place == place
                for _, handoff in all_handoffs(tr, self._store.tables)
                for row in handoff.rows
            )
        )

    def page(
        self,
        end: End,
        after: str | None,
        limit: int,
        min_priority: Any,
        max_priority: Any,
        state: str,
    ) -> functools.partial[Page] | None:
        """Return a function that reads a page in a transaction, None when it can only be empty.

        Raises:
            InvalidInput: There is no such state, or ``after`` is not an id of this queue.
            InvalidPriority: A bound does not fit the queue's priority type.
        """
        check_state(state, self._store.queue)
        low, high = self._priorities.bound(min_priority), self._priorities.bound(max_priority)
        begin, stop = self._keys.between(low, high)
        if after is not None:
            place = self._keys.place_named(after)
            if end == "min":
                begin = max(begin, place + (b"\x00" if state == "ready" else HIDDEN_END))
            else:
                stop = min(stop, place)
        if begin >= stop:
            return None
        if state == "ready":
            return functools.partial(
                self._reader.page, begin=begin, stop=stop, limit=limit, end=end
            )
        return functools.partial(
            self._store.page, state=STATES[state], places=(begin, stop), limit=limit, end=end
        )


class Depth(NamedTuple):
    """How many items a queue held, in whatever state, when a minute ended.

    ``at`` is when the minute began; of the present one, ``items`` are those of now.
    """

    at: datetime.datetime
    items: int


class Ends(NamedTuple):
    """What is at the ends of a queue.

    Attributes:
        is_empty: Whether there is no ready item.
        undecodable: The ends at which the item cannot be decoded: a pop or a lease there fails.
        undecodable_ids: The ids of these items, one for each end.
        mismatch: The error that every pop and push of this process meets, because the queue was
            written under other settings; None if it was not.
    """

    is_empty: bool
    undecodable: tuple[End, ...]
    undecodable_ids: tuple[str, ...] = ()
    mismatch: FormatMismatch | None = None


class Portion(NamedTuple):
    """Some items in the order in which their leases or delays end.

    Attributes:
        rows: The moment in microseconds, the id, and the item; None for one of the other state.
        is_last: Whether nothing follows.
        is_full: Whether it ended because it has the bytes that a page may have.
    """

    rows: list[tuple[int, str, Item | None]]
    is_last: bool
    is_full: bool


class Overview:
    """Begin to read the figures of one queue; call what a method returns for the result.

    Args:
        store: Its items.
        counters: Its counts.
        limits: Its limits; None if it has none.
    """

    def __init__(self, store: ItemStore, counters: Counters, limits: Limits | None) -> None:
        self._keys = store.keys
        self._tables = store.tables
        self._store = store
        self._counters = counters
        self._limits = limits

    def begin_counts(self, tr: Transaction) -> Callable[[], Counts]:
        """Begin to read how many items are in each state."""
        return self._counters.begin_counts(tr)

    def begin_pause(self, tr: Transaction) -> Callable[[], Pause | None]:
        """Begin to read whether the queue is paused."""
        return begin_pause(tr, self._tables)

    def begin_held(self, tr: Transaction) -> Callable[[], str]:
        """Begin to read which limit gives workers nothing now: its option's name, or nothing.

        Reads two keys at most, and none of a queue without limits.
        """
        if self._limits is None:
            return str
        allowance = self._limits.begin(tr, self._tables, now_us())

        def result() -> str:
            allowance.settle()
            if allowance.is_fully_leased:
                return "max_leased"
            return "rate" if allowance.is_held(to_lease=False) else ""

        return result

    def begin_history(self, tr: Transaction, minutes: int) -> Callable[[], list[Minute]]:
        """Begin to read the pushes and pops of the last minutes, the present one last."""
        return self._counters.begin_history(tr, minutes)

    def lowest_levels(self, tr: Transaction, limit: int) -> tuple[list[tuple[Priority, int]], bool]:
        """Return the lowest priorities with their counts, and whether there may be more."""
        return self._counters.some_by_priority(tr, None, limit)

    def by_moment(
        self,
        tr: Transaction,
        state: str,
        *,
        after: tuple[int, str] | None,
        is_backward: bool,
        at_once: int,
    ) -> Iterator[Portion]:
        """Yield leased or delayed items in the order in which their leases or delays end.

        Of what ends at the same moment the order is that of the places. Each portion is one read
        of the index, which leases and delays share, and two reads for each of its items, all at
        once, 50 at most; it ends when its values have the bytes that a page may have.

        Args:
            tr: The transaction; it depends on nothing that is read here.
            state: ``"leased"`` or ``"delayed"``.
            after: The moment and the id of an item: only those that follow it.
            is_backward: Whether to begin with the last to end.
            at_once: How many rows of the index to read at first; later up to 1,000 are, if most
                are of the other state.

        Raises:
            InvalidInput: ``after`` has no id of this queue.
        """
        begin, stop = self._tables.due_bounds()
        limit = min(at_once, _VALUES_AT_ONCE)
        if after is not None:
            place = self._keys.place_named(after[1])
            key = self._tables.due(after[0], _DUE_KINDS[state], place)
            begin, stop = (begin, key) if is_backward else (key + b"\x00", stop)
        while begin < stop:
            rows = tr.snapshot.get_range(begin, stop, limit=limit, reverse=is_backward)
            keys = [bytes(row.key) for row in rows]
            portion, last = self._portion(tr, state, keys, is_last=len(keys) < limit)
            yield portion
            if portion.is_last or last is None:
                return
            limit = _VALUES_AT_ONCE if any(row[2] for row in portion.rows) else _MOMENTS_AT_ONCE
            begin, stop = (begin, last) if is_backward else (last + b"\x00", stop)

    def _portion(
        self, tr: Transaction, state: str, keys: Sequence[bytes], *, is_last: bool
    ) -> tuple[Portion, bytes | None]:
        """Return the portion of some keys of the index, and the last of these that it has."""
        hidden, wanted = STATES[state], _DUE_KINDS[state]
        dues = [(key, due) for key in keys if (due := self._tables.parse_due(key)) is not None]
        ours = [at for at, (_key, due) in enumerate(dues) if due.kind is wanted]
        if len(ours) > _VALUES_AT_ONCE:
            dues, is_last = dues[: ours[_VALUES_AT_ONCE]], False
            keys = [key for key, _due in dues]
        places = [due.rest for _key, due in dues if due.kind is wanted]
        reads = {one: self._store.begin_read(tr.snapshot, hidden, one) for one in places}
        entries: list[tuple[int, bytes]] = []
        found: list[Hidden] = []
        size, last = 0, keys[-1] if keys else None
        for key, due in dues:
            if due.kind is Kind.BATCH:  # it has a name, and no place
                continue
            one = None
            if due.kind is wanted:
                one = self._store.parse(hidden, due.rest, reads[due.rest])
            entries.append((due.moment, due.rest))
            if one is not None:
                found.append(one)
                size += self._store.reader.size_of(one.row)
            if size >= MAX_RETURNED_BYTES:
                last, is_last = key, is_last and key == last
                break
        items = {item.id: item for item in self._store.shown(tr, found)}
        named = [(moment, self._keys.id_of(place)) for moment, place in entries]
        shown = [(moment, item_id, items.get(item_id)) for moment, item_id in named]
        return Portion(shown, is_last, size >= MAX_RETURNED_BYTES), last

    def begin_mismatch(self, tr: Transaction) -> Callable[[], FormatMismatch | None]:
        """Begin to read whether the queue was written under other settings than these."""
        row = self._store.format.begin_read(tr)

        def result() -> FormatMismatch | None:
            try:
                self._store.format.is_stored(tr, row)
            except FormatMismatch as error:
                return error
            return None

        return result

    def begin_ends(self, tr: Transaction) -> Callable[[], Ends]:
        """Begin to read the first and the last ready item."""
        reader = self._store.reader
        mismatch = self.begin_mismatch(tr)
        reads = {end: reader.ready(tr.snapshot, *EVERY_PLACE, 1, end) for end in ENDS}

        def result() -> Ends:
            error = mismatch()
            if error is not None:
                is_empty = not any(True for _ in reads["min"])
                return Ends(is_empty, () if is_empty else ENDS, mismatch=error)
            found = {end: self._shown(tr, rows) for end, rows in reads.items()}
            undecodable = tuple(end for end, items in found.items() if _is_undecodable(items))
            ids = tuple(found[end][0].id for end in undecodable)
            return Ends(not found["min"], undecodable, ids)

        return result

    def begin_oldest(self, tr: Transaction) -> Callable[[], Callable[[], Moment]]:
        """Begin to read when the oldest ready item was pushed; it takes two reads, one by one.

        If the first row does not say it, the next ones are read, too.
        """
        if not self._store.codec.keeps_metadata:
            return lambda: lambda: None
        if self._keys.has_priorities:
            bounds = self._tables.ages()
            ages = tr.snapshot.get_range(*bounds, limit=1, streaming_mode=_WANT_ALL)
            return lambda: self._begin_present(tr, ages)
        head = self._store.reader.ready(tr.snapshot, *EVERY_PLACE, 1, "min")
        return lambda: self._head_pushed_at(tr, head)

    def _begin_present(self, tr: Transaction, ages: Any) -> Callable[[], Moment]:
        for row in ages:
            pushed_at, place = self._tables.parse_age(row.key)
            found = tr.snapshot[self._keys.key(place)]
            return lambda: moment(pushed_at) if found.present() else self._first_present(tr)
        return lambda: None

    def _first_present(self, tr: Transaction) -> Moment:
        for row in tr.snapshot.get_range(*self._tables.ages(), limit=_MAX_GHOSTS):
            pushed_at, place = self._tables.parse_age(row.key)
            if tr.snapshot[self._keys.key(place)].present():
                return moment(pushed_at)
        return None

    def _head_pushed_at(self, tr: Transaction, head: Any) -> Callable[[], Moment]:
        try:
            items = self._shown(tr, head)
        except FormatMismatch:
            return lambda: None
        if not items or items[0].pushed_at is not None:
            return lambda: items[0].pushed_at if items else None
        return lambda: self._first_dated(tr)

    def _first_dated(self, tr: Transaction) -> Moment:
        for row in self._store.reader.ready(tr.snapshot, *EVERY_PLACE, _MAX_UNDATED, "min"):
            (item,) = self._shown(tr, [row])
            if item.pushed_at is not None:
                return item.pushed_at
        return None

    def _shown(self, tr: Transaction, rows: Iterable[Any]) -> list[Item]:
        """Return the items in rows as they are read, those that cannot be decoded included."""
        found = [Row(self._keys.place_of(row.key), row.value) for row in rows]
        return self._store.reader.shown(tr, found, retried=False)

    def key_of(self, item: Item) -> bytes:
        """Return the key that an item's value, or the first chunk of it, is stored under."""
        place = self._keys.place_named(item.id)
        if item.state == "ready":
            return self._keys.key(place)
        return self._tables.hidden_keys(STATES[item.state], place)[1]

    def unique_while(self, tr: Transaction, item: Item) -> str | None:
        """Return how long an item has its unique key; None if it has none, or none any more."""
        place = self._keys.place_named(item.id)
        position = self._store.position(place)
        if position is None or not position.tag:
            return None
        found = tr.snapshot[self._tables.unique(position.tag)]
        has_it = found.present() and bytes(found) == place
        return kept_while(position.tag) if has_it else None


def _is_undecodable(items: Sequence[Item]) -> bool:
    return any(isinstance(item.value, Undecodable) for item in items)


def counts_of(tr: Transaction, queues: Sequence[Overseen]) -> list[Counts]:
    """Return the counts of queues, in one round trip."""
    reads = [queue.overview.begin_counts(tr) for queue in queues]
    return [result() for result in reads]


def pauses_of(tr: Transaction, queues: Sequence[Overseen]) -> list[Pause | None]:
    """Return since when and why queues are paused, None for the others, in one round trip."""
    reads = [queue.overview.begin_pause(tr) for queue in queues]
    return [result() for result in reads]


def histories_of(tr: Transaction, queues: Sequence[Overseen], minutes: int) -> list[list[Minute]]:
    """Return the last minutes of queues, in one round trip."""
    reads = [queue.overview.begin_history(tr, minutes) for queue in queues]
    return [result() for result in reads]


def oldest_of(tr: Transaction, queues: Sequence[Overseen]) -> list[Moment]:
    """Return when the oldest ready item of queues was pushed, in two round trips.

    None for a queue without any, or whose codec keeps no such record.
    """
    reads = [queue.overview.begin_oldest(tr) for queue in queues]
    found = [second() for second in reads]
    return [result() for result in found]


def ends_of(tr: Transaction, queues: Sequence[Overseen]) -> list[Ends]:
    """Return what is at the ends of queues, in one round trip if no value has chunks."""
    reads = [queue.overview.begin_ends(tr) for queue in queues]
    return [result() for result in reads]


def mismatches_of(tr: Transaction, queues: Sequence[Overseen]) -> list[FormatMismatch | None]:
    """Return what says that queues were written under other settings, in one round trip."""
    reads = [queue.overview.begin_mismatch(tr) for queue in queues]
    return [result() for result in reads]


def depths(counts: Counts, minutes: Sequence[Minute]) -> list[Depth]:
    """Return how many items there were when each minute ended, from how many there are.

    Items in all states count: pushed, and neither popped nor acknowledged. What
    ``recount`` put right, what ``clear_state`` removed, and what foreign programs did, is in
    no minute's record; if that would make a number negative, it is 0.

    Args:
        counts: The counts of now, read in the transaction that read the minutes.
        minutes: The last minutes, the present one last.
    """
    items = counts.ready + counts.leased + counts.delayed + counts.dead
    found = []
    for minute in reversed(minutes):
        found.append(Depth(minute.at, max(0, items)))
        items -= minute.pushes - minute.pops
    return found[::-1]
