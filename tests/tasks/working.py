"""A worker that runs in a thread of the test."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from fdbqueue.tasks.compat import task_backends
from fdbqueue.tasks.task_worker import TaskWorker

_DEADLINE_SECONDS = 60


@contextlib.contextmanager
def working(gate: threading.Event, **options: Any) -> Iterator[TaskWorker]:
    """Have a worker run tasks in a thread; at the end the gate of these opens."""
    worker = TaskWorker(task_backends["default"], ["default"], **options)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        gate.set()
        worker.stop()
        thread.join(_DEADLINE_SECONDS)
    assert not thread.is_alive()
