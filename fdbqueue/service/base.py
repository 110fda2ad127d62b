"""What all queues can do, over FoundationDB transactions.

Each operation runs in a transaction of its own, or takes part in the caller's when given
``tr``: then nothing is committed here, the operation sees the transaction's own writes,
and its effect is the caller's to commit, with whatever else that transaction writes.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypedDict

from fdbqueue.exceptions import ConfigurationError, InvalidInput, InvalidPriority
from fdbqueue.service import instrumentation
from fdbqueue.service.awaiting.pushing import AwaitedQueue
from fdbqueue.service.clock import now_us
from fdbqueue.service.codecs import Codec
from fdbqueue.service.consume.leases import duration
from fdbqueue.service.idempotency import Call, Once, Placed, packed_places, unpacked_places
from fdbqueue.service.items import LAST_MOMENT, Item, Priority, Push, microseconds, moment
from fdbqueue.service.maintenance.recount import recount
from fdbqueue.service.push import Beside, Entry, Pusher
from fdbqueue.service.storage.counts import Counts
from fdbqueue.service.storage.keys import ItemKeys
from fdbqueue.service.storage.reader import MAX_RETURNED_BYTES, MAX_VALUE_BYTES
from fdbqueue.service.transactions import run, run_stamped

ORDERS = ("count", "commit")

#: Pushes what was prepared, in the transaction it is given, or in one of its own for None.
Prepared = Callable[[Any], list[Item]]


class QueueOptions(TypedDict, total=False):
    """The options that all queues take."""

    codec: str | Codec
    name: str | None
    order: str
    contention: str
    claim_timeout_seconds: float
    max_attempts: int | None
    max_value_bytes: int


class _Pushed(NamedTuple):
    """What a push has written, or had before: then ``stamp`` is its commit's."""

    placed: list[Placed]
    stamp: bytes | None


def _is_new(pushed: _Pushed) -> bool:
    return pushed.stamp is None


