"""Ask many queues at once how they are: each question goes out before any is waited for.

So a list of queues costs a few round trips to a cluster, however many queues it has.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fdb import fdboptions

from fdbqueue.service.counters import Counters, Counts, Minute
from fdbqueue.service.items import Item, Priority, moment
from fdbqueue.service.keyspace import ItemKeys, MetaKeys
from fdbqueue.service.reading import Row
from fdbqueue.service.stock import STATES, Stock

if TYPE_CHECKING:
    from fdbqueue.service.browsing import Browsing

_WANT_ALL: int = fdboptions.StreamingMode["want_all"][0]

Moment = datetime.datetime | None


class Depth(NamedTuple):
    """How many items a queue held, in whatever state, when a minute ended.

    ``at`` is when the minute began; of the present one, ``items`` are those of now.
    """

    at: datetime.datetime
    items: int


class Overview:
    """Ask for the figures of one queue; what each question returns waits for its answer.

    Args:
        keys: The keys of its items.
        meta: The keys of its tables.
        stock: Its items.
        counters: Its counts.
        search_oldest: Finds the oldest where the first of the table is not there any more.
    """

    def __init__(
        self,
        keys: ItemKeys,
        meta: MetaKeys,
        stock: Stock,
        counters: Counters,
        search_oldest: Callable[[Any], Moment],
    ) -> None:
        self._keys = keys
        self._meta = meta
        self._stock = stock
        self._counters = counters
        self._search_oldest = search_oldest

    def ask_history(self, tr: Any, minutes: int) -> Callable[[], list[Minute]]:
        """Ask for the pushes and pops of the last minutes, the present one last."""
        return self._counters.ask_history(tr, minutes)

    def lowest_levels(self, tr: Any, limit: int) -> tuple[list[tuple[Priority, int]], bool]:
        """Return the lowest priorities with their counts, and whether there may be more."""
        return self._counters.some_by_priority(tr, None, limit)

    def ask_oldest(self, tr: Any) -> Callable[[], Callable[[], Moment]]:
        """Ask when the oldest ready item was pushed; two answers have to be waited for."""
        if not self._stock.codec.keeps_metadata:
            return lambda: lambda: None
        bounds = self._meta.ages() if self._keys.has_priorities else self._keys.bounds()
        rows = tr.snapshot.get_range(*bounds, limit=1, streaming_mode=_WANT_ALL)
        if self._keys.has_priorities:
            return lambda: self._ask_present(tr, rows)
        return lambda: self._head_pushed_at(tr, rows)

    def _ask_present(self, tr: Any, ages: Any) -> Callable[[], Moment]:
        for row in ages:
            pushed_at, place = self._meta.parse_age(row.key)
            found = tr.snapshot[self._keys.key(place)]
            return lambda: moment(pushed_at) if found.present() else self._search_oldest(tr)
        return lambda: None

    def _head_pushed_at(self, tr: Any, head: Any) -> Callable[[], Moment]:
        rows = [Row(self._keys.place_of(row.key), row.value) for row in head]
        return lambda: next(
            (item.pushed_at for item in self._stock.reader.shown(tr, rows, retried=False)), None
        )

    def key_of(self, item: Item) -> bytes:
        """Return the key that an item's value, or the first chunk of it, is stored under."""
        place = self._keys.place_named(item.id)
        if item.state == "ready":
            return self._keys.key(place)
        return self._meta.hidden_keys(STATES[item.state], place)[1]


def counts_of(tr: Any, queues: Sequence[Browsing]) -> list[Counts]:
    """Return the counts of queues, in one round trip."""
    asked = [queue.ask_counts(tr) for queue in queues]
    return [answer() for answer in asked]


def histories_of(tr: Any, queues: Sequence[Browsing], minutes: int) -> list[list[Minute]]:
    """Return the last minutes of queues, in one round trip."""
    asked = [queue.overview.ask_history(tr, minutes) for queue in queues]
    return [answer() for answer in asked]


def oldest_of(tr: Any, queues: Sequence[Browsing]) -> list[Moment]:
    """Return when the oldest ready item of queues was pushed, in two round trips.

    None for a queue without any, or whose codec keeps no such record.
    """
    asked = [queue.overview.ask_oldest(tr) for queue in queues]
    found = [ask() for ask in asked]
    return [answer() for answer in found]


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
