"""Find an item wherever it is; who must not miss an item asks here.

An item is in one of five places at a time. Each transaction moves it from one to another:

    ready        its row (:mod:`item_keys`)         pops and leases take it
    leased       facts and value (:mod:`tables`)    until its lease ends or expires
    delayed      as leased                          until its delay has passed
    dead         as leased                          until somebody redrives or removes it
    handed_over  a handoff's (:mod:`handoffs`)      counts as ready, until the popper that asked
                                                    collects it, or it expires
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from fdbqueue.engines.protocols import SnapshotTransaction, Transaction
from fdbqueue.service.storage.handoffs import all_handoffs, write_pieces
from fdbqueue.service.storage.item_keys import Row
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import Hidden, State

_STATES = tuple(State)


def begin_find(
    tr: Transaction | SnapshotTransaction,
    store: ItemStore,
    place: bytes,
    states: Sequence[State] = _STATES,
    *,
    values: bool = True,
) -> Callable[[], Row | Hidden | None]:
    """Begin to read the item at a place that is ready, or in one of some states.

    Args:
        tr: The transaction, which depends on it; or its snapshot, which does not.
        store: The queue's items.
        place: The place.
        states: In which states it may be besides ready.
        values: Whether to read the values of hidden items, too.

    Returns:
        What waits for the reads: it returns the row of a ready item, a hidden item, or None.
    """
    ready = tr[store.keys.key(place)]
    begin = store.begin_read if values else store.begin_facts
    reads = [(state, begin(tr, state, place)) for state in states]

    def found() -> Row | Hidden | None:
        if ready.present():
            return Row(place, bytes(ready))
        for state, read in reads:
            hidden = store.parse(state, place, read)
            if hidden is not None:
                return hidden
        return None

    return found


def handed_over(tr: Transaction, store: ItemStore) -> Iterator[Row]:
    """Yield the rows of the items that are handed over, by snapshot reads of all handoffs."""
    for _, handoff in all_handoffs(tr, store.tables):
        yield from handoff.rows


def take_handed_over(tr: Transaction, store: ItemStore, places: Collection[bytes]) -> list[Row]:
    """Take items at some places out of the handoffs that hold them, and return their rows."""
    taken: list[Row] = []
    for name, handoff in all_handoffs(tr, store.tables):
        rest = [row for row in handoff.rows if row.place not in places]
        if len(rest) == len(handoff.rows):
            continue
        bounds = store.tables.handoff_bounds(name)
        tr.add_read_conflict_range(*bounds)
        tr.clear_range(*bounds)
        write_pieces(tr, store.tables, name, handoff._replace(rows=rest))
        taken += [row for row in handoff.rows if row.place in places]
    return taken
