"""Tools for a project's own tests: empty queues for each test.

    with fdbqueue.testing.empty_queues():
        sign_up("a@example.org")
        assert fdbqueue.testing.values("mail") == [{"to": "a@example.org"}]

``empty_queues`` is a context manager, and a decorator of functions and of test cases. It does not
need pytest; ``fdbqueue.testing.pytest_plugin`` has fixtures for it.
"""

from __future__ import annotations

from typing import Any

from fdbqueue import conf
from fdbqueue.service import End, Queue
from fdbqueue.testing.isolation import EmptyQueuesMixin, empty_queues

__all__ = [
    "EmptyQueuesMixin",
    "empty_queues",
    "values",
]


def values(queue: Queue | str, *, state: str = "ready", end: End = "min") -> list[Any]:
    """Return the values of all items, in the order in which they would be popped.

    Args:
        queue: The queue, or its name in the setting.
        state: ``"ready"``, ``"leased"``, ``"delayed"`` or ``"dead"``.
        end: The end that the order starts from.

    Raises:
        QueueNotFound: The setting has no such queue.
    """
    found = conf.queue(queue) if isinstance(queue, str) else queue
    return [item.value for item in found.iterate(state=state, end=end)]
