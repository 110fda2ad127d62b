"""Django's Tasks API: ``django.tasks`` of Django 6, or its backport ``django_tasks`` for 5.2.

The one module that knows which. All others import from here, and ask here for a backend of ours.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from fdbqueue.exceptions import FdbQueueError

#: Whether Django has the API itself.
IN_DJANGO = importlib.util.find_spec("django.tasks") is not None

if TYPE_CHECKING or IN_DJANGO:
    from django.tasks import task, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.backends.immediate import ImmediateBackend
    from django.tasks.base import (
        DEFAULT_TASK_BACKEND_ALIAS,
        DEFAULT_TASK_QUEUE_NAME,
        TASK_REFRESH_ATTRS,
        Task,
        TaskContext,
        TaskError,
        TaskResult,
        TaskResultStatus,
    )
    from django.tasks.exceptions import (
        InvalidTask,
        InvalidTaskBackend,
        TaskResultDoesNotExist,
        TaskResultMismatch,
    )
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json
else:
    if importlib.util.find_spec("django_tasks") is None:
        raise ImportError(
            "This version of Django has no Tasks API: "
            "pip install 'django-tasks>=0.12', or install Django 6.0 or newer."
        )
    from django_tasks import task, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.backends.immediate import ImmediateBackend
    from django_tasks.base import (
        DEFAULT_TASK_BACKEND_ALIAS,
        DEFAULT_TASK_QUEUE_NAME,
        TASK_REFRESH_ATTRS,
        Task,
        TaskContext,
        TaskError,
        TaskResult,
        TaskResultStatus,
    )
    from django_tasks.exceptions import InvalidTaskBackendError as InvalidTaskBackend
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json

__all__ = [
    "DEFAULT_TASK_BACKEND_ALIAS",
    "DEFAULT_TASK_QUEUE_NAME",
    "IN_DJANGO",
    "TASK_REFRESH_ATTRS",
    "BaseTaskBackend",
    "ImmediateBackend",
    "InvalidTask",
    "InvalidTaskBackend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "backends",
    "normalize_json",
    "ours",
    "task",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]


def backends() -> list[Any]:
    """Return the backends of fdbqueue that ``TASKS`` has."""
    found = []
    for alias in task_backends:
        try:
            backend = task_backends[alias]
        except (ImproperlyConfigured, FdbQueueError):
            continue  # its own check says what is wrong
        if getattr(backend, "is_fdbqueue", False):
            found.append(backend)
    return found


def ours(alias: str, what_for: str, error: type[Exception]) -> Any:
    """Return the backend with an alias, which must be one of fdbqueue's.

    Args:
        alias: The alias.
        what_for: What it is for, as the message says it.
        error: What to raise if it is of another kind.

    Raises:
        InvalidTaskBackend: There is none.
    """
    backend = task_backends[alias]
    if not getattr(backend, "is_fdbqueue", False):
        text = f"The task backend {alias!r} is a {type(backend).__name__}"
        raise error(f"{text}: {what_for} it must be one of fdbqueue's.")
    return backend
