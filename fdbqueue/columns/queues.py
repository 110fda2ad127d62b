"""The columns of queues: what pages, commands and JSON say of each.

A :class:`QueueColumn` is one thing that is said. To add one, add it to the tuple of what is to show
it: :data:`FIGURES` (the page of a queue, ``queue_list --rates``, families), :data:`COMMAND_COLUMNS`
(``queue_list``), or ``COLUMNS`` of :mod:`fdbqueue.pages.queues_page`. What it shows is in a row of
``queue_rows.py``, and its ``reads`` fill that for all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import AGE, COUNT, MEAN, NOTHING, STATES, Column, ValueKind
from fdbqueue.columns.attention import (
    BLOCKED,
    CONCERN_READS,
    MISMATCHED,
    PAUSED,
    Concern,
    concerns_of,
)
from fdbqueue.columns.queue_rows import (
    BeginRead,
    QueueRow,
    begin_counts,
    begin_ends,
    begin_held,
    begin_history,
    begin_oldest,
    begin_pauses,
    begin_rates,
    keeps_push_times,
)
from fdbqueue.columns.text import cell_age, clipped, seconds_since, short_time, timestamp
from fdbqueue.service import Pause

_REASON_CHARACTERS = 40


@dataclass(frozen=True, kw_only=True)
class QueueColumn(Column[QueueRow]):
    """A column of queues.

    Attributes:
        sort_key: Returns what a value is sorted by; None if that is the value itself. Rows
            without a value come last.
        is_sortable: Whether the list can be sorted by this column.
        reads: Begin to read what the cells need.
        sort_reads: Begin to read what the sort key needs, if that is less.
    """

    sort_key: Callable[[Any], Any] | None = None
    is_sortable: bool = True
    reads: tuple[BeginRead, ...] = ()
    sort_reads: tuple[BeginRead, ...] | None = None

    @property
    def reads_to_sort(self) -> tuple[BeginRead, ...]:
        """What is read of all queues, to sort them by this column."""
        return self.reads if self.sort_reads is None else self.sort_reads

    def sorted(self, rows: Sequence[QueueRow], *, is_descending: bool) -> list[QueueRow]:
        """Sort rows: those without a value last, equals as they were."""
        values = [(self.value(row), row) for row in rows]
        key = self.sort_key
        known = [
            (value if key is None else key(value), row)
            for value, row in values
            if value is not None
        ]
        known.sort(key=lambda pair: pair[0], reverse=is_descending)
        return [row for _key, row in known] + [row for value, row in values if value is None]


def reads_of(columns: Iterable[QueueColumn]) -> tuple[BeginRead, ...]:
    """Return what begins to read all that columns show, each once."""
    return tuple(dict.fromkeys(read for column in columns for read in column.reads))


def _quiet_zero(value: float) -> str:
    return "fdbqueue-quiet" if value == 0 else ""


def _count(name: str, heading: str | Promise, value: str) -> QueueColumn:
    """Return the column of how many items there are, of a state or in all."""
    return QueueColumn(
        name, heading, attrgetter(value), COUNT, css=_quiet_zero, reads=(begin_counts,)
    )


def _rate(name: str, heading: str | Promise) -> QueueColumn:
    """Return the column of how many items are pushed or popped per minute."""
    return QueueColumn(
        name,
        heading,
        attrgetter(name),
        MEAN,
        fields=lambda mean: {f"{name}_a_minute": round(mean, 2)},
        css=_quiet_zero,
        reads=(begin_history,),
        sort_reads=(begin_rates,),
    )


NAME = QueueColumn(
    "name",
    _("Name"),
    attrgetter("queue.name"),
    reads=(begin_pauses, begin_ends, begin_held),
    sort_reads=(),
)
KIND = QueueColumn("kind", _("Kind"), attrgetter("queue.kind"), css=lambda _value: "fdbqueue-kind")
_CODEC = QueueColumn("codec", _("Codec"), attrgetter("queue.codec.name"))
_PRIORITIES = QueueColumn("priority_type", _("Priorities"), attrgetter("queue.priority_type"))
#: The figures of a queue, by their names; those of several queues are summed up above the list.
COUNTS = {state: _count(state, heading, f"counts.{state}") for state, heading in STATES}
COUNTS["dead"] = replace(
    COUNTS["dead"],
    css=lambda count: _quiet_zero(count) or "fdbqueue-problem",
    alarm=lambda count: "bad" if count > 0 else "",
)
TOTAL = _count("total", _("Total"), "total")
RATES = (_rate("pushes", _("Pushes/min")), _rate("pops", _("Pops/min")))
OLDEST = QueueColumn(
    "oldest",
    _("Oldest"),
    attrgetter("oldest"),
    AGE,
    fields=lambda at: {
        "oldest": at and timestamp(at),
        "age_seconds": at and seconds_since(at),
    },
    why_nothing=lambda row: (
        _("the codec stores no push time")
        if row.counts.ready > 0 and not keeps_push_times(row.queue)
        else ""
    ),
    sort_key=lambda at: -at.timestamp(),
    reads=(begin_oldest,),
)


# Its status, in words: on a page that is a badge behind the name, and a banner


def paused_since(pause: Pause) -> str:
    """Return a sentence's end: since when a queue is paused, to the second, and why."""
    what = "paused" if pause.family is None else f"paused with its family {pause.family!r}"
    when = f"{what} since {short_time(pause.since)} UTC"
    return f"{when}: {clipped(pause.reason)}" if pause.reason else when


