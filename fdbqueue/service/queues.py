"""The two kinds of queues: the recipes "Queues" and "Priority Queues"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fdb.subspace_impl import Subspace

from fdbqueue.exceptions import InvalidInput, InvalidPriority
from fdbqueue.service.base import Queue
from fdbqueue.service.codecs import Codec
from fdbqueue.service.items import Item, Priority
from fdbqueue.service.keyspace import FifoKeys, PriorityKeys
from fdbqueue.service.priorities import PriorityType
from fdbqueue.service.pushing import Entry


class FifoQueue(Queue):
    """A queue whose items are taken in the order they were pushed in.

    Pushes never conflict. Those that ran at the same moment have no order among
    themselves. Recipe: "Queues".

    Args:
        database: Anything with ``create_transaction()``.
        subspace: The queue's own place; items are at ``subspace[index][random]``.
        codec: ``"json"``, ``"bytes"``, ``"tuple"``, or a :class:`Codec`.
        name: What errors call the queue.
    """

    kind = "fifo"

    def __init__(
        self,
        database: Any,
        subspace: Subspace,
        *,
        codec: str | Codec = "json",
        name: str | None = None,
    ) -> None:
        super().__init__(database, FifoKeys(subspace), codec=codec, name=name)

    def _coerce(self, priority: Any) -> Priority | None:
        if priority is not None:
            raise InvalidPriority(
                queue=self.name, priority=priority, reason="a FIFO queue has no priorities"
            )
        return None

    def push(self, value: Any, priority: Any = None, *, tr: Any = None) -> Item:
        """Put a value at the end of the queue.

        Args:
            value: What the codec can encode, in up to 100,000 bytes.
            priority: None; a FIFO queue has no priorities.
            tr: The transaction to take part in.

        Returns:
            The item as pushed.

        Raises:
            InvalidValue: The codec cannot encode the value; nothing was written.
            ValueTooLarge: The encoded value is too long; nothing was written.
            OutcomeUnknown: It is not known whether the item was pushed.
        """
        return self._push(value, self._coerce(priority), tr)

    def push_many(self, items: Iterable[Any], *, tr: Any = None) -> int:
        """Put values at the end of the queue, in their order.

        They go in as few transactions as FoundationDB's limits allow, each all or nothing;
        others may push in between. The values are read as they are needed, so there may
        be any number.

        Args:
            items: The values, in order.
            tr: The transaction to take part in; then all go into that one, and its limits
                (10,000,000 bytes) are the caller's to keep.

        Returns:
            How many were pushed.

        Raises:
            PushInterrupted: Something failed when some were in the queue already, or a
                commit's outcome is unknown; the context says how many are in.
            InvalidValue, ValueTooLarge: As for :meth:`push`, when none was.
        """
        return self._push_all((self._pusher.entry(value, None) for value in items), tr)


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
        name: What errors call the queue.
    """

    kind = "priority"

    def __init__(
        self,
        database: Any,
        subspace: Subspace,
        *,
        codec: str | Codec = "json",
        priority_type: str | type = "int",
        name: str | None = None,
    ) -> None:
        super().__init__(database, PriorityKeys(subspace), codec=codec, name=name)
        self._priorities = PriorityType(priority_type, self.name)
        self.priority_type = self._priorities.name

    def push(self, value: Any, priority: Any = 0, *, tr: Any = None) -> Item:
        """Put a value behind those of its priority.

        Args:
            value: What the codec can encode, in up to 100,000 bytes.
            priority: A number that fits the queue's priority type: no NaN, infinity or
                boolean, no integer beyond 64 bits, no fraction in an int queue.
            tr: The transaction to take part in.

        Returns:
            The item as pushed, its priority in the queue's type.

        Raises:
            InvalidPriority: The priority does not fit; nothing was written.
            InvalidValue: The codec cannot encode the value; nothing was written.
            ValueTooLarge: The encoded value is too long; nothing was written.
            OutcomeUnknown: It is not known whether the item was pushed.
        """
        return self._push(value, self._priorities.coerce(priority), tr)

    def push_many(self, items: Iterable[tuple[Any, Any]], *, tr: Any = None) -> int:
        """Put values behind those of their priorities, in their order.

        Args:
            items: ``(value, priority)`` pairs, in order.
            tr: The transaction to take part in.

        Returns:
            How many were pushed.

        Raises:
            PushInterrupted: Something failed when some were in the queue already, or a
                commit's outcome is unknown; the context says how many are in.
            InvalidInput: Something is no pair, or does not fit, when none was pushed.

        The rest is as for :meth:`FifoQueue.push_many`.
        """
        return self._push_all((self._pair(pair) for pair in items), tr)

    def _pair(self, pair: tuple[Any, Any]) -> Entry:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidInput(queue=self.name, reason="(value, priority) pairs are needed")
        value, priority = pair
        return self._pusher.entry(value, self._priorities.coerce(priority))

    def _coerce(self, priority: Any) -> Priority | None:
        return None if priority is None else self._priorities.coerce(priority)
