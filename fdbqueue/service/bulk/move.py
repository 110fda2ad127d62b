"""Move items from one queue to another: in one transaction, so exactly once.

What goes over: the value, its order, and where the target has them its priority, when it was
pushed and its attempts. A FIFO queue has no priorities, so there the order is what is left
of them; a priority queue needs one for what comes from a FIFO queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fdbqueue.exceptions import (
    InvalidInput,
    InvalidPriority,
    InvalidValue,
    ValueTooLarge,
    message_of,
)
from fdbqueue.service.clock import now_us
from fdbqueue.service.items import Item, Priority, microseconds
from fdbqueue.service.push import Entry
from fdbqueue.service.storage.keys import random_suffix

if TYPE_CHECKING:
    from fdbqueue.service.base import Queue

#: No value of the one is a value of the other.
_STRANGERS = frozenset({("json", "bytes"), ("bytes", "json")})


def check_move(source: Queue, target: Queue, priority: Any = None) -> None:
    """Refuse a move that makes no sense, whatever the items are.

    Raises:
        InvalidInput: It is one queue, or two of different databases; the codecs have no
            value in common; or the priority is missing, or too much.
        InvalidPriority: The target cannot have that priority.
    """
    names = {"queue": source.name, "to": target.name}
    if source.subspace.key() == target.subspace.key():
        raise InvalidInput(**names, reason="it is the same queue")
    if source.database is not target.database:
        raise InvalidInput(**names, reason="one transaction cannot reach both databases")
    if (source.codec.name, target.codec.name) in _STRANGERS:
        codecs = f"{source.codec.name} to {target.codec.name}"
        raise InvalidInput(**names, reason=f"values are not converted from {codecs}")
    if target.kind == "fifo" and priority is not None:
        raise InvalidInput(**names, reason="a FIFO queue takes no priority")
    if (source.kind, target.kind) == ("fifo", "priority") and priority is None:
        raise InvalidInput(**names, reason="the items have no priority, and need one")
    if priority is not None:
        target.coerce_priority(priority)


def entry_for(target: Queue, item: Item, priority: Any) -> Entry:
    """Return what to write into the target for an item.

    Raises:
        InvalidInput: The target cannot hold its value or its priority; it names the item.
    """
    try:
        return Entry(
            _encoded(target, item),
            _priority(target, item if priority is None else priority),
            random_suffix(),
            _pushed_at(item),
        )
    except InvalidInput as error:
        raise type(error)(**{**error.context, "id": item.id}) from error


def _encoded(target: Queue, item: Item) -> bytes:
    try:
        data = target.codec.encode(item.value, _pushed_at(item), item.attempts)
    except (ValueError, TypeError) as error:
        codec = target.codec.name
        raise InvalidValue(queue=target.name, codec=codec, reason=message_of(error)) from error
    if len(data) > target.max_value_bytes:
        raise ValueTooLarge(
            queue=target.name, size_bytes=len(data), limit_bytes=target.max_value_bytes
        )
    return data


def _priority(target: Queue, given: Any) -> Priority | None:
    if target.kind == "fifo":
        return None
    priority = given.priority if isinstance(given, Item) else given
    if priority is None:
        raise InvalidPriority(queue=target.name, priority=None, reason="it is not a number")
    return target.coerce_priority(priority)


def _pushed_at(item: Item) -> int:
    return now_us() if item.pushed_at is None else microseconds(item.pushed_at)
