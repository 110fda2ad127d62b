"""What all queues can do, over FoundationDB transactions.

Each operation runs in a transaction of its own, or takes part in the caller's when given
``tr``: then nothing is committed here, the operation sees the transaction's own writes,
and its effect is the caller's to commit, with whatever else that transaction writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from fdbqueue.exceptions import ConfigurationError, InvalidInput, ItemNotFound
from fdbqueue.service.codecs import CODECS, Codec
from fdbqueue.service.items import Item, Page, Priority, moment
from fdbqueue.service.keyspace import ItemKeys
from fdbqueue.service.pushing import Entry, Pusher
from fdbqueue.service.reading import End, ItemReader
from fdbqueue.service.transactions import run

T = TypeVar("T")

#: One operation returns no more items than this.
MAX_ITEMS = 10_000

_ITERATION_ITEMS = 500


class Queue:
    """What FIFO queues and priority queues have in common.

    Args:
        database: Anything with ``create_transaction()``: either engine's database, or one
            opened with the FoundationDB binding.
        subspace: The queue's own place: its items are directly under it, as in the recipes.
        codec: ``"json"``, ``"bytes"``, ``"tuple"``, or a :class:`Codec`.
        name: What errors call the queue.
    """

    #: ``"fifo"`` or ``"priority"``, as in the settings.
    kind: str
    #: ``"int"`` or ``"float"``; None where there are no priorities.
    priority_type: str | None = None

    def __init__(
        self,
        database: Any,
        keys: ItemKeys,
        *,
        codec: str | Codec = "json",
        name: str | None = None,
    ) -> None:
        self.database = database
        self.subspace = keys.subspace
        self.name = name if name is not None else repr(keys.subspace.key())
        if isinstance(codec, str) and codec not in CODECS:
            raise ConfigurationError(queue=self.name, codec=codec, allowed=", ".join(CODECS))
        self.codec: Codec = CODECS[codec]() if isinstance(codec, str) else codec
        self._keys = keys
        self._reader = ItemReader(keys, self.codec, self.name)
        self._pusher = Pusher(keys, self.codec, self._reader, self.name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    # Pushing

    def push(self, value: Any, priority: Any = None, *, tr: Any = None) -> Item:
        """Put a value into the queue; the subclasses say where."""
        raise NotImplementedError

    def push_many(self, items: Iterable[Any], *, tr: Any = None) -> int:
        """Put many into the queue; the subclasses say what they are."""
        raise NotImplementedError

    # Taking

    def pop(self, *, tr: Any = None) -> Item | None:
        """Take the item at the min end, as :meth:`pop_min` does."""
        return self.pop_min(tr=tr)

    def pop_min(self, *, tr: Any = None) -> Item | None:
        """Take the first item: the earliest pushed of the lowest priority.

        Strict: it was the first when the pop was committed. Two pops at one end conflict,
        and one of them runs again.

        Args:
            tr: The transaction to take part in.

        Returns:
            The item, or None when the queue is empty.

        Raises:
            CorruptItem: The item cannot be decoded; it stays where it is.
            OutcomeUnknown: It is not known whether the item was taken.
        """
        return _one(self.pop_many(1, end="min", tr=tr))

    def pop_max(self, *, tr: Any = None) -> Item | None:
        """Take the last item: the latest pushed of the highest priority.

        The other end of the order of :meth:`pop_min`, with the same promises.
        """
        return _one(self.pop_many(1, end="max", tr=tr))

    def pop_many(self, count: int, *, end: End = "min", tr: Any = None) -> list[Item]:
        """Take items from one end in one transaction: all of them, or none.

        Args:
            count: The most to take, up to 10,000.
            end: ``"min"`` or ``"max"``.
            tr: The transaction to take part in.

        Returns:
            The items in the order single pops would have given; empty when the queue is.
            Fewer than asked when the queue holds fewer, or after 5,000,000 stored bytes.

        Raises:
            CorruptItem: One of them cannot be decoded; all stay where they are.
        """
        self._check_count(count)
        return self._transact(tr, lambda transaction: self._take(transaction, count, end))

    # Looking

    def peek(self, *, tr: Any = None) -> Item | None:
        """Return the item at the min end, as :meth:`peek_min` does."""
        return self.peek_min(tr=tr)

    def peek_min(self, *, tr: Any = None) -> Item | None:
        """Return the item :meth:`pop_min` would take, None when the queue is empty."""
        return _one(self.peek_many(1, end="min", tr=tr))

    def peek_max(self, *, tr: Any = None) -> Item | None:
        """Return the item :meth:`pop_max` would take, None when the queue is empty."""
        return _one(self.peek_many(1, end="max", tr=tr))

    def peek_many(self, count: int, *, end: End = "min", tr: Any = None) -> list[Item]:
        """Return the items :meth:`pop_many` would take, leaving them where they are."""
        self._check_count(count)
        return self._transact(
            tr, lambda transaction: [item for _, item in self._reader.ends(transaction, count, end)]
        )

    def get(self, item_id: str, *, tr: Any = None) -> Item:
        """Return the item with an id.

        Returns:
            The item; its value is :class:`Undecodable` where the codec cannot read it.

        Raises:
            InvalidInput: It is no item's id in this queue.
            ItemNotFound: The item is not there, or no longer.
        """
        key = self._keys.key_of(item_id)

        def read(transaction: Any) -> Item:
            value = transaction[key]
            if not value.present():
                raise ItemNotFound(queue=self.name, id=item_id)
            return self._reader.shown(key, bytes(value))

        return self._transact(tr, read)

    def page(
        self,
        *,
        end: End = "min",
        after: str | None = None,
        limit: int = 100,
        min_priority: Any = None,
        max_priority: Any = None,
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
            tr: The transaction to take part in.

        Raises:
            InvalidInput: ``after`` is no id of this queue, or a FIFO queue was given a
                priority.
            InvalidPriority: A bound does not fit the queue's priority type.
        """
        self._check_count(limit)
        begin, stop = self._keys.between(self._coerce(min_priority), self._coerce(max_priority))
        if after is not None and end == "min":
            begin = max(begin, self._keys.key_of(after) + b"\x00")
        elif after is not None:
            stop = min(stop, self._keys.key_of(after))
        if begin >= stop:
            return Page([], None)

        return self._transact(
            tr, lambda transaction: self._reader.page(transaction, begin, stop, limit, end)
        )

    def iterate(
        self, *, end: End = "min", after: str | None = None, **bounds: Any
    ) -> Iterator[Item]:
        """Yield all items in order, a page at a time, each in a transaction of its own.

        The whole is no snapshot: it shows each place as it was when it was reached. Takes
        the bounds of :meth:`page`.
        """
        while True:
            page = self.page(end=end, after=after, limit=_ITERATION_ITEMS, **bounds)
            yield from page.items
            if page.cursor is None:
                return
            after = page.cursor

    def __iter__(self) -> Iterator[Item]:
        return self.iterate()

    # Removing

    def clear(self, *, tr: Any = None) -> None:
        """Remove all items, however many, in one transaction."""
        begin, stop = self._keys.bounds()
        self._transact(tr, lambda transaction: transaction.clear_range(begin, stop))

    def _coerce(self, priority: Any) -> Priority | None:
        """Return a priority in the queue's type, None where there is none."""
        raise NotImplementedError

    def _push(self, value: Any, priority: Priority | None, tr: Any) -> Item:
        entry = self._pusher.entry(value, priority)
        (key,) = self._transact(tr, lambda transaction: self._pusher.put(transaction, [entry]))
        return Item(
            value=value,
            priority=priority,
            id=self._keys.item_id(key),
            pushed_at=moment(entry.pushed_at) if self.codec.keeps_metadata else None,
            size_bytes=len(entry.value),
        )

    def _push_all(self, entries: Iterable[Entry], tr: Any) -> int:
        if tr is not None:
            return len(self._pusher.put(tr, list(entries)))
        return self._pusher.put_all(self.database, entries)

    def _take(self, transaction: Any, count: int, end: End) -> list[Item]:
        taken = self._reader.ends(transaction, count, end)
        if len(taken) == 1:
            transaction.clear(taken[0][0])
        elif taken:
            keys = (taken[0][0], taken[-1][0])
            transaction.clear_range(min(keys), max(keys) + b"\x00")
        return [item for _, item in taken]

    def _check_count(self, count: int) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_ITEMS:
            raise InvalidInput(queue=self.name, count=count, allowed=f"1 to {MAX_ITEMS}")

    def _transact(self, tr: Any, function: Callable[[Any], T]) -> T:
        return run(self.database, function) if tr is None else function(tr)


def _one(items: list[Item]) -> Item | None:
    return items[0] if items else None
