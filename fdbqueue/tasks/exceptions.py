"""The errors that a result's ``errors`` name if no task raised one, and what tasks may raise."""

from __future__ import annotations

import threading

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
    """No task has this path: the code is gone, is not there yet, or its import fails.

    It is tried again as other failures are: another worker may have the code already.
    """

    code = "task_unknown"


class ReturnValueTooLarge(FdbQueueError):
    """The return value is longer than ``max_result_bytes``, once it is JSON."""

    code = "return_value_too_large"


class MetadataTooLarge(FdbQueueError):
    """The metadata of a task would be over its limit, as JSON; it was left as it was."""

    code = "metadata_too_large"


class TaskTimeout(BaseException):
    """The attempt took longer than the task's time limit, or was aborted by force.

    A task that runs in a thread has it raised there. It is no ``Exception``, as
    ``asyncio.CancelledError`` is none: so a task that handles its own errors does not swallow it.

    Args:
        seconds: The time limit; None if it is not known, 0 for an abort.
    """

    code = "task_timeout"

    def __init__(self, seconds: float | None = None) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        if self.seconds == 0:
            return "The task was aborted by force"
        text = "The attempt took longer than the task's time limit"
        return text if self.seconds is None else f"{text}: seconds={self.seconds:g}"


class SignalsNotSent(FdbQueueError):
    """Receivers of ``task_finished`` took so long that a worker ended before all were called."""

    code = "signals_not_sent"


def pass_interrupt(error: BaseException) -> None:
    """Raise an error again if it came from outside; call it where a project's own code is called.

    Such code may raise anything, ``SystemExit`` too, and that is its failure alone. But in the
    main thread a ``KeyboardInterrupt`` is a person's wish, and a time limit ends the task that has
    called that code.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if isinstance(error, TaskTimeout) or (is_main and isinstance(error, KeyboardInterrupt)):
        raise error
