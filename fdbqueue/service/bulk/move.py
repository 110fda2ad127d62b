"""Move items from one queue to another: in one transaction, so exactly once.

What goes over: the value, its order, and where the target has them its priority, when it was
pushed and its attempts. A FIFO queue has no priorities, so an item that moves there keeps its
order alone; an item that moves from there to a priority queue needs a priority.
"""

from __future__ import annotations

from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service.consume.round import take
from fdbqueue.service.parts import QueueParts
from fdbqueue.service.storage.reader import End

#: What codecs hold that have no value in common.
_STRANGERS = {"json", "bytes"}


def check_move(source: QueueParts, target: QueueParts, priority: Any = None) -> None:
    """Refuse a move that makes no sense, whatever the items are.

    Raises:
        InvalidInput: It is one queue, or two of different databases; the codecs have no
            value in common; or the priority is missing, or too much.
        InvalidPriority: The target cannot have that priority.
    """
    one, other = source.store, target.store
    names = {"queue": one.queue, "to": other.queue}
    if one.keys.subspace.key() == other.keys.subspace.key():
        raise InvalidInput(**names, reason="it is the same queue")
    if source.runner.database is not target.runner.database:
        raise InvalidInput(**names, reason="one transaction cannot reach both databases")
    if {one.codec.holds, other.codec.holds} == _STRANGERS:
        codecs = f"{one.codec.name} to {other.codec.name}"
        raise InvalidInput(**names, reason=f"values are not converted from {codecs}")
    if not other.keys.has_priorities and priority is not None:
        raise InvalidInput(**names, reason="a FIFO queue takes no priority")
    if other.keys.has_priorities and not one.keys.has_priorities and priority is None:
        raise InvalidInput(**names, reason="the items have no priority, and need one")
    target.writer.encoder.priorities.bound(priority)


def move(
    tr: Transaction, source: QueueParts, target: QueueParts, count: int, end: End, priority: Any
) -> tuple[int, int]:
    """Move items from one end, and return how many and how long their values are.

    Args:
        tr: The transaction.
        source: The queue they come from.
        target: The queue they go to.
        count: The most items.
        end: Which end.
        priority: The priority of all of them; None for their own.

    Raises:
        CorruptItem: One of them cannot be decoded; all stay where they are.
        InvalidInput: The target cannot hold one of them.
    """
    items = take(source.taker, tr, source.consumer.pop(end, count, None))
    if items:
        target.writer.put(tr, [target.writer.encoder.of_moved(item, priority) for item in items])
    return len(items), sum([item.size_bytes for item in items])
