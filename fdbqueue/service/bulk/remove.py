"""Remove items for good: by their ids, in whatever state, all in one state, or all."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import InvalidInput, ItemNotFound
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume.dead_letters import ChosenDead
from fdbqueue.service.consume.round import Taker
from fdbqueue.service.sizes import CHUNK_BYTES
from fdbqueue.service.storage.counts import HISTORY_MINUTES, CountChange
from fdbqueue.service.storage.item_keys import EVERY_PLACE, Row
from fdbqueue.service.storage.store import STATES, ItemStore, check_state
from fdbqueue.service.storage.tables import Hidden, State
from fdbqueue.service.storage.whereabouts import begin_find, take_handed_over
from fdbqueue.service.transactions import run

T = TypeVar("T")

#: The most items that one transaction removes.
_REMOVED_AT_ONCE = 500
#: More rows than an empty queue has: one for each minute of its history, and some others.
_LEFT_ROWS = HISTORY_MINUTES + 100
#: The most long values that one transaction reads on the way.
_LONG_AT_ONCE = 20


def remove(tr: Transaction, store: ItemStore, places: Sequence[bytes]) -> int:
    """Remove the items at some places, in whatever state, and return how many.

    One that was handed over to a popper, and is not collected yet, too.

    Args:
        tr: The transaction.
        store: The queue's items.
        places: Their places.
    """
    store.format.check(tr)
    count_change = store.count_change(tr)
    places = list(dict.fromkeys(places))
    reads = [begin_find(tr, store, place, values=False) for place in places]
    missing = []
    count = 0
    rows = []
    for place, read in zip(places, reads, strict=True):
        found = read()
        if isinstance(found, Hidden):
            store.remove_hidden(count_change, found)
            count += 1
        elif found is not None:
            rows.append(found)
            tr.clear(store.keys.key(place))
        else:
            missing.append(place)
    if missing:
        rows += take_handed_over(tr, store, frozenset(missing))
    count += _removed(store, count_change, rows)
    count_change.pops = count
    count_change.write()
    return count


def remove_one(tr: Transaction, store: ItemStore, place: bytes, item_id: str) -> None:
    """Remove the item at a place, in whatever state.

    Raises:
        ItemNotFound: No item is there.
    """
    if not remove(tr, store, [place]):
        raise ItemNotFound(queue=store.queue, id=item_id)


def remove_places(database: Database, store: ItemStore, places: Iterable[bytes]) -> int:
    """Remove the items at any number of places, and return how many there were."""
    rest = iter(places)
    count = 0
    while some := list(itertools.islice(rest, _REMOVED_AT_ONCE)):
        count += run(database, functools.partial(remove, store=store, places=some))
    return count


def remove_all(
    database: Database,
    store: ItemStore,
    state: str,
    on_removed: Callable[[int], None],
    limit: int | None,
    chosen: ChosenDead,
) -> int:
    """Remove the items that are in a state when it starts, in bounded transactions.

    Args:
        database: Anything with ``create_transaction()``.
        store: The queue's items.
        state: The state.
        on_removed: Called after each transaction, with the number of items it removed.
        limit: The most items to remove; None for no limit.
        chosen: Which items to remove, if these are dead letters.

    Returns:
        How many were removed.

    Raises:
        FormatMismatch: The queue was written under other settings.
        InvalidInput: There is no such state, or items in it have not died.
    """
    check_state(state, store.queue)
    if not chosen.is_all() and state != "dead":
        text = "only dead letters have a reason, and a moment of death"
        raise InvalidInput(queue=store.queue, state=state, reason=text)
    listed = _Ready(store) if state == "ready" else _Hidden(store, STATES[state], chosen)

    def look(read: Callable[[Transaction], T]) -> T:
        def checked(tr: Transaction) -> T:
            store.format.check(tr)
            return read(tr)

        return run(database, checked, read_only=True)

    last = look(listed.last)
    count = 0
    after: bytes | None = None
    while last is not None and (limit is None or count < limit):
        places = look(functools.partial(listed.places, after=after, last=last))
        if not places:
            break
        most = None if limit is None else limit - count
        removed = run(database, functools.partial(listed.remove, places=places, most=most))
        on_removed(removed)
        count += removed
        after = places[-1]
    return count


def clear(tr: Transaction, store: ItemStore) -> None:
    """Remove all items and all else that the queue stores, but for its pause and its format."""
    paused, formats = tr[store.tables.paused], store.tables.formats
    begin, stop = store.tables.bounds
    tr.clear_range(*store.keys.bounds)
    for part in (begin, formats[0]), (formats[1], stop):  # pushes depend on the format
        tr.clear_range(*part)
    if paused.present():
        tr[store.tables.paused] = bytes(paused)


def remove_idle(tr: Transaction, taker: Taker, seconds: float) -> bool:
    """Remove all that an empty queue has stored, if it was idle for so long; tell whether it was.

    It conflicts with whoever pushes meanwhile, because a push depends on the format. A queue that
    is paused, or has saved responses, or tokens that still limit it, is left as it is.

    Args:
        tr: The transaction.
        taker: The queue's.
        seconds: For how long nothing was pushed or taken.
    """
    tables, now = taker.store.tables, now_us()
    for row in tr.snapshot.get_range(*tables.minutes, limit=1, reverse=True):
        if tables.minute_of(bytes(row.key)) * 60_000_000 > now - int(seconds * 1_000_000):
            return False
    begun = None if taker.limits is None else taker.limits.begin(tr, tables, now)
    items = tr.get_range(*taker.store.keys.bounds, limit=1)
    stored = [bytes(row.key) for row in tr.get_range(*tables.bounds, limit=_LEFT_ROWS)]
    is_empty = not any(True for _ in items) and all(
        any(begin <= key < end for begin, end in tables.of_empty) for key in stored
    )
    if not (is_empty and 0 < len(stored) < _LEFT_ROWS):
        return False
    if begun is not None and not begun.settle().is_full:
        return False
    tr.clear_range(*tables.bounds)
    return True


def _removed(store: ItemStore, count_change: CountChange, rows: Sequence[Row]) -> int:
    for loaded in store.load(count_change.tr, rows, retried=True):
        store.remove_taken(count_change, loaded)
    return len(rows)


class _Ready:
    """The ready items, to be removed some at a time."""

    def __init__(self, store: ItemStore) -> None:
        self._store = store

    def last(self, tr: Transaction) -> bytes | None:
        """Return the place of the last item, None if there is none."""
        for row in self._store.keys.begin_ready(tr.snapshot, *EVERY_PLACE, 1, "max"):
            place: bytes = self._store.keys.place_of(row.key)
            return place
        return None

    def places(self, tr: Transaction, after: bytes | None, last: bytes) -> list[bytes]:
        """Return the next places, up to the last."""
        begin = EVERY_PLACE[0] if after is None else after + b"\x00"
        bounds = begin, last + b"\x00"
        rows = self._store.keys.begin_ready(tr.snapshot, *bounds, _REMOVED_AT_ONCE, "min")
        found = []
        long = 0
        for row in rows:
            found.append(self._store.keys.place_of(row.key))
            long += len(row.value) == CHUNK_BYTES
            if long == _LONG_AT_ONCE:
                break
        return found

    def remove(self, tr: Transaction, places: Sequence[bytes], most: int | None) -> int:
        """Remove the items at these places that are still ready, the first ``most`` of them."""
        self._store.format.check(tr)
        count_change = self._store.count_change(tr)
        reads = [tr[self._store.keys.key(place)] for place in places]
        rows = [
            Row(place, bytes(value))
            for place, value in zip(places, reads, strict=True)
            if value.present()
        ][:most]
        for row in rows:
            tr.clear(self._store.keys.key(row.place))
        count = _removed(self._store, count_change, rows)
        count_change.pops = 0
        count_change.write()
        return count


class _Hidden:
    """The items in a hidden state, or some of the dead letters, to be removed some at a time."""

    def __init__(self, store: ItemStore, state: State, chosen: ChosenDead) -> None:
        self._store = store
        self._state = state
        self._chosen = chosen

    def last(self, tr: Transaction) -> bytes | None:
        """Return the place of the last item, None if there is none."""
        return self._store.last_place(tr, self._state)

    def places(self, tr: Transaction, after: bytes | None, last: bytes) -> list[bytes]:
        """Return the next places, up to the last."""
        return self._store.places(tr, self._state, after, _REMOVED_AT_ONCE, last)

    def remove(self, tr: Transaction, places: Sequence[bytes], most: int | None) -> int:
        """Remove the items at these places that are still in the state, the first ``most``."""
        self._store.format.check(tr)
        count_change = self._store.count_change(tr)
        facts = self._store.facts(tr, self._state, places)
        found = [hidden for hidden in facts if hidden and self._chosen.has(hidden)][:most]
        for hidden in found:
            self._store.remove_hidden(count_change, hidden)
        count_change.write()
        return len(found)
