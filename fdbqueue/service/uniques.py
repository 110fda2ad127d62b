"""Unique keys: a queue has at most one item of each key at a time.

What is stored: a row of the table UNIQUE says which item has the key, by its place. The item's
place says which key it has, by the key's tag. So whatever takes or removes an item frees its key
without reading anything: it clears the row if the row still names that item
(``compare_and_clear``).

Who does what, each in the transaction that changes the item:

- *A push under a key* reads the row, and depends on it. If the row names an item that is there, the
  push writes nothing and returns that item. Otherwise it writes its item and the row. Pushes of
  other keys do not conflict with it. A row whose item is gone was left by a foreign popper, which
  frees no keys; the push takes it over.
- *A pop, an ack, a removal, a burial, the last attempt* free the key. So does a lease, if the
  key is kept only until the item is taken.
- *A lease that is given up or expires* changes nothing: until it is done the item has its key; and
  one whose key was freed by the lease returns without it.
- *A redrive* takes the key again, as a push does. A dead letter whose key another item has stays
  dead.
- *Who requeues items for a thread or a task that has gone* takes the key again if it is free.
  If another item has got it meanwhile, the requeued one is there without a key: it must not be
  lost.
- *A handoff* holds its items with their keys, until they are collected or it expires.

A crash, a signal or an unknown outcome leaves what the transaction left, which changed the item and
the key together.

Pushes that share a transaction (:mod:`fdbqueue.service.writes`) begin their reads before any of
them writes. The transaction notes the keys that it has given to items, so that a later write sees
them.

The value of an item that is found is read, whatever its length, because it is returned. So a batch
reads them one after the other, and is refused when they and what it pushes are over the limit; and
a transaction counts what it has read, and applies no more writes once that is as much as one
operation may return. It reads the handoffs once, however many keys they may have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import BatchTooLarge, InvalidInput, message_of
from fdbqueue.service.clock import moment
from fdbqueue.service.entries import Entry
from fdbqueue.service.idempotency import Existing, Placed
from fdbqueue.service.items import Item, Undecodable
from fdbqueue.service.sizes import MAX_RETURNED_BYTES, MAX_UNIQUE_BYTES
from fdbqueue.service.storage.item_keys import (
    LONGEST_RANDOM,
    TAG_BYTES,
    UNTIL_DONE,
    UNTIL_TAKEN,
    Place,
    Row,
)
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import Hidden, State, described
from fdbqueue.service.storage.whereabouts import begin_find, handed_over
from fdbqueue.service.transactions import error_code
from fdbqueue.service.writes import ACCESSED_UNREADABLE, SharedTransaction

_TAGS = {"ready": UNTIL_TAKEN, "pending": UNTIL_DONE}
#: How long an item may have its unique key.
UNIQUE_WHILE = tuple(_TAGS)


class _Pushed(NamedTuple):
    """What a transaction has pushed under a key."""

    entry: Entry
    placed: Placed


class UniqueKeys:
    """The unique keys of one queue's items.

    Args:
        store: The queue's items.
    """

    def __init__(self, store: ItemStore) -> None:
        self._store = store

    def begin(self, shared: SharedTransaction, tag: bytes) -> None:
        """Begin to read which item has a key, unless this transaction has done that."""
        digest = tag[1:]
        if digest not in shared.uniques:
            shared.uniques[digest] = shared.tr[self._store.tables.unique(tag)]

    def new(self, shared: SharedTransaction, entries: Iterable[Entry]) -> list[Entry]:
        """Return the entries to push: of each key one, if no item has it.

        Raises:
            InvalidInput: This transaction has pushed the key before, in commit order.
            BatchTooLarge: What is found and what is to be pushed are too large together.
        """
        new: list[Entry] = []
        pushed: dict[bytes, Entry] = {}
        size = 0
        for number, entry in enumerate(entries):
            digest = entry.tag[1:]
            own = pushed.get(digest, entry)
            if digest and own is entry and self._has_item(shared, entry.tag):
                found = shared.uniques[digest]
                size += len(found.entry.value if type(found) is _Pushed else found.existing.data)
            else:
                size += len(own.value)
                if own is entry:
                    new.append(entry)
                if digest:
                    pushed[digest] = own
            if number and size > MAX_RETURNED_BYTES:
                raise BatchTooLarge(
                    queue=self._store.queue, size_bytes=size, limit_bytes=MAX_RETURNED_BYTES
                )
        return new

    def merged(
        self, shared: SharedTransaction, entries: Iterable[Entry], pushed: Iterable[Placed]
    ) -> list[Placed]:
        """Return what was pushed or found for each entry; give their keys to what was pushed."""
        rest = iter(pushed)
        merged = []
        for entry in entries:
            digest = entry.tag[1:]
            found = shared.uniques[digest] if digest else None
            if isinstance(found, _Pushed):
                found = self._existing(found)
            elif not isinstance(found, Placed):
                found = next(rest)
                if digest:
                    found.place.name_in(shared.tr, self._store.tables.unique(entry.tag))
                    shared.uniques[digest] = _Pushed(entry, found)
            merged.append(found)
        return merged

    def _existing(self, pushed: _Pushed) -> Placed:
        """Return what a push finds that an earlier one of its transaction has written."""
        entry, placed = pushed
        existing = Existing(entry.value, "ready" if entry.until is None else "delayed", 0)
        pushed_at = placed.pushed_at if self._store.codec.keeps_metadata else None
        return placed._replace(existing=existing, pushed_at=pushed_at)

    def existing_item(self, placed: Placed, existing: Existing, item_id: str) -> Item:
        """Return the item that has the key of a push, which pushed nothing."""
        place, pushed_at, until, _ = placed
        try:
            value = self._store.codec.decode(existing.data).value
        except (ValueError, TypeError) as error:
            value = Undecodable(existing.data, message_of(error))
        return Item(
            value=value,
            priority=self._store.keys.position(place.data).priority,
            id=item_id,
            pushed_at=None if pushed_at is None else moment(pushed_at),
            attempts=existing.attempts,
            size_bytes=len(existing.data),
            state=existing.state,
            until=None if until is None else moment(until),
            worker=existing.worker,
            queue=self._store.queue,
            existing=True,
        )

    def _has_item(self, shared: SharedTransaction, tag: bytes) -> bool:
        """Tell whether an item has a key, and note the item."""
        read = shared.uniques[tag[1:]]
        if not isinstance(read, Placed | _Pushed):
            place = self._place_in(read)
            found = None if place is None else self._find(shared, place)
            if found is None:
                return False
            shared.uniques[tag[1:]] = found
            shared.read_bytes += len(found.existing.data if found.existing else b"")
        return True

    def _place_in(self, read: Any) -> bytes | None:
        try:
            return bytes(read) if read.present() else None
        except Exception as error:
            if error_code(error) != ACCESSED_UNREADABLE:
                raise
            reason = "in commit order one transaction can push a unique key only once"
            raise InvalidInput(queue=self._store.queue, reason=reason) from error

    def _find(self, shared: SharedTransaction, place: bytes) -> Placed | None:
        """Return the item at a place that has its key, in whatever state; None if none does."""
        store, tr = self._store, shared.tr
        states = [State.DELAYED]
        position = store.position(place)
        if position is not None and position.tag[:1] == UNTIL_DONE:
            states.append(State.LEASED)
        found = begin_find(tr.snapshot, store, place, states)()
        if found is None:
            if shared.handed is None:
                tagged = [row for row in handed_over(tr, store) if len(row.place) > LONGEST_RANDOM]
                shared.handed = {row.place: row for row in tagged}
            found = shared.handed.get(place)
        return None if found is None else self._placed(tr, found)

    def _placed(self, tr: Transaction, found: Row | Hidden) -> Placed:
        hidden, row = (found, found.row) if isinstance(found, Hidden) else (None, found)
        (loaded,) = self._store.load(tr, [row], retried=hidden is None)
        item = self._store.shown_item(loaded)
        item = item if hidden is None else described(item, hidden, ())
        existing = Existing(loaded.data or row.value, item.state, item.attempts, item.worker)
        until = None if hidden is None else hidden.until
        pushed_at = loaded.pushed_at if hidden is None else hidden.pushed_at
        return Placed(Place(row.place), pushed_at, until, existing)


def kept_while(tag: bytes) -> str:
    """Return how long an item with a tag has its unique key."""
    return next(name for name, kept in _TAGS.items() if tag.startswith(kept))


def tag_of(queue: str, unique: str | None, unique_while: str) -> bytes:
    """Return the tag of a unique key.

    Raises:
        InvalidInput: It is not a text of 1 to 1,000 bytes, or ``unique_while`` is neither
            ``"ready"`` nor ``"pending"``.
    """
    if not isinstance(unique_while, str) or unique_while not in _TAGS:
        raise InvalidInput(queue=queue, unique_while=unique_while, allowed=", ".join(UNIQUE_WHILE))
    data = unique.encode(errors="surrogatepass") if isinstance(unique, str) else b""
    if not 1 <= len(data) <= MAX_UNIQUE_BYTES:
        shown = unique[:100] if isinstance(unique, str) else unique
        raise InvalidInput(
            queue=queue, unique=shown, allowed=f"a text of 1 to {MAX_UNIQUE_BYTES} bytes"
        )
    return _TAGS[unique_while] + hashlib.blake2b(data, digest_size=TAG_BYTES - 1).digest()
