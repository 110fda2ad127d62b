"""Read queues without changing them: their items, and the figures of many queues at once.

Figures are begun to be read for all queues before the first is awaited. So a list of queues costs a
few round trips to a cluster, however many queues it has.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from fdb import fdboptions

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import CorruptItem, FormatMismatch, InvalidInput, ItemNotFound
from fdbqueue.service.clock import moment, now_us
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.allowance import TakeLimits
from fdbqueue.service.consume.head import Head, TransactionBudget, begin_state, parse_state
from fdbqueue.service.consume.pauses import Pause, begin_pause
from fdbqueue.service.consume.round import Taker
from fdbqueue.service.entries import Priorities
from fdbqueue.service.items import Item, Page, Priority, Undecodable
from fdbqueue.service.moments import ORDERS, Moments, Order, parsed_position
from fdbqueue.service.storage.counts import Counters, Counts, Minute
from fdbqueue.service.storage.family_index import BY_LEASES
from fdbqueue.service.storage.item_keys import ENDS, EVERY_PLACE, End, Row
from fdbqueue.service.storage.store import STATES, ItemStore, check_state
from fdbqueue.service.storage.tables import HIDDEN_END, Due, Hidden, Kind, State
from fdbqueue.service.storage.whereabouts import begin_find, handed_over
from fdbqueue.service.uniques import kept_while

#: The names of the states that items may be in.
ITEM_STATES = ("ready", *STATES)

_WANT_ALL: int = fdboptions.StreamingMode["want_all"][0]

Moment = datetime.datetime | None

T = TypeVar("T")

#: In search of the oldest item no more rows are passed by: of items that are gone, and of items
#: that do not say when they were pushed.
_MAX_GHOSTS = 2_000
_MAX_UNDATED = 100
#: The most expired leases and delays that a transaction looks at for one that becomes ready.
_MAX_PASSED = 1_000
#: The most leases whose holders are read.
_MAX_LEASES = 100


class Browser:
    """Read the items of one queue, in the transaction it is given.

    Args:
        taker: Says how a pop would take its items.
        priorities: The queue's type of priorities.
    """

    def __init__(self, taker: Taker, priorities: Priorities) -> None:
        self._store = store = taker.store
        self._keys = store.keys
        self._taker = taker
        self._priorities = priorities
        self.moments = Moments(store)

    def peek(
        self, tr: Transaction, count: int, end: End, passed: Due | None = None
    ) -> tuple[list[Item], Due | None]:
        """Return the first items at an end, in strict order, also in a queue with shards.

        They include what the next pop would requeue. If that is nothing, and there are no others,
        one of those that a later pop would requeue.

        Args:
            tr: The transaction.
            count: The most items.
            end: Which end.
            passed: What an earlier call returned to go on from; None for the first call.

        Returns:
            The items; and what to go on from, if there are none among the leases and delays that
            it has looked at, 1,000 at most, and there may be more of these. Else None.

        Raises:
            CorruptItem: One of them cannot be decoded.
        """
        now = now_us()
        read = begin_state(self._store, tr, now)
        head = Head(tr, self._store, end, count, TransactionBudget(0))
        state = parse_state(self._store, tr, now, read, at_random=self._taker.choices > 0)
        attempts: dict[bytes, int] = {}
        if passed is None:
            most = self._taker.max_attempts
            returned, attempts = expiry.preview(self._store, tr, state.dues, state.expired, most)
            head.add(returned)
        rows = head.take(count)
        following = None
        if not rows and state.dues:  # these all die, or are too many
            returned, attempts, following = self._first_returned(tr, now, passed)
            head.add(returned)
            rows = head.take(count)
        head.depend()
        shown: list[Item] = []
        for _, _, item, *_ in self._store.load(tr, rows, retried=state.retried):
            if isinstance(item, CorruptItem):
                raise item
            shown.append(item)
        return [
            dataclasses.replace(item, attempts=attempts.get(row.place, item.attempts))
            for item, row in zip(shown, rows, strict=True)
        ], following

    def _first_returned(
        self, tr: Transaction, now: int, passed: Due | None
    ) -> tuple[list[Row], dict[bytes, int], Due | None]:
        """Return the rows of the first expired lease or delay after one that becomes ready.

        Returns:
            The rows, and their attempts; and the last that it has looked at, if there are no rows,
            and there may be more.
        """
        dues = expiry.all_due(self._store, tr, now, _MAX_PASSED, passed)
        most = self._taker.max_attempts
        dying = expiry.dying(self._store, tr, dues, most)
        for due in dues:
            if due not in dying:
                returned, attempts = expiry.preview(self._store, tr, [due], [], most)
                if returned:
                    return returned, attempts, None
        return [], {}, dues[-1] if len(dues) == _MAX_PASSED else None

    def get(self, tr: Transaction, place: bytes, item_id: str) -> Item:
        """Return the item at a place, whatever state it is in.

        Raises:
            FormatMismatch: The queue was written under other settings.
            ItemNotFound: No item is there.
        """
        stored = self._store.format.begin_read(tr)
        read = begin_find(tr, self._store, place)
        failures = self._store.failures.begin_read(tr, place)
        stored()
        found = read()
        if found is None:
            raise ItemNotFound(queue=self._store.queue, id=item_id)
        if isinstance(found, Hidden):
            (item,) = self._store.shown(tr, [found])
        else:
            (item,) = self._store.shown_rows(tr, [found], retried=True)
        return dataclasses.replace(item, failures=self._store.failures.parse(failures))

    def has_item(self, tr: Transaction, place: bytes) -> bool:
        """Tell whether an item has a place, also if it is handed over.

        Raises:
            FormatMismatch: The queue was written under other settings.
        """
        stored = self._store.format.begin_read(tr)
        read = begin_find(tr, self._store, place, values=False)
        stored()
        handed = handed_over(tr, self._store)
        return read() is not None or any(row.place == place for row in handed)

    def page(
        self,
        end: End,
        after: str | None,
        limit: int,
        min_priority: Any,
        max_priority: Any,
        state: str,
        order: Order,
    ) -> Callable[[Transaction], Page] | None:
        """Return a function that reads a page in a transaction, None when it can only be empty.

        It raises FormatMismatch if the queue was written under other settings.

        Raises:
            InvalidInput: There is no such state or order, or ``after`` is no place in this queue.
            InvalidPriority: A bound does not fit the queue's priority type.
        """
        check_state(state, self._store.queue)
        low, high = self._priorities.bound(min_priority), self._priorities.bound(max_priority)
        if order != "place":
            self._check_order(order, state, has_bounds=low is not None or high is not None)
            at = None if after is None else parsed_position(after)
            if at is not None:
                self._keys.place_named(at[1])
            return self._checked(
                functools.partial(self.moments.page, state=state, after=at, limit=limit, end=end)
            )
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
            return self._checked(
                functools.partial(
                    self._store.ready_page, begin=begin, stop=stop, limit=limit, end=end
                )
            )
        places = (begin, stop)
        return self._checked(
            functools.partial(
                self._store.hidden_page, state=STATES[state], places=places, limit=limit, end=end
            )
        )

    def _checked(self, read: Callable[[Transaction], Page]) -> Callable[[Transaction], Page]:
        """Let what reads a page read the queue's format, too."""

        def checked(tr: Transaction) -> Page:
            stored = self._store.format.begin_read(tr)
            page = read(tr)
            stored()
            return page

        return checked

    def _check_order(self, order: Any, state: str, *, has_bounds: bool) -> None:
        """Refuse an order that there is not, or that items in a state do not have."""
        facts = {"queue": self._store.queue, "order": order}
        if order not in ORDERS:
            raise InvalidInput(**facts, allowed=", ".join(ORDERS))
        if state == "ready":
            raise InvalidInput(**facts, reason="ready items are in the order of their places alone")
        if has_bounds:
            raise InvalidInput(**facts, reason="a range of priorities is in the order of places")


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