class Queue(AwaitedQueue):
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
        once: Once | str | None = None,
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

    def push_batch(
        self, pushes: Sequence[Push], *, once: Once | str | None = None, tr: Any = None
    ) -> list[Item]:
        """Put values into the queue in one transaction: all of them in their order, or none.

        Args:
            pushes: The values, each with what belongs to it; of 5,000,000 bytes together
                once encoded, and of about 9,000,000 with their keys.
            once: An idempotency key. The same call under the same key returns the same
                items for a day, and pushes them once.
            tr: The transaction to take part in.

        Returns:
            The items as pushed.

        Raises:
            InvalidInput: The queue does not take one of them, ``context["index"]``; nothing
                was written.
            BatchTooLarge: They are too large together; nothing was written.
            IdempotencyKeyReused: The key was another call's; nothing was written.
            OutcomeUnknown: It is not known whether they were pushed; the same call under its
                key finds out.
        """
        return self.prepare_batch(pushes, once=once)(tr)

    def prepare(self, push: Push, *, once: Once | str | None = None) -> Prepared:
        """Check and encode a value now, to be pushed later.

        What becomes of the value's object meanwhile changes nothing. A delay, and the time
        at which the item says it was pushed, are counted from this call.

        Args:
            push: The value, with what belongs to it.
            once: An idempotency key, as for :meth:`push`.

        Returns:
            What pushes it when it is called, once: with the transaction to take part in, or
            None for one of its own. It returns a list of the one item.

        Raises:
            InvalidInput: The queue does not take it.
        """
        entries = [self._entry(push)]
        call = self._push_call(once, "push", [push], entries)
        return functools.partial(self._push, [push], entries, call)

    def prepare_batch(self, pushes: Sequence[Push], *, once: Once | str | None = None) -> Prepared:
        """Check and encode values now, to be pushed later in one transaction.

        As :meth:`prepare` and :meth:`push_batch` say.
        """
        pushes, entries = list(pushes), []
        for index, push in enumerate(pushes):
            try:
                entries.append(self._entry(push))
            except InvalidInput as error:
                raise type(error)(**error.context, index=index) from error
        self._pusher.check_batch(entries)
        if not entries and once is None:
            return lambda _: []
        call = self._push_call(once, "push_batch", pushes, entries)
        return functools.partial(self._push, pushes, entries, call)

    def _push_one(self, push: Push, once: Once | str | None, tr: Any) -> Item:
        return self.prepare(push, once=once)(tr)[0]

    def _push(
        self, pushes: Sequence[Push], entries: list[Entry], call: Call | None, tr: Any
    ) -> list[Item]:
        """Write entries in one transaction, and return their items."""

        def put(transaction: Any) -> _Pushed:
            return self._put(transaction, entries, call)

        def push() -> list[Item]:
            if self.order == "commit":
                pushed, stamp = run_stamped(self.database, put, wrote=_is_new)
            else:
                pushed, stamp = run(self.database, put, wrote=_is_new), b""
            return self._items(pushes, entries, pushed, stamp)

        if tr is not None:
            return self._items(pushes, entries, put(tr), b"")
        return instrumentation.observed("push", self.name, push)

    def _items(
        self, pushes: Sequence[Push], entries: list[Entry], pushed: _Pushed, stamp: bytes
    ) -> list[Item]:
        return [
            self._item(push, entry, placed, pushed.stamp or stamp)
            for push, entry, placed in zip(pushes, entries, pushed.placed, strict=True)
        ]

    def entry(self, value: Any, priority: Any = None) -> Entry:
        """Return an item to push with :meth:`push_entries`; refuse what does not fit.

        Raises:
            InvalidInput: As for :meth:`push`.
        """
        if priority is None and self.priority_type is not None:
            raise InvalidPriority(queue=self.name, priority=None, reason="it is not a number")
        return self._pusher.entry(value, self._coerce(priority))

    def push_entries(self, entries: Iterable[Entry], *, beside: Beside | None = None) -> int:
        """Push entries as :meth:`push_many` does, and something beside them in each transaction.

        Raises:
            PushInterrupted: As for :meth:`push_many`.
        """
        return self._pusher.put_all(self.database, entries, beside)

    def put_moved(self, tr: Any, entries: list[Entry]) -> None:
        """Write what comes from another queue, in the transaction that takes it from there."""
        self._pusher.put(tr, entries)

    # Removing and putting right

    def clear(self, *, tr: Any = None) -> None:
        """Remove all items, in whatever state, and the counts, in one transaction.

        However many there are. Leases that are held are lost.
        """

        def remove(transaction: Any) -> None:
            transaction.clear_range(*self._keys.bounds())
            transaction.clear_range(*self._meta.bounds)

        self._transact("clear", tr, remove)

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

    def sweep(self) -> int:
        """Remove the answers of calls under a key that have not been kept for an hour.

        By this client's clock, which may be an hour ahead of others'. In transactions of up
        to 200 answers each.

        Returns:
            How many were removed.
        """
        total = 0
        while count := run(self.database, self._answers.sweep, wrote=bool):
            total += count
        return total

    # What the subclasses share

    def _priority(self, given: Any) -> Priority | None:
        """Return the priority of a push in the queue's type, None where there is none."""
        raise NotImplementedError

    def _entry(self, push: Push) -> Entry:
        until = self._until(push.delay, push.not_before)
        return self._pusher.entry(push.value, self._priority(push.priority), until)

    def _push_call(
        self, once: Once | str | None, verb: str, pushes: Sequence[Push], entries: list[Entry]
    ) -> Call | None:
        """Return the call that pushes these; when it is made does not matter."""
        if once is None:
            return None
        described = (
            (
                self.codec.encode(push.value, 0, 0),
                entry.priority,
                None if push.delay is None else float(push.delay),
                push.not_before and microseconds(push.not_before),
            )
            for push, entry in zip(pushes, entries, strict=True)
        )
        return self._answers.call(once, verb, *described)

    def _put(self, tr: Any, entries: list[Entry], call: Call | None) -> _Pushed:
        """Write entries, unless the call was made before."""
        if call is not None:
            found = self._answers.recall(self._answers.ask(tr, call), call)
            if found is not None:
                return _Pushed(unpacked_places(found[0]), found[1])
        places = self._pusher.put(tr, entries)
        placed = [
            Placed(place, entry.pushed_at, entry.until)
            for place, entry in zip(places, entries, strict=True)
        ]
        if call is not None:
            in_commit_order = self.order == "commit"
            self._answers.keep(tr, call, packed_places(placed), stamped=in_commit_order)
        return _Pushed(placed, None)

    def _item(self, push: Push, entry: Entry, placed: Placed, stamp: bytes) -> Item:
        place, pushed_at, until = placed
        is_known = place.stamp_at is None or stamp
        return Item(
            value=push.value,
            priority=entry.priority,
            id=self._keys.item_id(place.stamped(stamp)) if is_known else "",
            pushed_at=moment(pushed_at) if self.codec.keeps_metadata else None,
            size_bytes=len(entry.value),
            state="ready" if until is None else "delayed",
            until=None if until is None else moment(until),
        )

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
