"""The columns of the list of queues: what each shows, what is read for it, how it is sorted.

To add one, add a :class:`QueueColumn` to :data:`COLUMNS` (or to :data:`FIGURES`, which the page
of a queue shows, too). What it shows must be in a :class:`QueueRow`; if that needs another read,
its ``begin_read`` begins it for all rows at once. :func:`fill` reads what columns show, for the
list and for the page of a queue.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from fdbqueue.pages.charts import sparkline
from fdbqueue.pages.columns import STATES, Column, link
from fdbqueue.pages.text import Moment, age, clip, grouped, mean
from fdbqueue.service import Counts, Minute, Pause, Queue, depths

#: Pushes and pops per minute are means over this many minutes, the present one included.
RATE_MINUTES = 5
_SPARKLINE_MINUTES = 60
_NO_COUNTS = Counts(0, 0, 0, 0)


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
    history_minutes: int = _SPARKLINE_MINUTES


#: Begins to read in a transaction for all rows at once, and returns what waits for the results
#: and writes them into the rows.
BeginRead: TypeAlias = Callable[[Any, Sequence[QueueRow]], Callable[[], None]]


@dataclass(frozen=True, kw_only=True)
class QueueColumn(Column[QueueRow]):
    """A column of the list of queues.

    Attributes:
        sort_key: Returns what rows are sorted by, None for rows that come last; without it the
            list cannot be sorted by this column.
        begin_read: Begins to read what the cells need.
        begin_sort_read: Begins to read what the sort key needs, where that is less.
    """

    sort_key: Callable[[QueueRow], Any] | None = None
    begin_read: BeginRead | None = None
    begin_sort_read: BeginRead | None = None


def fill(tr: Any, rows: Sequence[QueueRow], reads: Iterable[BeginRead | None]) -> None:
    """Read what columns show into rows, each read once and all of them at once."""
    waits = [begin(tr, rows) for begin in dict.fromkeys(reads) if begin is not None]
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


def _begin_counts(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    results = [row.queue.overview.begin_counts(tr) for row in rows]

    def wait() -> None:
        for row, result in zip(rows, results, strict=True):
            row.counts = result()

    return wait


def _begin_oldest(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    firsts = [row.queue.overview.begin_oldest(tr) for row in rows]

    def wait() -> None:
        for row, result in zip(rows, [first() for first in firsts], strict=True):
            row.oldest = result()

    return wait


def _begin_history(
    tr: Any, rows: Sequence[QueueRow], minutes: int | None = None
) -> Callable[[], None]:
    results = [row.queue.overview.begin_history(tr, minutes or row.history_minutes) for row in rows]

    def wait() -> None:
        for row, result in zip(rows, results, strict=True):
            row.minutes = result()
            row.pushes, row.pops = rates(row.minutes)

    return wait


def _begin_rates(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    return _begin_history(tr, rows, RATE_MINUTES)


def begin_pauses(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    """Begin to read whether queues are paused."""
    results = [row.queue.overview.begin_pause(tr) for row in rows]

    def wait() -> None:
        for row, result in zip(rows, results, strict=True):
            row.pause = result()

    return wait


def _begin_nothing(_tr: Any, _rows: Sequence[QueueRow]) -> Callable[[], None]:
    return lambda: None


def _name(row: QueueRow) -> str:
    """Return the link to a queue, and a mark if it is paused."""
    shown = link(f"queue-{row.queue.name}", row.address, row.queue.name)
    if row.pause is None:
        return shown
    reason, is_clipped = clip(row.pause.reason)
    why = f"{age(row.pause.since)}: {reason}{'…' if is_clipped else ''}" if reason else ""
    mark = '{} <span class="fdbqueue-mark" title="{}">{}</span>'
    return format_html(mark, shown, why or age(row.pause.since), _("Paused"))


def _quiet_zero(value: str) -> str:
    return "fdbqueue-quiet" if value == "0" else ""


def _count(state: str, heading: str | Promise) -> QueueColumn:
    """Return the column of how many items are in a state; dead letters stand out."""

    def css(value: str) -> str:
        return _quiet_zero(value) or ("fdbqueue-problem" if state == "dead" else "")

    return QueueColumn(
        name=state,
        heading=heading,
        value=lambda row: grouped(getattr(row.counts, state)),
        is_number=True,
        css=css,
        sort_key=lambda row: getattr(row.counts, state),
        begin_read=_begin_counts,
    )


def _rate(name: str, heading: str | Promise) -> QueueColumn:
    """Return the column of how many items are pushed or popped per minute."""
    return QueueColumn(
        name=name,
        heading=heading,
        value=lambda row: mean(getattr(row, name)),
        is_number=True,
        css=_quiet_zero,
        sort_key=lambda row: getattr(row, name),
        begin_read=_begin_history,
        begin_sort_read=_begin_rates,
    )


FIGURES = (
    *(_count(state, heading) for state, heading in STATES),
    QueueColumn(
        name="oldest",
        heading=_("Oldest"),
        value=lambda row: row.oldest and Moment(row.oldest, age(row.oldest)),
        template="age.html",
        is_number=True,
        # by the age: what has waited longest is the largest
        sort_key=lambda row: row.oldest and -row.oldest.timestamp(),
        begin_read=_begin_oldest,
    ),
    _rate("pushes", _("Pushes per minute")),
    _rate("pops", _("Pops per minute")),
)
COLUMNS = (
    QueueColumn(
        name="name",
        heading=_("Name"),
        value=_name,
        sort_key=lambda row: row.queue.name,
        begin_read=begin_pauses,
        begin_sort_read=_begin_nothing,
    ),
    QueueColumn(
        name="kind",
        heading=_("Kind"),
        value=lambda row: row.queue.kind,
        sort_key=lambda row: row.queue.kind,
    ),
    *FIGURES,
    QueueColumn(
        name="depth",
        heading=_("Depth, last hour"),
        value=lambda row: sparkline(depths(row.counts, row.minutes)),
        template="sparkline.html",
        begin_read=_begin_history,
    ),
)
BY_NAME = {column.name: column for column in COLUMNS}
#: The names of the columns that the list can be sorted by.
SORTABLE = tuple(column.name for column in COLUMNS if column.sort_key is not None)
