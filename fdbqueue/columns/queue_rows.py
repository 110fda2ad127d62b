"""The row of a queue, and the reads that fill it, for many queues at once.

A :class:`QueueRow` is what is known of a queue. A *read*, such as :func:`begin_counts`, fills a
field of many rows: it begins for all before it waits for the first, so that a list of queues costs
a few round trips. :func:`read_rows` makes the rows of any number of queues; :func:`fill` reads into
rows that are there.

Columns (``queues.py``), concerns, metrics and REST name the reads of what they show. To read one
more thing, add a field to :class:`QueueRow`, and a read that fills it.
"""

from __future__ import annotations

import datetime
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from fdbqueue.columns.text import seconds_since
from fdbqueue.service import Counts, End, Ends, Item, Minute, Pause, Queue, WorkerRow, run

#: This many queues are read in one transaction.
QUEUES_AT_ONCE = 200
#: Pushes and pops per minute are means over this many minutes, the present one included.
RATE_MINUTES = 5
#: So many minutes of a queue's history are read if no page asks for others.
HOUR_MINUTES = 60
_NO_COUNTS = Counts(0, 0, 0, 0)
_NO_ENDS = Ends(is_empty=True, undecodable=())


class Cause(NamedTuple):
    """More about a cause why a queue does not move.

    Attributes:
        seconds: For how long something could be taken; None if that is not known.
        worker: Whom it is about; None for nobody.
        leases: How many items that worker holds.
    """

    seconds: float | None = None
    worker: WorkerRow | None = None
    leases: int = 0


@dataclass(slots=True)
class QueueRow:
    """A queue and what is known of it; what was not read yet is empty.

    ``held`` is the name of the limit that gives workers nothing now, empty for none. ``causes``
    says why it does not move, by the names of ``attention_causes.py``. ``first`` and ``last`` are
    the items at its ends. ``history_minutes`` is how many minutes of its history are read, and
    ``rate_minutes`` how many of these the rates are means over, the present minute included.
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
    held: str = ""
    causes: Mapping[str, Cause] = field(default_factory=dict)
    first: Item | None = None
    last: Item | None = None
    history_minutes: int = HOUR_MINUTES
    rate_minutes: int = RATE_MINUTES

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


def read_rows(
    database: Any, queues: Iterable[Queue], reads: Iterable[BeginRead], **known: Any
) -> Iterator[QueueRow]:
    """Yield the row of each queue, read as it is asked for; several are read in one transaction.

    Args:
        database: Where the queues are.
        queues: The queues.
        reads: What is read of each.
        known: What each row says from the beginning.
    """
    rest = iter(queues)
    while some := [QueueRow(one, **known) for one in itertools.islice(rest, QUEUES_AT_ONCE)]:
        read = functools.partial(fill, reads=[(begin, some) for begin in reads])
        run(database, read, read_only=True)
        yield from some


def rates(minutes: Sequence[Minute], most: int = RATE_MINUTES) -> tuple[float, float]:
    """Return the mean pushes and pops per minute over the last minutes, up to this moment."""
    recent = minutes[-most:]
    begun = min(60.0, max(0.0, seconds_since(recent[-1].at)))
    elapsed = len(recent) - 1 + begun / 60
    if elapsed <= 0:
        return 0.0, 0.0
    pushes, pops = (sum(getattr(m, name) for m in recent) for name in ("pushes", "pops"))
    return pushes / elapsed, pops / elapsed


def _begin(name: str, method: str) -> BeginRead:
    """Return what begins to read a figure by a method of the overview, into a field of rows."""

    def begin(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
        results = [getattr(row.queue.overview, method)(tr) for row in rows]

        def wait() -> None:
            for row, result in zip(rows, results, strict=True):
                setattr(row, name, result())

        return wait

    return begin


begin_counts = _begin("counts", "begin_counts")
begin_pauses = _begin("pause", "begin_pause")
begin_ends = _begin("ends", "begin_ends")
begin_held = _begin("held", "begin_held")


def _begin_end(name: str, end: End, tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    """Begin to read the items at an end, into a field of rows."""

    def wait() -> None:
        for row in rows:
            setattr(row, name, next(iter(row.queue.page(end=end, limit=1, tr=tr).items), None))

    return wait


begin_first: BeginRead = functools.partial(_begin_end, "first", "min")
begin_last: BeginRead = functools.partial(_begin_end, "last", "max")


def begin_oldest(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    """Begin to read when the oldest ready items were pushed."""
    firsts = [row.queue.overview.begin_oldest(tr) for row in rows]

    def wait() -> None:
        for row, result in zip(rows, [first() for first in firsts], strict=True):
            row.oldest = result()

    return wait


def begin_history(
    tr: Any, rows: Sequence[QueueRow], *, only_rates: bool = False
) -> Callable[[], None]:
    """Begin to read the pushes and pops of the last minutes."""
    results = [
        row.queue.overview.begin_history(
            tr, row.rate_minutes if only_rates else row.history_minutes
        )
        for row in rows
    ]

    def wait() -> None:
        for row, result in zip(rows, results, strict=True):
            row.minutes = result()
            row.pushes, row.pops = rates(row.minutes, row.rate_minutes)

    return wait


def begin_rates(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    """Begin to read the minutes that rates are means over."""
    return begin_history(tr, rows, only_rates=True)


def keeps_push_times(queue: Queue) -> bool:
    """Tell whether the codec of a queue keeps when an item was pushed."""
    return queue.codec.keeps_metadata
