"""Read the figures of many queues at once: all reads are sent before the first is awaited.

So a list of queues costs a few round trips to a cluster, however many queues it has.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fdb import fdboptions

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.consume.pausing import Pause, begin_pause
from fdbqueue.service.items import Item, Priority, Undecodable, moment
from fdbqueue.service.storage.counts import Counters, Counts, Minute
from fdbqueue.service.storage.reader import ENDS, End, Row
from fdbqueue.service.storage.store import STATES, ItemStore
from fdbqueue.service.uniques import kept_while

if TYPE_CHECKING:
    from typing import Protocol

    class Overseen(Protocol):
        """A queue that has an overview."""

        @property
        def overview(self) -> Overview:
            """Begins to read its figures."""


_WANT_ALL: int = fdboptions.StreamingMode["want_all"][0]

Moment = datetime.datetime | None

#: In search of the oldest item no more rows are passed by: of items that are gone, and of items
#: that do not say when they were pushed.
_MAX_GHOSTS = 2_000
_MAX_UNDATED = 100


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
    """

    is_empty: bool
    undecodable: tuple[End, ...]
    undecodable_ids: tuple[str, ...] = ()


class Overview:
    """Begin to read the figures of one queue; call what a method returns for the result.

    Args:
        store: Its items.
        counters: Its counts.
    """

    def __init__(self, store: ItemStore, counters: Counters) -> None:
        self._keys = store.keys
        self._tables = store.tables
        self._store = store
        self._counters = counters

    def begin_counts(self, tr: Transaction) -> Callable[[], Counts]:
        """Begin to read how many items are in each state."""
        return self._counters.begin_counts(tr)

    def begin_pause(self, tr: Transaction) -> Callable[[], Pause | None]:
        """Begin to read whether the queue is paused."""
        return begin_pause(tr, self._tables)

    def begin_history(self, tr: Transaction, minutes: int) -> Callable[[], list[Minute]]:
        """Begin to read the pushes and pops of the last minutes, the present one last."""
        return self._counters.begin_history(tr, minutes)

    def lowest_levels(self, tr: Transaction, limit: int) -> tuple[list[tuple[Priority, int]], bool]:
        """Return the lowest priorities with their counts, and whether there may be more."""
        return self._counters.some_by_priority(tr, None, limit)

    def begin_ends(self, tr: Transaction) -> Callable[[], Ends]:
        """Begin to read the first and the last ready item."""
        reader = self._store.reader
        reads = {end: reader.rows(tr.snapshot, *self._keys.bounds(), 1, end) for end in ENDS}

        def result() -> Ends:
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
        bounds = self._tables.ages() if self._keys.has_priorities else self._keys.bounds()
        rows = tr.snapshot.get_range(*bounds, limit=1, streaming_mode=_WANT_ALL)
        if self._keys.has_priorities:
            return lambda: self._begin_present(tr, rows)
        return lambda: self._head_pushed_at(tr, rows)

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
        items = self._shown(tr, head)
        if not items or items[0].pushed_at is not None:
            return lambda: items[0].pushed_at if items else None
        return lambda: self._first_dated(tr)

    def _first_dated(self, tr: Transaction) -> Moment:
        for row in tr.snapshot.get_range(*self._keys.bounds(), limit=_MAX_UNDATED):
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
        """Return how long an item has its unique key; None where it has none, or none any more."""
        place = self._keys.place_named(item.id)
        position = self._store.position(place)
        if position is None or not position.mark:
            return None
        found = tr.snapshot[self._tables.unique(position.mark)]
        has_it = found.present() and bytes(found) == place
        return kept_while(position.mark) if has_it else None


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
    """Return what is at the ends of queues, in one round trip where no value has chunks."""
    reads = [queue.overview.begin_ends(tr) for queue in queues]
    return [result() for result in reads]


def depths(counts: Counts, minutes: Sequence[Minute]) -> list[Depth]:
    """Return how many items there were when each minute ended, from how many there are.

    Items in all states count: pushed, and neither popped nor acknowledged. What
    ``recount`` put right, what ``clear_state`` removed, and what foreign programs did, is in
    no minute's record; where that would make a number negative, it is 0.

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