class HeldLease(NamedTuple):
    """A lease that has not expired: who holds the item, None if unnamed, and since when."""

    worker: str | None
    leased_at: int


class Overview:
    """Begin to read the figures of one queue; call what a method returns for the result.

    Args:
        store: Its items.
        counters: Its counts.
        limits: Its limits; None if it has none.
    """

    def __init__(self, store: ItemStore, counters: Counters, limits: TakeLimits | None) -> None:
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
            found = allowance.settle().holds((), to_lease=True)
            limits = [one.hold.limit for one in found if one.hold is not None]
            return "max_leased" if BY_LEASES in limits else "rate" if limits else ""

        return result

    def begin_due(self, tr: Transaction) -> Callable[[], int | None]:
        """Begin to read when the first lease, delay or batch ends or has ended; None for none."""
        rows = tr.snapshot.get_range(*self._tables.dues, limit=1)
        return lambda: next((due.moment for due in map(self._due, rows) if due is not None), None)

    def leases(self, tr: Transaction) -> list[HeldLease]:
        """Read who holds items: up to 100 leases, those that end first."""
        _begin, stop = self._tables.dues
        begin = self._tables.due_prefix(now_us(), Kind.LEASE)
        rows = tr.snapshot.get_range(begin, stop, limit=_MAX_PASSED)
        dues = [due for row in rows if (due := self._due(row)) and due.kind is Kind.LEASE]
        places = [due.rest for due in dues[:_MAX_LEASES]]
        return [
            HeldLease(one.worker.decode(errors="replace") or None, one.began)
            for one in self._store.facts(tr.snapshot, State.LEASED, places)
            if one is not None
        ]

    def _due(self, row: Any) -> Due | None:
        return self._tables.parse_due(bytes(row.key))

    def begin_history(self, tr: Transaction, minutes: int) -> Callable[[], list[Minute]]:
        """Begin to read the pushes and pops of the last minutes, the present one last."""
        return self._counters.begin_history(tr, minutes)

    def lowest_levels(self, tr: Transaction, limit: int) -> tuple[list[tuple[Priority, int]], bool]:
        """Return the lowest priorities with their counts, and whether there may be more."""
        return self._counters.some_by_priority(tr, None, limit)

    def begin_stored(self, tr: Transaction) -> Callable[[], bool]:
        """Begin to read whether anything is stored of the queue: then it is among the names.

        So it is from the first push on, also once it was drained, but not once it was cleared.
        """
        begin = self._keys.subspace.key()
        stop = begin + b"\xff\xff"
        (formats, after_formats), (responses, after_responses) = self._tables.without_queue
        ranges = (begin, formats), (after_formats, responses), (after_responses, stop)
        reads = [tr.snapshot.get_range(first, end, limit=1) for first, end in ranges]
        return lambda: any(True for rows in reads for _row in rows)

    def begin_mismatch(self, tr: Transaction) -> Callable[[], FormatMismatch | None]:
        """Begin to read whether the queue was written under other settings than these."""
        stored = self._store.format.begin_read(tr)

        def result() -> FormatMismatch | None:
            try:
                stored()
            except FormatMismatch as error:
                return error
            return None

        return result

    def begin_ends(self, tr: Transaction) -> Callable[[], Ends]:
        """Begin to read the first and the last ready item."""
        mismatch = self.begin_mismatch(tr)
        reads = {end: self._keys.begin_ready(tr.snapshot, *EVERY_PLACE, 1, end) for end in ENDS}

        def result() -> Ends:
            error = mismatch()
            if error is not None:
                is_empty = not any(True for _ in reads["min"])
                return Ends(is_empty, () if is_empty else ENDS, mismatch=error)
            found = {end: self._shown(tr, rows) for end, rows in reads.items()}
            undecodable = tuple(
                end
                for end, items in found.items()
                if any(isinstance(item.value, Undecodable) for item in items)
            )
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
            bounds = self._tables.ages
            ages = tr.snapshot.get_range(*bounds, limit=1, streaming_mode=_WANT_ALL)
            return lambda: self._begin_present(tr, ages)
        head = self._store.keys.begin_ready(tr.snapshot, *EVERY_PLACE, 1, "min")
        return lambda: self._head_pushed_at(tr, head)

    def _begin_present(self, tr: Transaction, ages: Any) -> Callable[[], Moment]:
        for row in ages:
            pushed_at, place = self._tables.parse_dated(row.key)
            found = tr.snapshot[self._keys.key(place)]
            return lambda: moment(pushed_at) if found.present() else self._first_present(tr)
        return lambda: None

    def _first_present(self, tr: Transaction) -> Moment:
        for row in tr.snapshot.get_range(*self._tables.ages, limit=_MAX_GHOSTS):
            pushed_at, place = self._tables.parse_dated(row.key)
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
        for row in self._store.keys.begin_ready(tr.snapshot, *EVERY_PLACE, _MAX_UNDATED, "min"):
            (item,) = self._shown(tr, [row])
            if item.pushed_at is not None:
                return item.pushed_at
        return None

    def _shown(self, tr: Transaction, rows: Iterable[Any]) -> list[Item]:
        """Return the items in rows as they are read, also items that cannot be decoded."""
        found = [Row(self._keys.place_of(row.key), row.value) for row in rows]
        return self._store.shown_rows(tr, found, retried=False)

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


