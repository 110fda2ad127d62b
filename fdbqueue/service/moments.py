"""List hidden items in the order of time: by when their lease or delay ends, or by when they died.

Each has a row in an index, which the transaction writes and removes that hides and reveals the
item. Leases and delays share theirs with all else that expires (table ``DUE``); that of dead
letters (table ``DEATH``) is their own. A dead letter whose key there would be too long has none,
and is only listed by its place: such keys come from other programs alone.

A position in such a list is the moment in microseconds and the id. What moves meanwhile, because
its lease is extended or because it dies again, is found where it is by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service.items import Item, Page
from fdbqueue.service.sizes import MAX_RETURNED_BYTES
from fdbqueue.service.storage.item_keys import Bounds, End
from fdbqueue.service.storage.store import STATES, ItemStore
from fdbqueue.service.storage.tables import Hidden, Kind, State

#: The orders of a list of items: by their places, or by time.
Order = Literal["place", "time"]
ORDERS: tuple[Order, Order] = ("place", "time")
#: A list ends when it has passed so many rows of the index that are not of its state.
MAX_PASSED = 10_000

_KINDS = {State.LEASED: Kind.LEASE, State.DELAYED: Kind.DELAY}
#: How many rows of an index are read at once, and how many of the items that it names: each may
#: have a value of 100,000 bytes.
_MOMENTS_AT_ONCE = 1_000
_VALUES_AT_ONCE = 50
#: The digits of a moment in microseconds.
_MAX_DIGITS = 18


class Portion(NamedTuple):
    """Some items in the order of time.

    Attributes:
        rows: The moment in microseconds, the id, and the item; None for what is not in the list.
        is_last: Whether nothing follows.
        is_full: Whether it ended because it has the bytes that a page may have.
    """

    rows: list[tuple[int, str, Item | None]]
    is_last: bool
    is_full: bool


class _Listed(NamedTuple):
    """A row of a list: the key after which the next portion begins, and what the row says."""

    key: bytes
    moment: int
    place: bytes
    hidden: Hidden | None


class _Index(NamedTuple):
    """The index of a state: its range, its keys, and what a key says.

    ``parse`` returns the moment, the place, and whether it is of this state; None for no item.
    """

    bounds: Bounds
    key: Callable[[int, bytes], bytes | None]
    parse: Callable[[bytes], tuple[int, bytes, bool] | None]


def position(moment: int, item_id: str) -> str:
    """Return the position of an item in the order of time."""
    return f"{moment}-{item_id}"


def parsed_position(text: str) -> tuple[int, str]:
    """Return the moment and the id of a position.

    Raises:
        InvalidInput: It is none.
    """
    moment, _dash, item_id = text.partition("-") if isinstance(text, str) else ("", "", "")
    if not (moment.isascii() and moment.isdecimal() and len(moment) <= _MAX_DIGITS):
        raise InvalidInput(after=text, reason="it is not a position in the order of time")
    return int(moment), item_id


class Moments:
    """List the items of one queue in the order of time; nothing depends on what it reads.

    Args:
        store: The queue's items.
    """

    def __init__(self, store: ItemStore) -> None:
        self._store = store
        self._tables = store.tables
        self._keys = store.keys

    def page(
        self, tr: Transaction, state: str, after: tuple[int, str] | None, limit: int, end: End
    ) -> Page:
        """Return a page of items: from the earliest moment on (``"min"``), or from the latest."""
        items: list[Item] = []
        passed = size = 0
        cursor = None
        portions = self.portions(tr, state, after, is_backward=end == "max", at_once=limit + 1)
        for rows, is_last, _is_full in portions:
            for moment, item_id, item in rows:
                if item is not None and len(items) == limit:
                    return Page(items, cursor)
                cursor = position(moment, item_id)
                if item is None:
                    passed += 1
                else:
                    items.append(item)
                    size += item.size_bytes
            if not is_last and (size >= MAX_RETURNED_BYTES or passed >= MAX_PASSED):
                return Page(items, cursor)
        return Page(items, None)

    def portions(
        self,
        tr: Transaction,
        state: str,
        after: tuple[int, str] | None,
        *,
        is_backward: bool,
        at_once: int,
    ) -> Iterator[Portion]:
        """Yield the items in a state in the order of time.

        Of what ends at the same moment the order is that of the places. Each portion is one read
        of the index and two reads for each of its items, all at once, 50 at most; it ends when its
        values have the bytes that a page may have.

        Args:
            tr: The transaction.
            state: ``"leased"``, ``"delayed"`` or ``"dead"``.
            after: The moment and the id of an item: only those that follow it.
            is_backward: Whether to begin with the latest moment.
            at_once: How many rows of the index to read at first; later up to 1,000 are, if most
                are of another state.

        Raises:
            InvalidInput: ``after`` has no id of this queue.
        """
        at = None if after is None else (after[0], self._keys.place_named(after[1]))
        hidden, limit = STATES[state], min(at_once, _VALUES_AT_ONCE)
        index = self._index(hidden)
        begin, stop = index.bounds
        if at is not None:
            key = index.key(*at)
            if key is None:
                raise InvalidInput(queue=self._store.queue, reason="no item has this position")
            begin, stop = (begin, key) if is_backward else (key + b"\x00", stop)
        while True:
            rows = tr.snapshot.get_range(begin, stop, limit=limit, reverse=is_backward)
            keys = [bytes(row.key) for row in rows]
            is_last = len(keys) < limit
            entries = [(key, entry) for key in keys if (entry := index.parse(key)) is not None]
            ours = [at for at, (_key, entry) in enumerate(entries) if entry[2]]
            if len(ours) > _VALUES_AT_ONCE:
                entries, is_last = entries[: ours[_VALUES_AT_ONCE]], False
                keys = [key for key, _entry in entries]
            portion, count = self._portion(tr, self._read(tr, hidden, entries), is_last=is_last)
            yield portion
            if portion.is_last or not keys:
                return
            last = keys[-1] if count == len(entries) else entries[count - 1][0]
            limit = _VALUES_AT_ONCE if any(row[2] for row in portion.rows) else _MOMENTS_AT_ONCE
            begin, stop = (begin, last) if is_backward else (last + b"\x00", stop)

    def _index(self, state: State) -> _Index:
        if state is State.DEAD:
            return _Index(
                self._tables.deaths,
                self._tables.death,
                lambda key: (*self._tables.parse_dated(key), True),
            )
        wanted = _KINDS[state]

        def parse(key: bytes) -> tuple[int, bytes, bool] | None:
            due = self._tables.parse_due(key)
            if due is None or due.kind is Kind.HANDOFF:  # it has a name, and no place
                return None
            return due.moment, due.rest, due.kind is wanted

        return _Index(
            self._tables.dues,
            lambda moment, place: self._tables.due(moment, wanted, place),
            parse,
        )

    def _read(
        self, tr: Transaction, state: State, entries: list[tuple[bytes, tuple[int, bytes, bool]]]
    ) -> list[_Listed]:
        """Read the items that some rows of an index name."""
        reads = [
            self._store.begin_read(tr.snapshot, state, place) if is_ours else None
            for _key, (_moment, place, is_ours) in entries
        ]
        listed = []
        for (key, (moment, place, _is_ours)), read in zip(entries, reads, strict=True):
            hidden = None if read is None else self._store.parse(state, place, read)
            is_there = hidden is not None and hidden.until == moment
            listed.append(_Listed(key, moment, place, hidden if is_there else None))
        return listed

    def _portion(
        self, tr: Transaction, listed: list[_Listed], *, is_last: bool
    ) -> tuple[Portion, int]:
        """Return the portion of some rows, and how many of these it has."""
        found: list[Hidden] = []
        size = count = 0
        for count, row in enumerate(listed, start=1):  # noqa: B007  # used below
            if row.hidden is not None:
                found.append(row.hidden)
                size += self._store.size_of(row.hidden.row)
            if size >= MAX_RETURNED_BYTES:
                break
        items = {item.id: item for item in self._store.shown(tr, found)}
        named = [
            (one.moment, self._keys.id_of(one.place), one.hidden is not None)
            for one in listed[:count]
        ]
        rows = [
            (moment, item_id, items[item_id] if is_there else None)
            for moment, item_id, is_there in named
        ]
        is_full = size >= MAX_RETURNED_BYTES
        return Portion(rows, is_last and count == len(listed), is_full), count
