"""The columns of the list of queues: what each shows, what is read for it, how it is sorted.

To add one, add a :class:`QueueColumn` to :data:`COLUMNS` (or to :data:`FIGURES`, which the page
of a queue shows, too). What it shows must be in a :class:`~fdbqueue.pages.queue_rows.QueueRow`; if
that needs another read, one of its ``reads`` begins it for all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from fdbqueue.pages import attention
from fdbqueue.pages.charts import Sparkline, sparkline
from fdbqueue.pages.columns import STATES, Column, link
from fdbqueue.pages.durations import short_age
from fdbqueue.pages.queue_rows import (
    BeginRead,
    QueueRow,
    begin_counts,
    begin_ends,
    begin_history,
    begin_oldest,
    begin_pauses,
    begin_rates,
)
from fdbqueue.pages.text import Moment, age, clip, grouped, mean
from fdbqueue.service import depths


@dataclass(frozen=True, kw_only=True)
class QueueColumn(Column[QueueRow]):
    """A column of the list of queues.

    Attributes:
        sort_key: Returns what rows are sorted by, None for rows that come last; without it the
            list cannot be sorted by this column.
        reads: Begin to read what the cells need.
        sort_reads: Begin to read what the sort key needs, where that is less.
    """

    sort_key: Callable[[QueueRow], Any] | None = None
    reads: tuple[BeginRead, ...] = ()
    sort_reads: tuple[BeginRead, ...] | None = None

    @property
    def reads_to_sort(self) -> tuple[BeginRead, ...]:
        """What is read of all queues, to sort them by this column."""
        return self.reads if self.sort_reads is None else self.sort_reads


def _name(row: QueueRow) -> SafeString:
    """Return the link to a queue, and marks if it is blocked or paused."""
    shown = link(f"queue-{row.queue.name}", row.address, row.queue.name)
    marks = []
    if attention.is_blocked(row):
        marks.append(("fdbqueue-mark fdbqueue-bad", attention.BLOCKED.meaning, _("Blocked")))
    if row.pause is not None:
        reason, is_clipped = clip(row.pause.reason)
        why = f"{age(row.pause.since)}: {reason}{'…' if is_clipped else ''}" if reason else ""
        marks.append(("fdbqueue-mark", why or age(row.pause.since), _("Paused")))
    shown_marks = format_html_join("", ' <span class="{}" title="{}">{}</span>', marks)
    return format_html("{}{}", shown, shown_marks) if marks else shown


def _depth(row: QueueRow) -> Sparkline | None:
    """Return the line of a queue's depth, None where it was empty for the whole hour."""
    found = depths(row.counts, row.minutes)
    return sparkline(found) if any(depth.items for depth in found) else None


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
        reads=(begin_counts,),
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
        reads=(begin_history,),
        sort_reads=(begin_rates,),
    )


_OLDEST = QueueColumn(
    name="oldest",
    heading=_("Oldest"),
    value=lambda row: row.oldest and Moment(row.oldest, short_age(row.oldest)),
    template="age.html",
    is_number=True,
    # by the age: what has waited longest is the largest
    sort_key=lambda row: row.oldest and -row.oldest.timestamp(),
    reads=(begin_oldest,),
)
_PUSHES, _POPS = _rate("pushes", _("Pushes/min")), _rate("pops", _("Pops/min"))
_STATES = tuple(_count(state, heading) for state, heading in STATES)

#: What the page of a queue shows, too.
FIGURES = (*_STATES, _OLDEST, _PUSHES, _POPS)
COLUMNS = (
    QueueColumn(
        name="name",
        heading=_("Name"),
        value=_name,
        sort_key=lambda row: row.queue.name,
        reads=(begin_pauses, begin_ends),
        sort_reads=(),
    ),
    QueueColumn(
        name="kind",
        heading=_("Kind"),
        value=lambda row: row.queue.kind,
        sort_key=lambda row: row.queue.kind,
        css=lambda _value: "fdbqueue-kind",
    ),
    *_STATES,
    QueueColumn(
        name="total",
        heading=_("Total"),
        value=lambda row: grouped(row.total),
        is_number=True,
        css=_quiet_zero,
        sort_key=lambda row: row.total,
        reads=(begin_counts,),
    ),
    _OLDEST,
    _PUSHES,
    _POPS,
    QueueColumn(
        name="depth",
        heading=_("Depth, last hour"),
        value=_depth,
        template="sparkline.html",
        css=lambda _value: "fdbqueue-depth",
        reads=(begin_counts, begin_history),
    ),
)
#: An order that no column has: the queues that need attention first.
TROUBLE = QueueColumn(
    name="trouble",
    heading=_("Trouble"),
    value=attention.trouble,
    is_number=True,
    sort_key=attention.trouble,
    reads=attention.READS,
)
BY_NAME = {column.name: column for column in (*COLUMNS, TROUBLE)}
#: The names of what the list can be sorted by.
SORTABLE = tuple(name for name, column in BY_NAME.items() if column.sort_key is not None)
