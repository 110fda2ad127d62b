"""Metrics of tasks for Prometheus, in a project that has the app ``fdbqueue.metrics``.

They are counted in the workers' processes: those serve them, or share ``PROMETHEUS_MULTIPROC_DIR``
with the server that does.
"""

from __future__ import annotations

import functools

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from fdbqueue.metrics.operations import OTHER, label_of
from fdbqueue.service import Item
from fdbqueue.tasks import task_worker
from fdbqueue.tasks.ends import EXPIRED, UNKNOWN, AttemptEnd

_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600)
#: How many functions have labels of their own; those that come later share one.
_MAX_TASKS = 200


class TaskMetrics:
    """Count and time the attempts at tasks of this process.

    Args:
        registry: The registry of the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._tasks: set[str] = set()
        self._attempts = Counter(
            "fdbqueue_task_attempts",
            "How many attempts at tasks ended: succeeded, retried, failed, expired, aborted, lost.",
            ("queue", "task", "outcome"),
            registry=registry,
        )
        self._seconds = Histogram(
            "fdbqueue_task_seconds",
            "How long attempts at tasks took, whether they succeeded or failed.",
            ("queue", "task"),
            buckets=_BUCKETS,
            registry=registry,
        )

    def ended(self, end: AttemptEnd | None, item: Item) -> None:
        """Count the end of an attempt; None if its lease was lost."""
        queue = label_of(item.queue)
        if end is None:
            self._attempts.labels(queue, OTHER, "lost").inc()
            return
        task = self._label(end)
        self._attempts.labels(queue, task, outcome_of(end)).inc()
        self._seconds.labels(queue, task).observe(task_worker.seconds_of(end))

    def _label(self, end: AttemptEnd) -> str:
        """Return the label of a task: its path, if it is one of the first that came."""
        path = end.call.task
        if path in self._tasks:
            return path
        is_unknown = end.failure is not None and end.failure.exception == UNKNOWN
        if is_unknown or len(self._tasks) >= _MAX_TASKS:
            return OTHER
        self._tasks.add(path)
        return path


def outcome_of(end: AttemptEnd) -> str:
    """Return how an attempt ended, in a word."""
    if end.is_success:
        return "succeeded"
    if end.is_aborted:
        return "aborted"
    if end.failure is not None and end.failure.exception == EXPIRED:
        return "expired"
    return "failed" if end.retry_seconds is None else "retried"


@functools.cache
def install() -> None:
    """Measure the tasks of this process from now on, in the default registry."""
    task_worker.observers.append(TaskMetrics(REGISTRY).ended)
