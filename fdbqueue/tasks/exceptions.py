"""The errors that a result's ``errors`` name if no task raised one, and what tasks may raise."""

from __future__ import annotations

import datetime
import threading

from fdbqueue.exceptions import FdbQueueError, is_a
from fdbqueue.service import MAX_SECONDS


class WorkerDied(FdbQueueError):
    """The worker stopped extending the task's lease: it was killed, or did not reach the engine."""

    code = "worker_died"


class TaskAborted(FdbQueueError):
    """The task was aborted; a task that raises this is not run again."""

    code = "task_aborted"


class TaskExpired(FdbQueueError):
    """No attempt at the task had begun by the time it expired, and so none is made."""

    code = "task_expired"


class TaskBuried(FdbQueueError):
    """The task was moved to the dead letters, and no worker has run it since."""

    code = "task_buried"


class TaskUnknown(FdbQueueError):
    """No task has this path: the code is gone, is not there yet, or its import fails.

    It is tried again as other failures are: another worker may have the code already.
    """

    code = "task_unknown"


class WaitTimedOut(FdbQueueError, TimeoutError):
    """The task had not ended when the time to wait was over."""

    code = "wait_timed_out"


class ReturnValueTooLarge(FdbQueueError):
    """The return value is longer than ``max_result_bytes``, once it is JSON."""

    code = "return_value_too_large"


class MetadataTooLarge(FdbQueueError):
    """The metadata of a task would be over its limit, as JSON; it was left as it was."""

    code = "metadata_too_large"


class Retry(FdbQueueError):
    """The task asks to run again.

    A task raises it. The attempt ends as a failure does whose pause is over after ``after``;
    ``backoff`` is not asked. With ``spend``, the default, it counts as any attempt: if it was the
    last of ``max_attempts``, the task is FAILED. Without, it is as if it had not been made: the
    next one has its number, and ``errors`` and ``worker_ids`` have nothing of it. Metadata stays.
    Anywhere else it is an exception like any other.

    Args:
        after: The pause, in seconds or as ``timedelta``: 0 to ten years.
        reason: Why, for people; pages and commands show it while the task waits.
        spend: Whether the attempt counts.

    Raises:
        TypeError: ``after`` is no number and no ``timedelta``, or ``reason`` no text.
        ValueError: ``after`` is not from 0 to ten years.
    """

    code = "retry"

    def __init__(
        self, after: float | datetime.timedelta, reason: str = "", *, spend: bool = True
    ) -> None:
        seconds = after.total_seconds() if isinstance(after, datetime.timedelta) else after
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise TypeError(f"after is seconds or a timedelta, not {type(after).__name__}.")
        if not isinstance(reason, str):
            raise TypeError(f"A reason is a text, not {type(reason).__name__}.")
        if not 0 <= seconds <= MAX_SECONDS:  # not shown: Python shows no long ones
            raise ValueError(f"after is 0 to {MAX_SECONDS} seconds.")
        super().__init__(after=float(seconds), reason=reason, spend=bool(spend))
        self.seconds, self.reason, self.spend = float(seconds), reason, bool(spend)

    def __str__(self) -> str:
        return self.reason or f"The task asks to run again after {self.seconds:g} seconds"


class TaskTimeout(FdbQueueError):
    """The attempt took longer than the task's time limit."""

    code = "task_timeout"


def pass_interrupt(error: BaseException) -> None:
    """Raise an error again if it came from outside; call it where a project's own code is called.

    Such code may raise anything, ``SystemExit`` too, and that is its failure alone. But in the
    main thread a ``KeyboardInterrupt`` is a person's wish.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and is_a(error, KeyboardInterrupt):
        raise error
