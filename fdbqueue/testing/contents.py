"""What is in a queue."""

from __future__ import annotations

from typing import Any

from fdbqueue import conf
from fdbqueue.service import Queue
from fdbqueue.service.storage.reader import End


def values(queue: Queue | str, *, state: str = "ready", end: End = "min") -> list[Any]:
    """Return the values of all items, in the order in which they would be popped.

    Args:
        queue: The queue, or its name in the setting.
        state: ``"ready"``, ``"leased"``, ``"delayed"`` or ``"dead"``.
        end: Which end the order starts from.

    Raises:
        QueueNotFound: The setting has no such queue.
    """
    found = conf.catalog().queue(queue) if isinstance(queue, str) else queue
    return [item.value for item in found.iterate(state=state, end=end)]
