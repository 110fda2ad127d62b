"""The two kinds of queues: the recipes "Queues" and "Priority Queues"."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fdb.subspace_impl import Subspace

from fdbqueue.exceptions import InvalidInput, InvalidPriority
from fdbqueue.service.base import Queue, QueueOptions
from fdbqueue.service.idempotency import Once
from fdbqueue.service.items import NOT_GIVEN, Item, Priority, Push
from fdbqueue.service.priorities import PriorityType
from fdbqueue.service.push import Entry
from fdbqueue.service.storage.keys import FifoKeys, PriorityKeys

if TYPE_CHECKING:
    from typing_extensions import Unpack


class FifoQueue(Queue):
    """A queue whose items are taken in the order they were pushed in.

    Pushes never conflict. Those that ran at the same moment have no order among
    themselves. Recipe: "Queues".

    Args:
        database: Anything with ``create_transaction()``.
        subspace: The queue's own place; items are at ``subspace[index][random]``.
        codec: ``"json"``, ``"bytes"``, ``"tuple"``, or a :class:`Codec`.
        order: ``"count"``, as in the recipes, or ``"commit"``: strictly in the order the
            pushes are committed in, with no read before a push; but an item's id is known
            only after the commit, and what a transaction has pushed it cannot read.
        contention: ``"strict"``, or ``"relaxed"``: a pop takes one of the first 100 items
            at random, so that poppers rarely conflict.
        claim_timeout_seconds: When items go back that one popper took for another who died
            before collecting them; 0.1 to 86,400.
        max_attempts: How many failed leases send an item to the dead letters; None for no
            limit.
        max_value_bytes: The longest value, once encoded. Over 100,000, up to 5,000,000,
            longer ones are split over several keys; the recipes' readers see only the first
            part of those.
        name: What errors call the queue.

    Raises:
        ConfigurationError: An option is wrong.
    """

    kind = "fifo"

    def __init__(
        self,
        database: Any,
        subspace: Subspace,
        **options: Unpack[QueueOptions],
    ) -> None:
        super().__init__(database, FifoKeys(subspace), **options)

    def _coerce(self, priority: Any) -> Priority | None:
        if priority is not None:
            raise InvalidPriority(
                queue=self.name, priority=priority, reason="a FIFO queue has no priorities"
            )
        return None

    def _priority(self, given: Any) -> Priority | None:
        return self._coerce(None if given is NOT_GIVEN else given)

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
        """Put a value at the end of the queue.

        Args:
            value: What the codec can encode, in up to ``max_value_bytes``.
            priority: None; a FIFO queue has no priorities.
            delay: For how many seconds to hide it. Then it comes to the place that this push
                gave it, once somebody consumes.
            not_before: When to show it, with its time zone, in place of a delay.
            once: An idempotency key. The same call under the same key returns the same item
                for a day, and pushes it once.
            tr: The transaction to take part in.

        Returns:
            The item as pushed.

        Raises:
            InvalidValue: The codec cannot encode the value; nothing was written.
            ValueTooLarge: The encoded value is too long; nothing was written.
            IdempotencyKeyReused: The key was another call's; nothing was written.
            OutcomeUnknown: It is not known whether the item was pushed.
        """
        return self._push_one(Push(value, priority, delay, not_before), once, tr)

    def push_many(
        self,
        items: Iterable[Any],
        *,
        delay: float | None = None,
        not_before: datetime.datetime | None = None,
        tr: Any = None,
    ) -> int:
        """Put values at the end of the queue, in their order.

        They go in as few transactions as FoundationDB's limits allow, each all or nothing;
        others may push in between. The values are read as they are needed, so there may
        be any number.

        Args:
            items: The values, in order.
            delay: For how many seconds to hide them, as for :meth:`push`.
            not_before: When to show them.
            tr: The transaction to take part in; then all go into that one, and its limits
                (10,000,000 bytes) are the caller's to keep.

        Returns:
            How many were pushed.

        Raises:
            PushInterrupted: Something failed when some were in the queue already, or a
                commit's outcome is unknown; the context says how many are in.
            InvalidValue, ValueTooLarge: As for :meth:`push`, when none was.
        """
        until = self._until(delay, not_before)
        return self._push_all((self._pusher.entry(value, None, until) for value in items), tr)


class PriorityQueue(Queue):
    """A queue whose items are taken from either end of their priorities.

    ``pop_min`` takes the lowest priority and ``pop_max`` the highest; among equals
    ``pop_min`` takes the earliest pushed and ``pop_max`` the latest: the two ends of one
    order. Pushes never conflict. Recipe: "Priority Queues".

    Args:
        database: Anything with ``create_transaction()``.
        subspace: The queue's own place; items are at ``subspace[priority][count][random]``.
        codec: ``"json"``, ``"bytes"``, ``"tuple"``, or a :class:`Codec`.
        priority_type: ``"int"`` or ``"float"``; all priorities are kept in this type.
        order: ``"count"``, as in the recipes, or ``"commit"``: strictly in the order the
            pushes are committed in, with no read before a push; but an item's id is known
            only after the commit, and what a transaction has pushed it cannot read.
        contention: ``"strict"``, or ``"relaxed"``: a pop takes one of the first 100 items
            at random, so that poppers rarely conflict.
        claim_timeout_seconds: When items go back that one popper took for another who died
            before collecting them; 0.1 to 86,400.
        max_attempts: How many failed leases send an item to the dead letters; None for no
            limit.
        max_value_bytes: The longest value, once encoded. Over 100,000, up to 5,000,000,
            longer ones are split over several keys; the recipes' readers see only the first
            part of those.
        name: What errors call the queue.

    Raises:
        ConfigurationError: An option is wrong.
    """

    kind = "priority"

    def __init__(
        self,
        database: Any,
        subspace: Subspace,
        *,
        priority_type: str | type = "int",
        **options: Unpack[QueueOptions],
    ) -> None:
        super().__init__(database, PriorityKeys(subspace), **options)
        self._priorities = PriorityType(priority_type, self.name)
        self.priority_type = self._priorities.name

    def push(
        self,
        value: Any,
        priority: Any = 0,
        *,
        delay: float | None = None,
        not_before: datetime.datetime | None = None,
        once: Once | str | None = None,
        tr: Any = None,
    ) -> Item:
        """Put a value behind those of its priority.

        Args:
            value: What the codec can encode, in up to ``max_value_bytes``.
            priority: A number that fits the queue's priority type: no NaN, infinity or
                boolean, no integer beyond 64 bits, no fraction in an int queue.
            delay: For how many seconds to hide it. Then it comes to the place that this push
                gave it, once somebody consumes.
            not_before: When to show it, with its time zone, in place of a delay.
            once: An idempotency key. The same call under the same key returns the same item
                for a day, and pushes it once.
            tr: The transaction to take part in.

        Returns:
            The item as pushed, its priority in the queue's type.

        Raises:
            InvalidPriority: The priority does not fit; nothing was written.
            InvalidValue: The codec cannot encode the value; nothing was written.
            ValueTooLarge: The encoded value is too long; nothing was written.
            IdempotencyKeyReused: The key was another call's; nothing was written.
            OutcomeUnknown: It is not known whether the item was pushed.
        """
        return self._push_one(Push(value, priority, delay, not_before), once, tr)

    def push_many(
        self,
        items: Iterable[tuple[Any, Any]],
        *,
        delay: float | None = None,
        not_before: datetime.datetime | None = None,
        tr: Any = None,
    ) -> int:
        """Put values behind those of their priorities, in their order.

        Args:
            items: ``(value, priority)`` pairs, in order.
            delay: For how many seconds to hide them, as for :meth:`push`.
            not_before: When to show them.
            tr: The transaction to take part in.

        Returns:
            How many were pushed.

        Raises:
            PushInterrupted: Something failed when some were in the queue already, or a
                commit's outcome is unknown; the context says how many are in.
            InvalidInput: Something is no pair, or does not fit, when none was pushed.

        The rest is as for :meth:`FifoQueue.push_many`.
        """
        until = self._until(delay, not_before)
        return self._push_all((self._pair(pair, until) for pair in items), tr)

    def _pair(self, pair: tuple[Any, Any], until: int | None) -> Entry:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidInput(queue=self.name, reason="(value, priority) pairs are needed")
        value, priority = pair
        return self._pusher.entry(value, self._priorities.coerce(priority), until)

    def _coerce(self, priority: Any) -> Priority | None:
        return None if priority is None else self._priorities.coerce(priority)

    def _priority(self, given: Any) -> Priority | None:
        return self._priorities.coerce(0 if given is NOT_GIVEN else given)
