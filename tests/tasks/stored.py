"""What is stored of tasks, for tests that look at it, and the words for how tasks are."""

from __future__ import annotations

import threading
from typing import Any

from fdbqueue.tasks.compat import TaskResult, TaskResultStatus, task_backends
from fdbqueue.tasks.task_worker import TaskWorker

DEADLINE_SECONDS = 60
READY, RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING
FAILED, SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL


def stored(result: Any) -> TaskResult:
    """Return what is stored of a result."""
    return task_backends["default"].get_result(result.id)


def status(result: Any) -> TaskResultStatus:
    """Return the status of a task as it is now."""
    result.refresh()
    return result.status


def work_in_thread(**options: Any) -> TaskWorker:
    """Run what is ready, in a thread that may hang; return the worker."""
    worker = TaskWorker(task_backends["default"], ["default"], **{"follow": False, **options})
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
    return worker
