"""The tests' Tasks, by the names of their functions, as a backend finds them by their paths.

Each is made when it is looked up, so that importing this module needs no backend.
"""

from __future__ import annotations

from contextlib import contextmanager

from fdbqueue.tasks.compat import task
from tests.tasks.rules.functions import FUNCTIONS

_TAKES_CONTEXT = frozenset(
    {"fail_until", "look_at_context", "look_at_context_async", "look_at_result"}
)

_gone: set[str] = set()


def task_of(name):
    """Return the Task of a function, for the backend under test.

    Raises:
        InvalidTask: The backend refuses such tasks.
    """
    decorator = task(takes_context=name in _TAKES_CONTEXT)  # type: ignore[call-overload]  # a literal
    return decorator(FUNCTIONS[name])


@contextmanager
def without(name):
    """Let a function be gone, as after a deployment without it."""
    _gone.add(name)
    try:
        yield
    finally:
        _gone.discard(name)


def __getattr__(name):
    if name not in FUNCTIONS or name in _gone:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return task_of(name)
