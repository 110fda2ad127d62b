"""Ask the queue's codec to convert the values of requests; nothing per codec lives here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fdbqueue.exceptions import InvalidValue, message_of
from fdbqueue.service import Push, Queue


def from_json(value: Any, queue: Queue) -> Any:
    """Return the value to push into a queue for a JSON value.

    Raises:
        InvalidValue: The queue's codec has no value for it.
    """
    try:
        return queue.codec.from_json(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidValue(
            queue=queue.name, codec=queue.codec.name, reason=message_of(error)
        ) from error


def pushes_of(queue: Queue, entries: Sequence[Mapping[str, Any]]) -> list[Push]:
    """Return the pushes for the checked entries of a request.

    Args:
        queue: The queue to push to.
        entries: The arguments of each push.

    Raises:
        InvalidValue: The queue's codec has no value for one; the context has its ``index``.
    """
    pushes = []
    for index, entry in enumerate(entries):
        try:
            pushes.append(Push(**{**entry, "value": from_json(entry["value"], queue)}))
        except InvalidValue as error:
            raise InvalidValue(**error.context, index=index) from error
    return pushes
