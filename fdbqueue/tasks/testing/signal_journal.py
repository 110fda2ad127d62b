"""Write each signal of a task into the journal, with the state that its receivers see."""

from __future__ import annotations

import os
from typing import Any

from fdbqueue.tasks.compat import TaskResult, task_enqueued, task_finished, task_started
from fdbqueue.tasks.testing import journal

_SIGNALS = {
    "task_enqueued": task_enqueued,
    "task_started": task_started,
    "task_finished": task_finished,
}


def connect() -> None:
    """Write the signals of this process, while it belongs to a test of the kit."""
    for event, signal in _SIGNALS.items():
        signal.connect(_RECEIVERS[event], dispatch_uid=f"{__name__}.{event}")


def path_of(one: type) -> str:
    """Return the dotted path of a class."""
    return f"{one.__module__}.{one.__qualname__}"


def _write(event: str, sender: Any, task_result: TaskResult[..., Any]) -> None:
    if journal.FOLDER_VARIABLE not in os.environ:
        return
    is_class = isinstance(sender, type)
    journal.write(
        event,
        sender=path_of(sender) if is_class else f"an instance of {path_of(type(sender))}",
        id=task_result.id,
        status=str(task_result.status.value),
        is_started=task_result.started_at is not None,
        is_finished=task_result.finished_at is not None,
        errors=[error.exception_class_path for error in task_result.errors],
        worker_ids=list(task_result.worker_ids),
    )


def _enqueued(sender: Any, task_result: TaskResult[..., Any], **kwargs: Any) -> None:
    _write("task_enqueued", sender, task_result)


def _started(sender: Any, task_result: TaskResult[..., Any], **kwargs: Any) -> None:
    _write("task_started", sender, task_result)


def _finished(sender: Any, task_result: TaskResult[..., Any], **kwargs: Any) -> None:
    _write("task_finished", sender, task_result)


_RECEIVERS = {
    "task_enqueued": _enqueued,
    "task_started": _started,
    "task_finished": _finished,
}
