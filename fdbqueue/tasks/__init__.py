"""Django Tasks on fdbqueue: a backend and its worker.

    INSTALLED_APPS = [..., "fdbqueue", "fdbqueue.tasks"]
    TASKS = {"default": {"BACKEND": "fdbqueue.tasks.FdbQueueBackend"}}

    manage.py tasks_worker

It needs Django 6, or the package ``django-tasks`` with Django 5.2. Importing this package imports
neither.

The way of a task:

1. ``backend`` checks it, and pushes its call together with a pending record (``records``): one
   commit. The item's state is the task's status until it has ended.
2. ``management/commands/tasks_worker`` starts a ``task_worker``, or several
   (``management/processes``). It leases items from its ``source``, whose page is the protocol of
   leases and ends, and has the ``runner`` call each function. What the function may ask for
   meanwhile is in ``running``; what ends one that takes too long is in ``time_limits``.
3. ``ends`` decides how the attempt ends, notes it, and commits it; the worker then logs it, and
   calls the receivers of ``task_finished``.
4. ``states`` makes of item and record the state of the task, and ``results`` of that what
   ``get_result`` returns.

``many`` enqueues one task with many arguments. ``notes`` is what a task notes while it runs: its
progress and metadata. ``groups`` is what projects call for groups and chains, and what looks after
them; ``trees`` where these are stored and how they move on, ``group_results`` how they are shown.

Beside its tasks each worker enqueues what the ``schedules`` say, and prunes what ended long ago
(``housekeeping``). ``options`` has the options of backends and tasks; add one there. ``checks`` has
the system checks, and all their ids. A queue of limited tasks is a part of another, its *home*:
``key_limit_queues`` names it, and the catalog knows whose it is (``Catalog.home``). ``compat``
alone knows which package has Django's API. ``pages`` is how tasks read in the pages, ``metrics``
what Prometheus is told.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fdbqueue.tasks.aborts import abort, is_aborted
    from fdbqueue.tasks.backend import FdbQueueBackend
    from fdbqueue.tasks.exceptions import Retry, TaskAborted, TaskTimeout
    from fdbqueue.tasks.group_results import GroupResult, group_result
    from fdbqueue.tasks.groups import abort_group, call, chain, group
    from fdbqueue.tasks.options import task
    from fdbqueue.tasks.running import at_end, enqueue_at_end, enqueue_in

__all__ = [
    "FdbQueueBackend",
    "GroupResult",
    "Retry",
    "TaskAborted",
    "TaskTimeout",
    "abort",
    "abort_group",
    "at_end",
    "call",
    "chain",
    "enqueue_at_end",
    "enqueue_in",
    "group",
    "group_result",
    "is_aborted",
    "task",
]

#: Public names, and the modules they are imported from when they are asked for.
_LAZY = {
    "FdbQueueBackend": "fdbqueue.tasks.backend",
    "GroupResult": "fdbqueue.tasks.group_results",
    "Retry": "fdbqueue.tasks.exceptions",
    "TaskAborted": "fdbqueue.tasks.exceptions",
    "TaskTimeout": "fdbqueue.tasks.exceptions",
    "abort": "fdbqueue.tasks.aborts",
    "abort_group": "fdbqueue.tasks.groups",
    "is_aborted": "fdbqueue.tasks.aborts",
    "at_end": "fdbqueue.tasks.running",
    "call": "fdbqueue.tasks.groups",
    "chain": "fdbqueue.tasks.groups",
    "enqueue_at_end": "fdbqueue.tasks.running",
    "enqueue_in": "fdbqueue.tasks.running",
    "group": "fdbqueue.tasks.groups",
    "group_result": "fdbqueue.tasks.group_results",
    "task": "fdbqueue.tasks.options",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
