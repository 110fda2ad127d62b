"""Django Tasks on fdbqueue: a backend and its worker.

    INSTALLED_APPS = [..., "fdbqueue", "fdbqueue.tasks"]
    TASKS = {"default": {"BACKEND": "fdbqueue.tasks.FdbQueueBackend"}}

    manage.py tasks_worker

It needs Django 6, or the package ``django-tasks`` with Django 5.2. Importing this package imports
neither.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fdbqueue.tasks.aborting import abort, abort_requested
    from fdbqueue.tasks.backend import FdbQueueBackend
    from fdbqueue.tasks.current import at_end, enqueue_at_end, enqueue_in
    from fdbqueue.tasks.definition import task
    from fdbqueue.tasks.exceptions import TaskAborted

__all__ = [
    "FdbQueueBackend",
    "TaskAborted",
    "abort",
    "abort_requested",
    "at_end",
    "enqueue_at_end",
    "enqueue_in",
    "task",
]

#: Public names, and the modules they are imported from when they are asked for.
_LAZY = {
    "FdbQueueBackend": "fdbqueue.tasks.backend",
    "TaskAborted": "fdbqueue.tasks.exceptions",
    "abort": "fdbqueue.tasks.aborting",
    "abort_requested": "fdbqueue.tasks.aborting",
    "at_end": "fdbqueue.tasks.current",
    "enqueue_at_end": "fdbqueue.tasks.current",
    "enqueue_in": "fdbqueue.tasks.current",
    "task": "fdbqueue.tasks.definition",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
