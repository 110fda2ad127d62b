"""Read a queue without changing it: peek, get an item, read a page of items."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import ItemNotFound
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.head import Head, TransactionBudget
from fdbqueue.service.consume.taker import Taker
from fdbqueue.service.items import Item, Page
from fdbqueue.service.priorities import Priorities
from fdbqueue.service.storage.reader import End, Row
from fdbqueue.service.storage.store import STATES, ItemStore, check_state
from fdbqueue.service.storage.tables import HIDDEN_END

#: The names of the states that items may be in.
ITEM_STATES = ("ready", *STATES)


class Browser:
    """Read the items of one queue, in the transaction it is given.

    Args:
        store: The queue's items.
        taker: Reads the state that a pop would read.
        priorities: The queue's type of priorities.
    """

    def __init__(self, store: ItemStore, taker: Taker, priorities: Priorities) -> None:
        self._store = store
        self._keys = store.keys
        self._reader = store.reader
        self._taker = taker
        self._priorities = priorities

    def peek(self, tr: Transaction, count: int, end: End) -> list[Item]:
        """Return the first items at an end, in strict order, also in a relaxed queue.

        They include what the next pop would requeue.

        Raises:
            CorruptItem: One of them cannot be decoded.
        """
        now = now_us()
        read = self._taker.begin_state(tr, now)
        head = Head(tr, self._keys, self._reader, end, count, TransactionBudget(0))
        state = self._taker.parse_state(tr, now, read)
        preview = functools.partial(expiry.preview, self._store, tr)
        returned, attempts = preview(state.dues, state.expired, self._taker.max_attempts)
        head.add(returned)
        rows = head.take(count)
        if not rows and state.dues:  # these all die, or are too many: find one that becomes ready
            for entry in self._taker.all_due(tr, now):
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
            key = self._keys.key(self._keys.place_named(after))
            if end == "min":
                begin = max(begin, key + (b"\x00" if state == "ready" else HIDDEN_END))
            else:
                stop = min(stop, key)
        if begin >= stop:
            return None
        if state == "ready":
            return functools.partial(
                self._reader.page, begin=begin, stop=stop, limit=limit, end=end
            )
        places = self._keys.place_of(begin), self._keys.place_of(stop)
        return functools.partial(
            self._store.page, state=STATES[state], places=places, limit=limit, end=end
        )
