"""What the pages know of a queue, and the reads that fill it in for many queues at once."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fdbqueue.service import Counts, Ends, Minute, Pause, Queue

#: Pushes and pops per minute are means over this many minutes, the present one included.
RATE_MINUTES = 5
_HOUR_MINUTES = 60
_NO_COUNTS = Counts(0, 0, 0, 0)
_NO_ENDS = Ends(is_empty=True, undecodable=())


@dataclass(slots=True)
class QueueRow:
    """A queue and what is known of it; what was not read yet is empty.

    ``history_minutes`` is how many minutes of its history are read.
    """

    queue: Queue
    address: str = ""
    counts: Counts = _NO_COUNTS
    oldest: datetime.datetime | None = None
    minutes: Sequence[Minute] = field(default_factory=list)
    pushes: float = 0
    pops: float = 0
    pause: Pause | None = None
    ends: Ends = _NO_ENDS
    history_minutes: int = _HOUR_MINUTES

    @property
    def total(self) -> int:
        """How many items it holds, in all states."""
        return self.counts.ready + self.counts.leased + self.counts.delayed + self.counts.dead


#: Begins to read in a transaction for all rows at once, and returns what waits for the results
#: and writes them into the rows.
BeginRead: TypeAlias = Callable[[Any, Sequence[QueueRow]], Callable[[], None]]


def fill(tr: Any, reads: Iterable[tuple[BeginRead, Sequence[QueueRow]]]) -> None:
    """Read into rows: all reads are begun before the first is waited for."""
    waits = [begin(tr, rows) for begin, rows in reads]
    for wait in waits:
        wait()


def rates(minutes: Sequence[Minute]) -> tuple[float, float]:
    """Return the mean pushes and pops per minute over the last minutes, up to this moment."""
    recent = minutes[-RATE_MINUTES:]
    now = datetime.datetime.now(datetime.timezone.utc)
    begun = min(60.0, max(0.0, (now - recent[-1].at).total_seconds()))
    elapsed = len(recent) - 1 + begun / 60
    if elapsed <= 0:
        return 0.0, 0.0
    pushes, pops = (sum(getattr(m, name) for m in recent) for name in ("pushes", "pops"))
    return pushes / elapsed, pops / elapsed


def begin_counts(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    """Begin to read how many items are in each state."""
    results = [row.queue.overview.begin_counts(tr) for row in rows]

    def wait() -> None:
        for row, result in zip(rows, results, strict=True):
            row.counts = result()

    return wait


def begin_oldest(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    """Begin to read when the oldest ready items were pushed."""
    firsts = [row.queue.overview.begin_oldest(tr) for row in rows]

    def wait() -> None:
        for row, result in zip(rows, [first() for first in firsts], strict=True):
            row.oldest = result()

    return wait


def begin_history(
    tr: Any, rows: Sequence[QueueRow], minutes: int | None = None
) -> Callable[[], None]:
    """Begin to read the pushes and pops of the last minutes, an hour if nothing else is said."""
    results = [row.queue.overview.begin_history(tr, minutes or row.history_minutes) for row in rows]

    def wait() -> None:
        for row, result in zip(rows, results, strict=True):
            row.minutes = result()
            row.pushes, row.pops = rates(row.minutes)

    return wait


def begin_rates(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    """Begin to read the minutes that rates are means over."""
    return begin_history(tr, rows, RATE_MINUTES)


def begin_pauses(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    """Begin to read whether queues are paused."""
    results = [row.queue.overview.begin_pause(tr) for row in rows]

    def wait() -> None:
        for row, result in zip(rows, results, strict=True):
            row.pause = result()

    return wait


def begin_ends(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    """Begin to read whether queues are blocked by an item that cannot be decoded."""
    results = [row.queue.overview.begin_ends(tr) for row in rows]

    def wait() -> None:
        for row, result in zip(rows, results, strict=True):
            row.ends = result()

    return wait
