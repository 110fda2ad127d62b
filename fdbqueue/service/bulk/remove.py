"""Remove items for good, whatever state they are in: by their ids, or all in one state."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service.limits import MAX_VALUE_BYTES
from fdbqueue.service.storage.counts import Tally
from fdbqueue.service.storage.handoffs import Handoff, all_handoffs, read_hold, write_pieces
from fdbqueue.service.storage.reader import Row
from fdbqueue.service.storage.store import STATES, Stock
from fdbqueue.service.storage.tables import JobKeys, State
from fdbqueue.service.transactions import run

#: One transaction looks for no more items than this.
_REMOVED_AT_ONCE = 500
#: Long values are read on the way; so many of them at most.
_LONG_AT_ONCE = 20


def remove(tr: Transaction, stock: Stock, places: Sequence[bytes]) -> int:
    """Remove the items at some places, wherever they are now, and return how many.

    An item that a popper was handed but has not collected is taken from it again; a batch
    that holds one is broken up, so that its owner learns of it.

    Args:
        tr: The transaction.
        stock: The queue's items.
        places: Where they are.
    """
    tally = stock.tally()
    places = list(dict.fromkeys(places))
    ready = [tr[stock.keys.key(place)] for place in places]
    hidden = [stock.facts(tr, state, places) for state in State]
    missing = []
    count = 0
    rows = []
    for place, value, *found in zip(places, ready, *hidden, strict=True):
        items = [one for one in found if one is not None]
        if value.present():
            rows.append(Row(place, bytes(value)))
            tr.clear(stock.keys.key(place))
        elif items:
            stock.delete(tr, tally, items[0])
            count += 1
        else:
            missing.append(place)
    count += _removed(tr, stock, tally, rows)
    if missing:
        count += _remove_handed(tr, stock, tally, frozenset(missing))
    tally.pops = count
    tally.write(tr)
    return count


def remove_places(database: Database, stock: Stock, places: Iterable[bytes]) -> int:
    """Remove the items at any number of places, and return how many there were."""
    rest = iter(places)
    count = 0
    while some := list(itertools.islice(rest, _REMOVED_AT_ONCE)):
        count += run(database, functools.partial(remove, stock=stock, places=some))
    return count


def remove_all(
    database: Database, stock: Stock, state: str, on_removed: Callable[[int], None] = lambda _: None
) -> int:
    """Remove the items that are in a state when it starts, in bounded transactions.

    Args:
        database: Anything with ``create_transaction()``.
        stock: The queue's items.
        state: Which.
        on_removed: Called after each transaction, with how many it removed.

    Returns:
        How many were removed.

    Raises:
        InvalidInput: There is no such state.
    """
    if state != "ready" and state not in STATES:
        states = ", ".join(["ready", *STATES])
        raise InvalidInput(queue=stock.queue, state=state, allowed=states)
    listed = _Ready(stock) if state == "ready" else _Hidden(stock, STATES[state])
    last = run(database, listed.last, read_only=True)
    count = 0
    after: bytes | None = None
    while last is not None:
        following = functools.partial(listed.places, after=after, last=last)
        places = run(database, following, read_only=True)
        if not places:
            break
        removed = run(database, functools.partial(listed.remove, places=places))
        on_removed(removed)
        count += removed
        after = places[-1]
    return count


def _removed(tr: Transaction, stock: Stock, tally: Tally, rows: Sequence[Row]) -> int:
    for loaded in stock.reader.load(tr, rows, retried=True):
        stock.remove(tr, tally, loaded)
    return len(rows)


def _remove_handed(tr: Transaction, stock: Stock, tally: Tally, places: Collection[bytes]) -> int:
    """Remove the items that handoffs and batches hold.

    An item that is nowhere comes back nowhere, so only those that hold one matter.
    """
    held = None
    count = 0
    for name, handoff in all_handoffs(tr, stock.meta):
        if not any(row.place in places for row in handoff.rows):
            continue
        held = _holds(tr, stock) if held is None else held
        count += _take_out(tr, stock, tally, _Handed(name, handoff, held.get(name)), places)
    return count


class _Handed(NamedTuple):
    """A handoff, and the key of the owner who holds it as a batch."""

    name: bytes
    handoff: Handoff
    holder: bytes | None


def _take_out(
    tr: Transaction, stock: Stock, tally: Tally, found: _Handed, places: Collection[bytes]
) -> int:
    bounds = stock.meta.handoff_bounds(found.name)
    tr.add_read_conflict_range(*bounds)
    tr.clear_range(*bounds)
    taken = [row for row in found.handoff.rows if row.place in places]
    rest = [row for row in found.handoff.rows if row.place not in places]
    if found.holder is None:
        write_pieces(tr, stock.meta, found.name, found.handoff._replace(rows=rest))
    else:
        tr.clear(found.holder)
        stock.requeue(tr, rest)
    return _removed(tr, stock, tally, taken)


def _holds(tr: Transaction, stock: Stock) -> dict[bytes, bytes]:
    """Return the keys of those who hold batches, by the batches' names."""
    found = {}
    for row in tr.get_range(*JobKeys(stock.meta).batches()):
        hold = read_hold(b"", bytes(row.value))
        if hold is not None:
            found[hold.name] = bytes(row.key)
    return found


