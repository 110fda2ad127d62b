"""Push what a request holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fdbqueue import service
from fdbqueue.api.values import from_json
from fdbqueue.exceptions import InvalidInput, InvalidPriority
from fdbqueue.service import Item, Queue

Entry = Mapping[str, Any]


def push_one(queue: Queue, entry: Entry) -> Item:
    """Push one entry.

    Args:
        queue: Where to.
        entry: Its ``value``, and its ``priority`` if it has one.

    Raises:
        InvalidInput: The queue does not take it; nothing was written.
    """
    value = from_json(entry["value"], queue)
    return queue.push(value, entry["priority"]) if "priority" in entry else queue.push(value)


def push_all(queue: Queue, entries: Sequence[Entry]) -> int:
    """Push entries in their order, in one transaction: all of them, or none.

    Returns:
        How many were pushed.

    Raises:
        InvalidInput: The queue does not take one of them, ``context["index"]``; nothing
            was written.
    """
    return service.run(queue.database, lambda tr: _put(queue, entries, tr))


def _put(queue: Queue, entries: Sequence[Entry], tr: Any) -> int:
    reached = 0

    def values() -> Iterator[Any]:
        nonlocal reached
        for reached, entry in enumerate(entries):  # noqa: B007  # read below
            yield _pushable(queue, entry)

    try:
        return queue.push_many(values(), tr=tr)
    except InvalidInput as error:
        raise type(error)(**error.context, index=reached) from error


def _pushable(queue: Queue, entry: Entry) -> Any:
    """Return what the queue's ``push_many`` takes for an entry."""
    value = from_json(entry["value"], queue)
    if queue.kind == "priority":
        return value, entry.get("priority", 0)
    if entry.get("priority") is not None:
        raise InvalidPriority(
            queue=queue.name,
            priority=entry["priority"],
            reason="a FIFO queue has no priorities",
        )
    return value
