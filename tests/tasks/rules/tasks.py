"""The tests' Tasks, by the names of their functions, as a backend finds them by their paths.

Each is made when it is looked up, so that importing this module needs no backend.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fdbqueue.tasks.compat import Task, task
from tests.tasks.rules import journal
from tests.tasks.rules.functions import FUNCTIONS

_TAKES_CONTEXT = frozenset(
    {"fail_until", "look_at_context", "look_at_context_async", "look_at_result"}
)

journal.connect()


def task_of(name: str) -> Task[..., Any]:
    """Return the Task of a function, for the backend under test.

    Raises:
        InvalidTask: The backend refuses such tasks.
    """
    decorator: Any = task(takes_context=name in _TAKES_CONTEXT)  # type: ignore[call-overload]  # a literal
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
