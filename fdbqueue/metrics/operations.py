"""Metrics of this process's operations: their number, duration, items and errors."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from fdbqueue import conf
from fdbqueue.exceptions import FdbQueueError
from fdbqueue.service import Observer, Operation, error_code

#: The label of queues that the setting does not name.
OTHER = "other"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class OperationMetrics(Observer):
    """Count and time the operations of this process.

    Args:
        registry: The registry of the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        names = ("queue", "operation")
        #: A cache: looking up a metric by its labels costs several times as much as counting.
        self._known: dict[tuple[str, str], tuple[Histogram, Counter]] = {}
        self._seconds = Histogram(
            "fdbqueue_operation_seconds",
            "How long operations on queues took, with retries, without waiting for items.",
            names,
            buckets=_BUCKETS,
            registry=registry,
        )
        self._items = Counter(
            "fdbqueue_operation_items",
            "How many items the operations pushed, took or changed.",
            names,
            registry=registry,
        )
        self._failures = Counter(
            "fdbqueue_operation_failures",
            "How many operations raised an error, by its code.",
            (*names, "error"),
            registry=registry,
        )
        self._engine_errors = Counter(
            "fdbqueue_engine_errors",
            "How many errors transactions had, retried or not, by FoundationDB's code.",
            ("code",),
            registry=registry,
        )

    def operation(self, done: Operation) -> None:
        """Count an operation."""
        labels = label_of(done.queue), done.verb
        known = self._known.get(labels)
        if known is None:
            known = self._seconds.labels(*labels), self._items.labels(*labels)
            self._known[labels] = known
        seconds, items = known
        seconds.observe(done.seconds)
        items.inc(done.items)
        if done.error is not None:
            self._failures.labels(*labels, _name(done.error)).inc()

    def engine_error(self, code: int) -> None:
        """Count an error of a transaction: 1020 is a conflict, 1021 an unknown outcome."""
        self._engine_errors.labels(str(code)).inc()


def _name(error: BaseException) -> str:
    """Return the code of an error; there are few."""
    if isinstance(error, FdbQueueError):
        return error.code
    code = error_code(error)
    return "other" if code is None else str(code)


def label_of(name: str) -> str:
    """Return the label of a queue: its name in the setting, or the pattern that it fits.

    So the number of labels is bounded. A part of another queue has the label of that.
    """
    try:
        catalog = conf.catalog()
        if "*" in name:
            return catalog.family(name).name
        spec = catalog.spec(name)
        home = spec.home(name)
        return spec.name if home == name else catalog.spec(home).name
    except FdbQueueError:
        return OTHER
