"""Metrics of the queues' sizes and of workers, read at each scrape: bounded in reads and time."""

from __future__ import annotations

import dataclasses
import datetime
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from fdbqueue import access, conf, deadlines
from fdbqueue.columns.attention import CONCERN_READS, concerns_of
from fdbqueue.columns.queue_rows import QueueRow, read_rows
from fdbqueue.exceptions import FdbQueueError
from fdbqueue.logs import get_logger
from fdbqueue.metrics.operations import label_of
from fdbqueue.service import (
    ENDS,
    Catalog,
    error_code,
    microseconds,
    now_us,
)

logger = get_logger(__name__)

_Moment = datetime.datetime | None

#: How long all reads may take; scrapers usually wait ten seconds.
_TIMEOUT_SECONDS = 5.0


class SizeCollector(Collector):
    """Read the sizes of all queues whenever the metrics are scraped.

    The queues of a pattern are added up under the pattern.
    """

    def describe(self) -> list[Metric]:
        """Return the metrics without values, for the registry; nothing is read."""
        return [*_Sizes().metrics(), _engine_up(False)]

    def collect(self) -> Iterator[Metric]:
        """Yield the sizes; if the engine does not respond, only a metric that says so."""
        sizes = _Sizes()
        try:
            catalog = deadlines.limited_catalog(_TIMEOUT_SECONDS, reads_only=True)
            sizes.read(catalog)
        except Exception as error:
            if not isinstance(error, FdbQueueError) and error_code(error) is None:
                raise
            logger.warning("the sizes of the queues cannot be read", exc_info=error)
            yield _engine_up(False)
            return
        yield from sizes.metrics()
        yield _engine_up(True)


class _Sizes:
    """The sizes of the queues, by their names in the setting."""

    def __init__(self) -> None:
        self._items: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._oldest: dict[str, _Moment] = {}
        self._has_items: set[str] = set()
        self._undecodable: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._attention: Counter[tuple[str, ...]] = Counter()
        self._queues: Counter[str] = Counter()
        self._paused: Counter[str] = Counter()
        self._is_complete = True
        self._workers = Counter({"alive": 0, "lost": 0})
        self._free_bytes: list[float] = []

    def read(self, catalog: Catalog) -> None:
        """Read the sizes, in transactions of some queues each, and which workers there are."""
        names, self._is_complete = access.monitored_names(catalog)
        for row in read_rows(catalog.database, map(catalog.queue, names), CONCERN_READS):
            self._add(label_of(row.queue.name), row)
        self._workers.update(row.state for row in catalog.presences.read().rows)
        room = getattr(conf.innermost(conf.database()), "disk_space", None)
        self._free_bytes = [] if room is None else [room().free]

    def _add(self, label: str, row: QueueRow) -> None:
        self._queues[label] += 1
        self._paused[label] += row.pause is not None
        self._undecodable[label].update(row.ends.undecodable)
        self._attention.update((label, one.name) for one in concerns_of(row))
        if not row.ends.is_empty:
            self._has_items.add(label)
        self._items[label].update(dataclasses.asdict(row.counts))
        known = self._oldest.get(label)
        if row.oldest is not None:
            self._oldest[label] = row.oldest if known is None else min(known, row.oldest)

    def metrics(self) -> Iterator[Metric]:
        """Yield the metrics, one family after the other."""
        yield _gauge(
            "fdbqueue_items",
            "How many items are in a queue.",
            {(one, state): n for one, counts in self._items.items() for state, n in counts.items()},
            "state",
        )
        yield _gauge(
            "fdbqueue_oldest_item_age_seconds",
            "How long the oldest ready item has been in a queue; 0 if the queue is empty, and "
            "absent if not known.",
            dict(self._ages()),
        )
        yield _gauge(
            "fdbqueue_undecodable_heads",
            "How many queues have an undecodable item at an end, which makes pops fail.",
            {(one, end): self._undecodable[one][end] for one in self._items for end in ENDS},
            "end",
        )
        yield _gauge(
            "fdbqueue_attention",
            "How many queues need attention, for a reason; absent if none does.",
            self._attention,
            "reason",
        )
        yield _gauge(
            "fdbqueue_queues",
            "How many queues there are under a name.",
            {(one,): number for one, number in self._queues.items()},
        )
        yield _gauge(
            "fdbqueue_paused",
            "1 if a queue is paused, else 0; how many queues of a pattern are.",
            {(one,): number for one, number in self._paused.items()},
        )
        yield GaugeMetricFamily(
            "fdbqueue_sizes_complete",
            "1 if all queues were read; 0 if patterns have too many queues.",
            value=float(self._is_complete),
        )
        workers = GaugeMetricFamily(
            "fdbqueue_workers", "How many workers are alive, or lost.", labels=["state"]
        )
        for state, number in self._workers.items():
            workers.add_metric([state], number)
        yield workers
        disk = GaugeMetricFamily(
            "fdbqueue_disk_free_bytes",
            "How much room the disk of the embedded engine's file has; absent for a cluster.",
        )
        for free_bytes in self._free_bytes:
            disk.add_metric([], free_bytes)
        yield disk

    def _ages(self) -> Iterator[tuple[tuple[str], float]]:
        """Yield how many seconds the oldest ready item of a name has been there."""
        now = now_us()
        for label in self._items:
            oldest = self._oldest.get(label)
            if oldest is not None or label not in self._has_items:
                since = now if oldest is None else microseconds(oldest)
                yield (label,), max(0, now - since) / 1_000_000


def _gauge(name: str, text: str, values: Mapping[tuple[str, ...], float], *labels: str) -> Metric:
    """Return a gauge with a value for each name of a queue, and for each of its other labels."""
    family = GaugeMetricFamily(name, text, labels=["queue", *labels])
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _engine_up(is_so: bool) -> Metric:
    return GaugeMetricFamily(
        "fdbqueue_engine_up", "1 if the engine answered, else 0.", value=float(is_so)
    )
