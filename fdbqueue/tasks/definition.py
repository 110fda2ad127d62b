"""Tasks with options of their own, and the decorator that makes them with every backend."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from fdbqueue.tasks.compat import DEFAULT_TASK_BACKEND_ALIAS, Task, task_backends
from fdbqueue.tasks.options import Backoff

P = ParamSpec("P")
T = TypeVar("T")


class _Backends:
    """Stands for the backoff of the backend."""

    def __repr__(self) -> str:
        return "BACKENDS"

    def __reduce__(self) -> str:
        return "BACKENDS"


#: The backoff of a task that has none of its own.
BACKENDS: Any = _Backends()
#: When a task gives up its unique key: when a worker takes it, or when it has ended.
UNIQUE_WHILE = ("ready", "pending")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FdbQueueTask(Task):  # type: ignore[type-arg]  # generic in the stubs alone
    """A task of this backend, with options that other backends do not have.

    Attributes:
        max_attempts: How many times it is run at most; None for what the backend says.
        backoff: When it runs again after a failure; :data:`BACKENDS` for what the backend says.
        unique_key: A text, or a function of the task's arguments that returns one or None. While
            a task of the same function has the same key, another one is not enqueued.
        unique_while: How long a task has its key: ``"ready"``, until a worker takes it, or
            ``"pending"``, until it has ended.
    """

    max_attempts: int | None = None
    backoff: Backoff | None = BACKENDS
    unique_key: str | Callable[..., str | None] | None = None
    unique_while: str = "pending"

    def using(self, **changes: Any) -> Any:
        """Return the task with other values for a call, its unique key among them.

        Raises:
            TypeError: ``max_attempts`` and ``backoff`` are the code's to say, not a call's.
        """
        if refused := changes.keys() & {"func", "max_attempts", "backoff", "takes_context"}:
            raise TypeError(f"using() does not take {', '.join(sorted(refused))}.")
        given = {name: value for name, value in changes.items() if value is not None}
        return dataclasses.replace(self, **given)

    def key_of(self, args: Any, kwargs: Any) -> str | None:
        """Return the unique key of a call, None where it has none."""
        key = self.unique_key(*args, **kwargs) if callable(self.unique_key) else self.unique_key
        return None if key is None else f"{self.module_path}:{key}"


@overload
def task(function: Callable[P, T], /) -> Task[P, T]: ...


@overload
def task(*, backend: str = ..., **options: Any) -> Callable[[Callable[P, T]], Task[P, T]]: ...


def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
    **options: Any,
) -> Any:
    """Make a task, as Django's decorator does, with the options of :class:`FdbQueueTask` too.

    Other backends, such as the immediate one in tests, run such a task without these options; one
    that has a class of tasks of its own is given that, without them. Django's own decorator takes
    them from Django 6.1 on.
    """

    def wrap(wrapped: Callable[..., Any]) -> Any:
        kind = task_backends[backend].task_class
        kind = FdbQueueTask if kind is Task else kind
        names = {field.name for field in dataclasses.fields(kind)}
        known = {name: value for name, value in options.items() if name not in _OURS - names}
        given = {"priority": 0, "queue_name": "default", "run_after": None, **known}
        return kind(func=wrapped, backend=backend, **given)

    return wrap if function is None else wrap(function)


_OURS = {field.name for field in dataclasses.fields(FdbQueueTask)} - {
    field.name for field in dataclasses.fields(Task)
}