def paused_text(pause: Pause) -> str:
    """Return for how long a queue is paused and why, for a table at a terminal."""
    reason = f": {clipped(pause.reason, _REASON_CHARACTERS)}" if pause.reason else ""
    return f"paused {cell_age(pause.since)}{reason}"


def pause_record(pause: Pause | None) -> dict[str, Any] | None:
    """Return the object for a line of JSON, None for a queue that is not paused."""
    if pause is None:
        return None
    return {"since": timestamp(pause.since), "reason": pause.reason, "family": pause.family}


def _status(row: QueueRow) -> str:
    """Return what keeps pops from the items; a dash if nothing does."""
    words, ends, pause = [], row.ends, row.pause
    if ends.mismatch is not None:
        words.append(f"written under {ends.mismatch.context['written']}")
    elif len(ends.undecodable) > 1:
        words.append("blocked at both ends")
    elif ends.undecodable:
        words.append(f"blocked at {ends.undecodable[0]}")
    if pause is not None:
        words.append(paused_text(pause))
    words += [str(one.label).lower() for one in concerns_of(row) if _is_plain(one)]
    return ", ".join(words) or NOTHING


def _status_alarm(row: QueueRow) -> str:
    found = concerns_of(row)
    if any(one.stands for one in found):
        return "bad"
    return "warning" if any(one is PAUSED or _is_plain(one) for one in found) else ""


def _is_plain(concern: Concern) -> bool:
    """Tell whether a concern is one of which the status says no more than its name."""
    return concern not in {MISMATCHED, BLOCKED, PAUSED} and concern.name != "dead"


STATUS = QueueColumn(
    "status",
    _("Status"),
    lambda row: row,
    ValueKind(cell=_status),
    fields=lambda row: {
        "blocked": row.ends.undecodable,
        "no_worker": not row.causes.keys().isdisjoint({"lost", "no_worker"}),
        "paused": pause_record(row.pause),
        "attention": [one.name for one in concerns_of(row)],
    },
    alarm=_status_alarm,
    is_sortable=False,
    reads=CONCERN_READS,
)

#: What is said of each queue wherever there is room for figures.
FIGURES = (*COUNTS.values(), OLDEST, *RATES)
#: What ``queue_list`` says, and with ``--rates``.
COMMAND_COLUMNS = (NAME, KIND, _CODEC, _PRIORITIES, *COUNTS.values(), OLDEST, STATUS)
COMMAND_RATE_COLUMNS = (NAME, *FIGURES, STATUS)
