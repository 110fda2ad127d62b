"""The errors that a result's ``errors`` name where no task raised one, and what tasks may raise."""

from __future__ import annotations

from fdbqueue.exceptions import FdbQueueError


class WorkerDied(FdbQueueError):
    """The worker stopped extending the task's lease: it was killed, or did not reach the engine."""

    code = "worker_died"


class TaskAborted(FdbQueueError):
    """The task was aborted; a task that raises this is not run again."""

    code = "task_aborted"


class TaskBuried(FdbQueueError):
    """The task was moved to the dead letters, and no worker has run it since."""

    code = "task_buried"


class TaskUnknown(FdbQueueError):
    """No task has this path: the code is gone, is not there yet, or its import fails."""

    code = "task_unknown"


class ReturnValueTooLarge(FdbQueueError):
    """The return value is longer than ``max_result_bytes``, once it is JSON."""

    code = "return_value_too_large"
