"""The task that runs here: what it may ask for, and what is to be done with its end."""

from __future__ import annotations

import contextvars
import dataclasses
import time
from collections.abc import Callable
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.tasks.compat import TaskContext, TaskResult, task_backends
from fdbqueue.tasks.results import new_result

#: A task that asks again and again whether it is aborted reads about once in this time.
_LOOK_SECONDS = 1.0

_running: contextvars.ContextVar[Running | None] = contextvars.ContextVar("running", default=None)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FdbQueueTaskContext(TaskContext):  # type: ignore[misc,type-arg]  # as the stubs have it
    """What a task with ``takes_context`` is given, with more than the API demands."""

    @property
    def abort_requested(self) -> bool:
        """Whether somebody has asked for the end of this task; looks about once a second."""
        running = _running.get()
        return running is not None and running.abort_requested()


class Running:
    """A task that a worker runs.

    Args:
        backend: Its backend.
        result: Its result.

    Attributes:
        at_end: What is to be done in the transaction of its end.
    """

    def __init__(self, backend: Any, result: TaskResult[..., Any]) -> None:
        self._backend = backend
        self.result = result
        self.at_end: list[Callable[[Transaction], Any]] = []
        self._looked_at = float("-inf")
        self._is_aborted = False

    def abort_requested(self) -> bool:
        """Tell whether somebody has asked for the end of this task."""
        now = time.monotonic()
        if not self._is_aborted and now - self._looked_at > _LOOK_SECONDS:
            found = self._backend.found(self.result.id)
            self._is_aborted = found is not None and bool(found.record.get("abort"))
            self._looked_at = time.monotonic()
        return self._is_aborted


def running() -> Running | None:
    """Return the task that runs in this thread or coroutine, None where none does."""
    return _running.get()


def set_running(current: Running | None) -> contextvars.Token[Running | None]:
    """Say which task runs here."""
    return _running.set(current)


def at_end(function: Callable[[Transaction], Any]) -> None:
    """Do something in the transaction in which this task ends successfully: exactly once.

    What the function writes, in queues or anywhere in the same database, is committed together with
    the task's result, or not at all; where an attempt fails, it is dropped. The functions of a
    task are called in their order, behind the task; they may be called again after a conflict.
    Where one raises, the attempt has failed.

    Args:
        function: Called with the transaction.

    Raises:
        RuntimeError: No task runs here.
    """
    _here().at_end.append(function)


def enqueue_in(tr: Transaction, task: Any, *args: Any, **kwargs: Any) -> TaskResult[..., Any]:
    """Enqueue a task in a transaction of the caller's, who commits it.

    Args:
        tr: The transaction, of the database that the queues are in.
        task: The task, of a backend of this kind.
        args, kwargs: Its arguments.

    Returns:
        Its result, or that of the task that has its unique key. ``task_enqueued`` is not sent.

    Raises:
        InvalidTask, TypeError: As for ``enqueue``; nothing was written.
    """
    backend, result, push = _prepared(task, args, kwargs)
    (item,) = push(tr)
    found: TaskResult[..., Any] = backend.existing(item, result, tr) if item.existing else result
    return found


def enqueue_at_end(task: Any, *args: Any, **kwargs: Any) -> TaskResult[..., Any]:
    """Enqueue a task together with the successful end of this one: both, or neither.

    Args:
        task: The task, of a backend of this kind on the same database.
        args, kwargs: Its arguments.

    Returns:
        Its result; nothing is stored of it before this task has ended.

    Raises:
        RuntimeError: No task runs here.
        InvalidTask, TypeError: As for ``enqueue``.
    """
    current = _here()
    _, result, push = _prepared(task, args, kwargs)
    current.at_end.append(push)
    return result


def _here() -> Running:
    current = _running.get()
    if current is None:
        raise RuntimeError("No task runs here: this is for tasks that a tasks_worker runs.")
    return current


def _prepared(task: Any, args: Any, kwargs: Any) -> tuple[Any, TaskResult[..., Any], Any]:
    """Return the backend of a task, its result, and what pushes it."""
    backend: Any = task_backends[task.backend]
    backend.validate_task(task)
    result = new_result(task, args, kwargs, task.backend)
    return backend, result, backend.prepare(result)
