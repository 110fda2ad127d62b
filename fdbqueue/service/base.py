"""What all queues can do, over FoundationDB transactions.

Each operation runs in a transaction of its own, or takes part in the caller's when given
``tr``: then nothing is committed here, the operation sees the transaction's own writes,
and its effect is the caller's to commit, with whatever else that transaction writes.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable
from typing import Any, TypedDict

from fdbqueue.exceptions import ConfigurationError, InvalidInput
from fdbqueue.service.clock import now_us
from fdbqueue.service.codecs import Codec
from fdbqueue.service.consuming import Consuming
from fdbqueue.service.counters import Counts
from fdbqueue.service.items import LAST_MOMENT, Item, Priority, microseconds, moment
from fdbqueue.service.keyspace import ItemKeys
from fdbqueue.service.leases import duration
from fdbqueue.service.pushing import Entry, Pusher
from fdbqueue.service.reading import MAX_RETURNED_BYTES, MAX_VALUE_BYTES
from fdbqueue.service.recounting import recount
from fdbqueue.service.transactions import run_stamped

ORDERS = ("count", "commit")


class QueueOptions(TypedDict, total=False):
    """The options that all queues take."""

    codec: str | Codec
    name: str | None
    order: str
    contention: str
    claim_timeout_seconds: float
    max_attempts: int | None
    max_value_bytes: int


class Queue(Consuming):
    """What FIFO queues and priority queues have in common.

    Args:
        database: Anything with ``create_transaction()``: either engine's database, or one
            opened with the FoundationDB binding.
        keys: The keys of its items.
        codec: ``"json"``, ``"bytes"``, ``"tuple"``, or a :class:`Codec`.
        name: What errors call the queue.
        order: ``"count"`` or ``"commit"``.
        contention: ``"strict"`` or ``"relaxed"``.
        claim_timeout_seconds: When items go back that were taken for a popper by another
            and not collected.
        max_attempts: How many failed leases make an item dead; None for no limit.
        max_value_bytes: The longest value, once encoded.
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
        order: str = "count",
        contention: str = "strict",
        claim_timeout_seconds: float = 30,
        max_attempts: int | None = None,
        max_value_bytes: int = MAX_VALUE_BYTES,
    ) -> None:
        super().__init__(
            database,
            keys,
            codec=codec,
            name=name,
            contention=contention,
            claim_timeout_seconds=claim_timeout_seconds,
            max_attempts=max_attempts,
        )
        if order not in ORDERS:
            raise ConfigurationError(queue=self.name, order=order, allowed=", ".join(ORDERS))
        is_number = isinstance(max_value_bytes, int) and not isinstance(max_value_bytes, bool)
        if not is_number or not 1 <= max_value_bytes <= MAX_RETURNED_BYTES:
            raise ConfigurationError(
                queue=self.name,
                max_value_bytes=max_value_bytes,
                allowed=f"1 to {MAX_RETURNED_BYTES}",
            )
        self.order = order
        self.max_value_bytes = max_value_bytes
        self._pusher = Pusher(
            self._stock, in_commit_order=order == "commit", max_value_bytes=max_value_bytes
        )

    # Pushing

    def push(
        self,
        value: Any,
        priority: Any = None,
        *,
        delay: float | None = None,
        not_before: datetime.datetime | None = None,
        tr: Any = None,
    ) -> Item:
        """Put a value into the queue; the subclasses say where."""
        raise NotImplementedError

    def push_many(
        self,
        items: Iterable[Any],
        *,
        delay: float | None = None,
        not_before: datetime.datetime | None = None,
        tr: Any = None,
    ) -> int:
        """Put many into the queue; the subclasses say what they are."""
        raise NotImplementedError

    # Removing and putting right

    def clear(self, *, tr: Any = None) -> None:
        """Remove all items, in whatever state, and the counts, in one transaction.

        However many there are. Leases that are held are lost.
        """

        def remove(transaction: Any) -> None:
            transaction.clear_range(*self._keys.bounds())
            transaction.clear_range(*self._meta.bounds)

        self._transact(tr, remove)

    def recount(self) -> Counts:
        """Count the items, and put the counts right: foreign writers keep none.

        In transactions of a bounded length. Exact while others push and pop, as long as a
        FIFO queue, or each priority, can be read in one transaction (some 100,000 items);
        beyond that, what is pushed and popped meanwhile may be counted wrong by as much.

        Returns:
            The counts as they are then.
        """
        recount(self.database, self._stock)
        return self.counts()

    # What the subclasses share

    def _push(self, value: Any, priority: Priority | None, until: int | None, tr: Any) -> Item:
        entry = self._pusher.entry(value, priority, until)
        item = Item(
            value=value,
            priority=priority,
            id="",
            pushed_at=moment(entry.pushed_at) if self.codec.keeps_metadata else None,
            size_bytes=len(entry.value),
            state="ready" if until is None else "delayed",
            until=None if until is None else moment(until),
        )
        return self._placed(item, entry, tr)

    def _placed(self, item: Item, entry: Entry, tr: Any) -> Item:
        """Write an entry, and return its item with the id that its place gives it."""

        def put(transaction: Any) -> Any:
            return self._pusher.put(transaction, [entry])[0]

        if tr is None and self.order == "commit":
            place, stamp = run_stamped(self.database, put)
            place = place.stamped(stamp)
        else:
            place = self._transact(tr, put)
            if place.stamp_at is not None:
                return item
            place = place.data
        return dataclasses.replace(item, id=self._keys.item_id(place))

    def _push_all(self, entries: Iterable[Entry], tr: Any) -> int:
        if tr is not None:
            return len(self._pusher.put(tr, list(entries)))
        return self._pusher.put_all(self.database, entries)

    def _until(self, delay: float | None, not_before: datetime.datetime | None) -> int | None:
        """Return when a pushed item becomes ready, None for at once."""
        if delay is not None and not_before is not None:
            raise InvalidInput(queue=self.name, reason="either delay or not_before")
        if delay is not None:
            hidden = duration(self.name, "delay", delay)
            return now_us() + hidden if hidden else None
        if not_before is None:
            return None
        if not isinstance(not_before, datetime.datetime) or not_before.tzinfo is None:
            raise InvalidInput(
                queue=self.name, not_before=not_before, allowed="a datetime with its time zone"
            )
        until, now = microseconds(not_before), now_us()
        if until > LAST_MOMENT:
            raise InvalidInput(queue=self.name, not_before=not_before, allowed="up to year 9999")
        return until if until > now else None
