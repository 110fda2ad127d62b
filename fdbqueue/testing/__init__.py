"""What a project's own tests need: empty queues for each test, and an engine that fails.

    with fdbqueue.testing.empty_queues():
        sign_up("a@example.org")
        assert fdbqueue.testing.values("mail") == [{"to": "a@example.org"}]

``empty_queues``, ``unknown_outcome``, ``engine_unavailable`` and ``time_ahead`` are context
managers, and decorators of functions and of test cases. Nothing here needs pytest;
``fdbqueue.testing.pytest_plugin`` is for those who have it.
"""

from __future__ import annotations

from fdbqueue.testing.contents import values
from fdbqueue.testing.faults import FaultyDatabase
from fdbqueue.testing.injection import engine_unavailable, unknown_outcome
from fdbqueue.testing.isolation import EmptyQueuesMixin, empty_queues
from fdbqueue.testing.time import time_ahead

__all__ = [
    "EmptyQueuesMixin",
    "FaultyDatabase",
    "empty_queues",
    "engine_unavailable",
    "time_ahead",
    "unknown_outcome",
    "values",
]
