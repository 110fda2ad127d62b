"""What tasks and signals have done while a test runs, the earliest first."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Any

from fdbqueue.tasks.compat import task_enqueued, task_finished, task_started

_entries: list[dict[str, Any]] = []


def write(event, **facts):
    """Append an event."""
    _entries.append({"event": event, "at": time.time(), **facts})


def entries(event, **facts):
    """Return the entries of an event that have these facts."""
    return [one for one in _entries if one["event"] == event and facts.items() <= one.items()]


@contextmanager
def kept():
    """Begin with none, and write each signal, with the state that its receivers see."""
    _entries.clear()
    for signal, receiver in _RECEIVERS.items():
        signal.connect(receiver)
    try:
        yield
    finally:
        for signal, receiver in _RECEIVERS.items():
            signal.disconnect(receiver)


def _write(event, sender, result):
    write(
        event,
        sender=sender,
        id=result.id,
        status=str(result.status.value),
        is_started=result.started_at is not None,
        is_finished=result.finished_at is not None,
        errors=[error.exception_class_path for error in result.errors],
        worker_ids=list(result.worker_ids),
    )


def _enqueued(sender, task_result, **_):
    _write("task_enqueued", sender, task_result)


def _started(sender, task_result, **_):
    _write("task_started", sender, task_result)


def _finished(sender, task_result, **_):
    _write("task_finished", sender, task_result)


_RECEIVERS = {task_enqueued: _enqueued, task_started: _started, task_finished: _finished}
