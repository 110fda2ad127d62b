"""Look at a queue: its items, its counts, its history. Nothing here changes it."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from fdbqueue.exceptions import ConfigurationError, InvalidInput, ItemNotFound
from fdbqueue.service import instrumentation
from fdbqueue.service.clock import now_us
from fdbqueue.service.codecs import CODECS, Codec
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.head import Head, TransactionBudget
from fdbqueue.service.consume.taker import Taker
from fdbqueue.service.inspect.overview import Overview
from fdbqueue.service.items import Item, Page, Priority
from fdbqueue.service.storage.counts import HISTORY_MINUTES, Counters, Counts, Minute
from fdbqueue.service.storage.keys import ItemKeys
from fdbqueue.service.storage.reader import End, ItemReader, Row
from fdbqueue.service.storage.store import STATES, Stock
from fdbqueue.service.storage.tables import HIDDEN_END, MetaKeys
from fdbqueue.service.transactions import run

T = TypeVar("T")

#: One operation returns no more items than this.
MAX_ITEMS = 10_000

#: Items are iterated over by pages of so many.
ITERATION_ITEMS = 500


class Browsing:
    """The parts of a queue that only read.

    Args:
        database: Anything with ``create_transaction()``.
        keys: The keys of its items.
        codec: ``"json"``, ``"bytes"``, ``"tuple"``, or a :class:`Codec`.
        name: What errors call the queue.
        relaxed: Whether any of the first items will do for a pop.
        max_attempts: How many failed leases make an item dead; None for no limit.
    """

    def __init__(
        self,
        database: Any,
        keys: ItemKeys,
        *,
        codec: str | Codec,
        name: str | None,
        relaxed: bool,
        max_attempts: int | None,
    ) -> None:
        self.database = database
        self.subspace = keys.subspace
        self.name = name if name is not None else repr(keys.subspace.key())
        if isinstance(codec, str) and codec not in CODECS:
            raise ConfigurationError(queue=self.name, codec=codec, allowed=", ".join(CODECS))
        self.codec: Codec = CODECS[codec]() if isinstance(codec, str) else codec
        self.max_attempts = max_attempts
        self._keys = keys
        self._meta = MetaKeys(keys.subspace.key())
        self._stock = Stock(keys, self._meta, self.codec, self.name)
        self._reader: ItemReader = self._stock.reader
        self._counters = Counters(self._meta)
        self._taker = Taker(self._stock, relaxed=relaxed, max_attempts=max_attempts)
        self._answers = self._taker.answers

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    # Items

    def peek(self, *, tr: Any = None) -> Item | None:
        """Return the item at the min end, as :meth:`peek_min` does."""
        return self.peek_min(tr=tr)

    def peek_min(self, *, tr: Any = None) -> Item | None:
        """Return the item ``pop_min`` would take, None when the queue is empty."""
        return one(self.peek_many(1, end="min", tr=tr))

    def peek_max(self, *, tr: Any = None) -> Item | None:
        """Return the item ``pop_max`` would take, None when the queue is empty."""
        return one(self.peek_many(1, end="max", tr=tr))

    def peek_many(self, count: int, *, end: End = "min", tr: Any = None) -> list[Item]:
        """Return the items ``pop_many`` would take, leaving them where they are.

        Those that have fallen due but that nobody has brought back yet are included.

        Raises:
            CorruptItem: One of them cannot be decoded.
        """
        self._check_count(count)
        self._check_end(end)
        return self._read(tr, lambda transaction: self._peek(transaction, count, end))

    def _peek(self, tr: Any, count: int, end: End) -> list[Item]:
        now = now_us()
        asked = self._taker.ask_state(tr, now)
        head = Head(tr, self._keys, self._reader, end, count, TransactionBudget(0))
        state = self._taker.parse_state(tr, now, asked)
        preview = functools.partial(expiry.preview, self._stock, tr)
        returned, attempts = preview(state.dues, state.expired, self.max_attempts)
        head.put_back(returned)
        rows = head.take(count)
        if not rows and state.dues:  # these all die, or are too many: look for one that comes
            for entry in self._taker.all_due(tr, now):
                returned, attempts = preview([entry], [], self.max_attempts)
                if returned:
                    head.put_back(returned)
                    rows = head.take(count)
                    break
        head.depend()
        items = self._reader.items(tr, rows, retried=state.retried)
        return [
            dataclasses.replace(item, attempts=attempts.get(row.place, item.attempts))
            for item, row in zip(items, rows, strict=True)
        ]

    def get(self, item_id: str, *, tr: Any = None) -> Item:
        """Return the item with an id, whatever state it is in.

        Returns:
            The item; its value is :class:`Undecodable` where the codec cannot read it.

        Raises:
            InvalidInput: It is no item's id in this queue.
            ItemNotFound: The item is not there, or no longer.
        """
        place = self._keys.place_named(item_id)

        def read(transaction: Any) -> Item:
            ready = transaction[self._keys.key(place)]
            asked = [
                (state, self._stock.ask(transaction, state, place)) for state in STATES.values()
            ]
            if ready.present():
                row = Row(place, bytes(ready))
                return self._reader.shown(transaction, [row], retried=True)[0]
            for state, answer in asked:
                hidden = self._stock.answer(state, place, answer)
                if hidden is not None:
                    return self._stock.shown(transaction, [hidden])[0]
            raise ItemNotFound(queue=self.name, id=item_id)

        return self._read(tr, read)

    def page(
        self,
        *,
        end: End = "min",
        after: str | None = None,
        limit: int = 100,
        min_priority: Any = None,
        max_priority: Any = None,
        state: str = "ready",
        tr: Any = None,
    ) -> Page:
        """Return some items in order, starting from one end or behind a given item.

        Its cost depends on the number of items returned, not on the length of the queue.
        Pages stay right while others push and pop: an item is on the page its place falls
        on when the page is read.

        Args:
            end: Which end the order starts from.
            after: The id of the item before the first, or the cursor of the page before;
                the item need not exist any more.
            limit: The most items, up to 10,000; a page ends after 5,000,000 stored bytes.
            min_priority: The lowest priority to show, itself included.
            max_priority: The highest priority to show, itself included.
            state: ``"ready"``, ``"leased"``, ``"delayed"`` or ``"dead"``. Those that have
                fallen due stay where they are until somebody consumes.
            tr: The transaction to take part in.

        Raises:
            InvalidInput: ``after`` is no id of this queue, there is no such state, or a
                FIFO queue was given a priority.
            InvalidPriority: A bound does not fit the queue's priority type.
        """
        self._check_count(limit)
        self._check_end(end)
        if state != "ready" and state not in STATES:
            raise InvalidInput(queue=self.name, state=state, allowed=", ".join(["ready", *STATES]))
        low, high = self._coerce(min_priority), self._coerce(max_priority)
        begin, stop = self._keys.between(low, high)
        if after is not None:
            key = self._keys.key(self._keys.place_named(after))
            if end == "min":
                begin = max(begin, key + (b"\x00" if state == "ready" else HIDDEN_END))
            else:
                stop = min(stop, key)
        if begin >= stop:
            return Page([], None)
        if state == "ready":
            return self._read(
                tr, lambda transaction: self._reader.page(transaction, begin, stop, limit, end)
            )
        places = self._keys.place_of(begin), self._keys.place_of(stop)
        return self._read(
            tr,
            lambda transaction: self._stock.page(transaction, STATES[state], places, limit, end),
        )

    def iterate(
        self, *, end: End = "min", after: str | None = None, **bounds: Any
    ) -> Iterator[Item]:
        """Yield all items in order, a page at a time, each in a transaction of its own.

        The whole is no snapshot: it shows each place as it was when it was reached. Takes
        the bounds and the state of :meth:`page`.
        """
        while True:
            page = self.page(end=end, after=after, limit=ITERATION_ITEMS, **bounds)
            yield from page.items
            if page.cursor is None:
                return
            after = page.cursor

    def __iter__(self) -> Iterator[Item]:
        return self.iterate()

    # Counts

    def size(self, *, tr: Any = None) -> int:
        """Return how many items are ready, without counting them.

        Items that have fallen due are not, until somebody consumes.
        """
        return self._read(tr, self._counters.size)

    def counts(self, *, tr: Any = None) -> Counts:
        """Return how many items are ready, leased, delayed and dead, without counting them."""
        return self._read(tr, lambda transaction: self._counters.ask(transaction)())

    def ask_counts(self, tr: Any) -> Callable[[], Counts]:
        """Ask for :meth:`counts` without waiting, so as to ask many queues at once.

        Returns:
            What waits for the answer when it is called.
        """
        return self._counters.ask(tr)

    def by_priority(
        self, *, after: Any = None, limit: int = 1_000, tr: Any = None
    ) -> list[tuple[Priority, int]]:
        """Return the priorities of ready items, lowest first, each with their number.

        Args:
            after: Only the priorities above this one.
            limit: The most priorities, up to 10,000.
            tr: The transaction to take part in.
        """
        self._check_count(limit)
        above = self._coerce(after)
        return self._read(
            tr, lambda transaction: self._counters.by_priority(transaction, above, limit)
        )

    def oldest(self, *, tr: Any = None) -> datetime.datetime | None:
        """Return when the oldest ready item was pushed.

        In a FIFO queue that is the first item that says when it was pushed: one that cannot be
        decoded does not.

        Returns:
            The moment; None when there are no items, or where it is not known: none of the
            first 100 says it, or the codec keeps no such record.
        """
        return self._read(tr, lambda transaction: self.overview.ask_oldest(transaction)()())

    def history(self, minutes: int = 60, *, tr: Any = None) -> list[Minute]:
        """Return how many items were pushed and taken in each of the last minutes.

        Args:
            minutes: How many, the present one included, up to 1,440: a day.
            tr: The transaction to take part in.

        Returns:
            The minutes in order, those without any work included.
        """
        if isinstance(minutes, bool) or not isinstance(minutes, int):
            raise InvalidInput(queue=self.name, minutes=minutes, allowed="a number")
        if not 1 <= minutes <= HISTORY_MINUTES:
            raise InvalidInput(queue=self.name, minutes=minutes, allowed=f"1 to {HISTORY_MINUTES}")
        return self._read(tr, lambda transaction: self._counters.history(transaction, minutes))

    @property
    def overview(self) -> Overview:
        """What asks for figures of this queue without waiting, so as to ask many queues at once."""
        return Overview(self._keys, self._meta, self._stock, self._counters)

    # What the subclasses and the operations share

    def _coerce(self, priority: Any) -> Priority | None:
        """Return a priority in the queue's type, None where there is none."""
        raise NotImplementedError

    def _check_count(self, count: int) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_ITEMS:
            raise InvalidInput(queue=self.name, count=count, allowed=f"1 to {MAX_ITEMS}")

    def _check_end(self, end: str) -> None:
        if end not in {"min", "max"}:
            raise InvalidInput(queue=self.name, end=end, allowed="min, max")

    def _read(self, tr: Any, function: Callable[[Any], T]) -> T:
        if tr is not None:
            return function(tr)
        return run(self.database, function, wrote=lambda _: False)

    def _transact(
        self,
        verb: str,
        tr: Any,
        function: Callable[[Any], T],
        *,
        wrote: Callable[[T], bool] = lambda _: True,
    ) -> T:
        """Run what writes, in a transaction of its own or in the caller's."""
        if tr is not None:
            return function(tr)
        return instrumentation.observed(
            verb, self.name, lambda: run(self.database, function, wrote=wrote)
        )


def one(items: list[Item]) -> Item | None:
    """Return the first item, None where there is none."""
    return items[0] if items else None
