"""The figures of a queue: what ``queue_stats`` prints of it."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from fdbqueue.management import rendering
from fdbqueue.service import Counts, Minute, Queue
from fdbqueue.service.items import Priority

COLUMNS = ("NAME", "READY", "LEASED", "DELAYED", "DEAD", "OLDEST", "PUSHES/MIN", "POPS/MIN")
PRIORITY_COLUMNS = ("NAME", "PRIORITY", "READY")

_LEVELS_AT_ONCE = 10_000


@dataclasses.dataclass(frozen=True)
class Figures:
    """What the counts and the history say of one queue.

    Attributes:
        queue: The queue's name.
        counts: How many items are in each state.
        oldest: When the oldest ready item was pushed, where that is known.
        age_seconds: How long ago that was.
        pushes_a_minute: How many items were pushed.
        pops_a_minute: How many were taken for good.
        by_priority: The ready items of each priority, where that was asked for.
    """

    queue: str
    counts: Counts
    oldest: datetime.datetime | None
    age_seconds: float | None
    pushes_a_minute: float
    pops_a_minute: float
    by_priority: list[tuple[Priority, int]] | None

    def record(self) -> dict[str, Any]:
        """Return them for a line of JSON."""
        record = {
            "queue": self.queue,
            **dataclasses.asdict(self.counts),
            "oldest": rendering.timestamp(self.oldest),
            "age_seconds": self.age_seconds,
            "pushes_a_minute": round(self.pushes_a_minute, 2),
            "pops_a_minute": round(self.pops_a_minute, 2),
        }
        return record if self.by_priority is None else {**record, "by_priority": self.by_priority}

    def row(self) -> tuple[str, ...]:
        """Return them as a row of :data:`COLUMNS`."""
        return (
            self.queue,
            *map(str, dataclasses.astuple(self.counts)),
            "-" if self.age_seconds is None else rendering.age(self.age_seconds),
            f"{self.pushes_a_minute:.1f}",
            f"{self.pops_a_minute:.1f}",
        )

    def priority_rows(self) -> list[tuple[str, ...]]:
        """Return a row of :data:`PRIORITY_COLUMNS` for each priority."""
        return [(self.queue, str(level), str(number)) for level, number in self.by_priority or ()]


def figures(queue: Queue, *, by_priority: bool, minutes: int) -> Figures:
    """Read the figures of a queue.

    Args:
        queue: The queue.
        by_priority: Whether to read those of each priority.
        minutes: Over how many minutes the rates are, with what has passed of this one.
    """
    now = datetime.datetime.now(datetime.timezone.utc)
    oldest = queue.oldest()
    history = queue.history(minutes + 1)
    passed = minutes + max(0.0, (now - history[-1].at).total_seconds() / 60)
    return Figures(
        queue=queue.name,
        counts=queue.counts(),
        oldest=oldest,
        age_seconds=None if oldest is None else (now - oldest).total_seconds(),
        pushes_a_minute=_total(history, "pushes") / passed,
        pops_a_minute=_total(history, "pops") / passed,
        by_priority=_levels(queue) if by_priority else None,
    )


def _total(history: list[Minute], what: str) -> int:
    return sum(getattr(minute, what) for minute in history)


def _levels(queue: Queue) -> list[tuple[Priority, int]]:
    if queue.kind != "priority":
        return []
    found: list[tuple[Priority, int]] = []
    after = None
    while some := queue.by_priority(after=after, limit=_LEVELS_AT_ONCE):
        found += some
        after = some[-1][0]
    return found