def figures(
    tr: Transaction, queues: Iterable[Any], begin: Callable[..., Callable[[], T]]
) -> list[T]:
    """Return a figure of each queue, all begun to be read before the first is awaited.

    Args:
        tr: The transaction.
        queues: The queues.
        begin: A method of :class:`Overview` that begins to read it.
    """
    reads = [begin(queue.overview, tr) for queue in queues]
    return [result() for result in reads]


def counts_of(tr: Transaction, queues: Iterable[Any]) -> list[Counts]:
    """Return the counts of queues, in one round trip."""
    return figures(tr, queues, Overview.begin_counts)


def pauses_of(tr: Transaction, queues: Iterable[Any]) -> list[Pause | None]:
    """Return since when and why queues are paused, None for the others, in one round trip."""
    return figures(tr, queues, Overview.begin_pause)


def ends_of(tr: Transaction, queues: Iterable[Any]) -> list[Ends]:
    """Return what is at the ends of queues, in one round trip if no value has chunks."""
    return figures(tr, queues, Overview.begin_ends)


def mismatches_of(tr: Transaction, queues: Iterable[Any]) -> list[FormatMismatch | None]:
    """Return what says that queues were written under other settings, in one round trip."""
    return figures(tr, queues, Overview.begin_mismatch)


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
