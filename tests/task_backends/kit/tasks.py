"""The kit's Tasks, by the names of their functions, as a backend finds them by their paths.

Each is made when it is looked up, for the alias of the backend under test: importing this module
needs no backend of any name. A worker process takes the alias from the environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fdbqueue.tasks.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    DEFAULT_TASK_QUEUE_NAME,
    Task,
    task,
    task_backends,
)
from tests.task_backends.kit import journal
from tests.task_backends.kit.functions import FUNCTIONS

_TAKES_CONTEXT = frozenset(
    {"fail_until", "look_at_context", "look_at_context_async", "look_at_result"}
)

journal.connect()


def task_of(name: str) -> Task[..., Any]:
    """Return the Task of a function, for the backend under test, in a queue that it has.

    Raises:
        InvalidTask: The backend refuses such tasks.
    """
    alias = os.environ.get(journal.ALIAS_VARIABLE, DEFAULT_TASK_BACKEND_ALIAS)
    queues = task_backends[alias].queues
    is_there = not queues or DEFAULT_TASK_QUEUE_NAME in queues
    decorator: Any = task(  # type: ignore[call-overload]  # they take a literal takes_context
        backend=alias,
        queue_name=DEFAULT_TASK_QUEUE_NAME if is_there else min(queues),
        takes_context=name in _TAKES_CONTEXT,
    )
    return decorator(FUNCTIONS[name])


@contextmanager
def without(name: str) -> Iterator[None]:
    """Let a function be gone in all processes, as after a deployment without it."""
    marker = journal.folder() / f"gone-{name}"
    marker.touch()
    try:
        yield
    finally:
        marker.unlink()


def _is_gone(name: str) -> bool:
    return journal.FOLDER_VARIABLE in os.environ and (journal.folder() / f"gone-{name}").exists()


def __getattr__(name: str) -> Task[..., Any]:
    if name not in FUNCTIONS or _is_gone(name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return task_of(name)
