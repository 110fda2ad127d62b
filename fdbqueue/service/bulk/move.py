"""Move items from one queue to another, each in one transaction, so exactly once.

An item keeps its value, its order and its attempts and, when the target stores them, its priority
and the time of its push. A FIFO queue has no priorities: an item that moves there keeps only its
order, and an item that moves from there to a priority queue needs a priority.
"""

from __future__ import annotations

import functools
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service.assembly import QueueParts
from fdbqueue.service.consume.consumer import take_in
from fdbqueue.service.storage.item_keys import End

#: Two values of ``Codec.holds``: such codecs have no values in common.
_INCOMPATIBLE_VALUES = {"json", "bytes"}


def check_move(source: QueueParts, target: QueueParts, priority: Any = None) -> None:
    """Refuse a move that is impossible for any item.

    Raises:
        InvalidInput: Both are one queue, or their databases differ; the codecs have no values
            in common; or a priority is missing, or given for a FIFO queue.
        InvalidPriority: The target cannot have that priority.
    """
    one, other = source.store, target.store
    names = {"queue": one.queue, "to": other.queue}
    if one.keys.subspace.key() == other.keys.subspace.key():
        raise InvalidInput(**names, reason="it is the same queue")
    if source.runner.database is not target.runner.database:
        raise InvalidInput(**names, reason="one transaction cannot reach both databases")
    if {one.codec.holds, other.codec.holds} == _INCOMPATIBLE_VALUES:
        codecs = f"{one.codec.name} to {other.codec.name}"
        raise InvalidInput(**names, reason=f"values are not converted from {codecs}")
    if not other.keys.has_priorities and priority is not None:
        raise InvalidInput(**names, reason="a FIFO queue takes no priority")
    if other.keys.has_priorities and not one.keys.has_priorities and priority is None:
        raise InvalidInput(**names, reason="the items have no priority, and need one")
    target.pusher.encoder.priorities.bound(priority)


#: How many items were moved, how long their values are; and of none, whether there may be some
#: behind the leases that had expired.
Moved = tuple[int, int, bool]


def move(
    tr: Transaction, source: QueueParts, target: QueueParts, count: int, end: End, priority: Any
) -> Moved:
    """Move items from one end.

    Args:
        tr: The transaction.
        source: The queue they come from.
        target: The queue they go to.
        count: Move at most this many.
        end: Which end.
        priority: The priority they get; None to keep their own.

    Raises:
        CorruptItem: One of them cannot be decoded; all stay where they are.
        InvalidInput: The target cannot hold one of them.
    """
    items, is_cut = take_in(source.taker, tr, source.consumer.pop_request(end, count, None))
    if items:
        target.pusher.put(tr, [target.pusher.encoder.of_moved(item, priority) for item in items])
    return len(items), sum([item.size_bytes for item in items]), is_cut


def move_now(
    source: QueueParts,
    target: QueueParts,
    count: int,
    end: End,
    priority: Any,
    tr: Transaction | None = None,
) -> tuple[int, int]:
    """Move items from one end, as :func:`move` does; return their number and their values' length.

    Without a transaction of the caller's, after one that has only buried expired leases there is
    another.
    """
    some = functools.partial(
        move, source=source, target=target, count=count, end=end, priority=priority
    )
    while True:
        moved, size_bytes, is_cut = source.runner.write("move", tr, some)
        if tr is not None or not is_cut:
            return moved, size_bytes
