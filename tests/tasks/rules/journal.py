"""Keep a journal of tasks and signals, in a file that all processes of a test append to."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from fdbqueue.tasks.compat import TaskResult, task_enqueued, task_finished, task_started

#: The environment of a worker process names the folder of the running test.
FOLDER_VARIABLE = "TASKS_RULES_FOLDER"


def folder() -> Path:
    """Return the folder of the running test.

    Raises:
        RuntimeError: No test of these tests is running, or its environment was not inherited.
    """
    if not (found := os.environ.get(FOLDER_VARIABLE)):
        raise RuntimeError(
            f"No {FOLDER_VARIABLE} in the environment: a worker needs that of the test. "
            "Start it in worker_process() or run_worker()."
        )
    return Path(found)


def write(event: str, **facts: Any) -> None:
    """Append an event.

    One write in append mode is whole, whatever else writes or dies at the same time.
    """
    line = json.dumps({"event": event, "at": time.time(), "pid": os.getpid(), **facts}) + "\n"
    file = os.open(folder() / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def entries(event: str, **facts: Any) -> list[dict[str, Any]]:
    """Return the entries of an event that have these facts, the earliest first."""
    try:
        text = (folder() / "journal").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    found = [json.loads(line) for line in text.splitlines()]
    return [entry for entry in found if entry["event"] == event and facts.items() <= entry.items()]


# Signals, with the state that their receivers see


def connect() -> None:
    """Write the signals of this process, while it belongs to a test of these tests."""
    for signal, receiver in _RECEIVERS.items():
        signal.connect(receiver, dispatch_uid=f"{__name__}.{receiver.__name__}")


def path_of(one: type) -> str:
    """Return the dotted path of a class."""
    return f"{one.__module__}.{one.__qualname__}"


def _write(event: str, sender: Any, task_result: TaskResult[..., Any]) -> None:
    if FOLDER_VARIABLE not in os.environ:
        return
    is_class = isinstance(sender, type)
    write(
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


_RECEIVERS = {task_enqueued: _enqueued, task_started: _started, task_finished: _finished}