class _Ready:
    """The ready items, to be removed some at a time."""

    def __init__(self, stock: Stock) -> None:
        self._stock = stock

    def last(self, tr: Transaction) -> bytes | None:
        """Return the place of the last item, None where there is none."""
        begin, stop = self._stock.keys.bounds()
        for row in tr.snapshot.get_range(begin, stop, limit=1, reverse=True):
            place: bytes = self._stock.keys.place_of(row.key)
            return place
        return None

    def places(self, tr: Transaction, after: bytes | None, last: bytes) -> list[bytes]:
        """Return the next places, up to the last."""
        begin, _ = self._stock.keys.bounds()
        if after is not None:
            begin = self._stock.keys.key(after) + b"\x00"
        stop = self._stock.keys.key(last) + b"\x00"
        found = []
        long = 0
        for row in tr.snapshot.get_range(begin, stop, limit=_REMOVED_AT_ONCE):
            found.append(self._stock.keys.place_of(row.key))
            long += len(row.value) == MAX_VALUE_BYTES
            if long == _LONG_AT_ONCE:
                break
        return found

    def remove(self, tr: Transaction, places: Sequence[bytes]) -> int:
        """Remove those that are still ready."""
        tally = self._stock.tally()
        asked = [tr[self._stock.keys.key(place)] for place in places]
        rows = [
            Row(place, bytes(value))
            for place, value in zip(places, asked, strict=True)
            if value.present()
        ]
        for row in rows:
            tr.clear(self._stock.keys.key(row.place))
        count = _removed(tr, self._stock, tally, rows)
        tally.pops = 0
        tally.write(tr)
        return count


class _Hidden:
    """The items in a hidden state, to be removed some at a time."""

    def __init__(self, stock: Stock, state: State) -> None:
        self._stock = stock
        self._state = state

    def last(self, tr: Transaction) -> bytes | None:
        """Return the place of the last item, None where there is none."""
        begin, stop = self._stock.meta.state_bounds(self._state)
        for row in tr.snapshot.get_range(begin, stop, limit=1, reverse=True):
            return self._stock.meta.hidden_place(self._state, row.key)[0]
        return None

    def places(self, tr: Transaction, after: bytes | None, last: bytes) -> list[bytes]:
        """Return the next places, up to the last."""
        found = self._stock.places(tr, self._state, after, _REMOVED_AT_ONCE)
        return [place for place in found if place <= last]

    def remove(self, tr: Transaction, places: Sequence[bytes]) -> int:
        """Remove those that are still in that state."""
        tally = self._stock.tally()
        found = [hidden for hidden in self._stock.facts(tr, self._state, places) if hidden]
        for hidden in found:
            self._stock.delete(tr, tally, hidden)
        tally.write(tr)
        return len(found)
