"""What the pages say of a queue: what is read of it, which attention it needs, and its columns.

A :class:`QueueRow` is what is known of one queue; :func:`fill` reads that for many queues at once.
A :class:`QueueColumn` is one column of the list of queues. To add one, add it to :data:`COLUMNS`,
or to :data:`FIGURES`, which the page of a queue shows, too. What it shows must be in a row; if that
needs another read, one of its ``reads`` begins it for all rows.

A :class:`Concern` is one reason why a queue needs attention; :data:`CONCERNS` has them all, the
worst first. Each looks at what the pages read anyway, so none costs a read of its own. To add one,
add it to the tuple; it then has a line above the list and a place in the order *trouble first*.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from fdbqueue.pages.charts import sparkline
from fdbqueue.pages.columns import STATES, Column, link
from fdbqueue.pages.text import Moment, age, clip, grouped, mean, short_age
from fdbqueue.service import Counts, Depth, Ends, Minute, Pause, Queue, depths

#: Pushes and pops per minute are means over this many minutes, the present one included.
RATE_MINUTES = 5
#: An item that is ready for longer has waited too long; a label says it in words.
OLDEST_SECONDS = 3_600
#: The list names this many queues for each concern at most.
NAMED = 5
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


@dataclass(frozen=True, kw_only=True)
class Concern:
    """A reason why a queue needs attention.

    Attributes:
        name: Names it in ids and CSS classes.
        label: What it is called.
        meaning: Says what is wrong, as a sentence.
        applies: Tells whether a queue has it.
        figure: Returns how much of it a queue has; empty if there is no number.
        tab: The state whose items show it.
    """

    name: str
    label: str | Promise
    meaning: str | Promise
    applies: Callable[[QueueRow], bool]
    figure: Callable[[QueueRow], str] = lambda _row: ""
    tab: str = "ready"


class Mention(NamedTuple):
    """A queue with a concern: its name, how much of it there is, and the address that shows it."""

    name: str
    figure: str
    address: str


class Mentions(NamedTuple):
    """A concern, the first queues that have it, and how many others have it, too."""

    concern: Concern
    mentions: list[Mention]
    others: int


@dataclass(frozen=True, slots=True)
class Attention:
    """The concerns of some queues, and how many of the queues have any."""

    groups: list[Mentions]
    troubled: int


def is_overdue(oldest: datetime.datetime | None) -> bool:
    """Tell whether the oldest ready item, pushed at this time, has waited too long."""
    if oldest is None:
        return False
    now = datetime.datetime.now(datetime.timezone.utc)
    return (now - oldest).total_seconds() > OLDEST_SECONDS


def is_unattended(row: QueueRow) -> bool:
    """Tell whether items are pushed, and none is taken, though the queue is not paused.

    Pushes of the present minute do not count: no worker may have had the time to take them.
    """
    recent = row.minutes[-RATE_MINUTES:]
    if row.pause is not None or row.counts.leased or row.counts.ready <= 0:
        return False
    return any(minute.pushes for minute in recent[:-1]) and not any(m.pops for m in recent)


MISMATCHED = Concern(
    name="mismatched",
    label=_("Other settings"),
    meaning=_(
        "The queue was written under another kind, codec, priority type or order than the setting "
        "here says, so pushes, pops and leases fail."
    ),
    applies=lambda row: row.ends.mismatch is not None,
)
BLOCKED = Concern(
    name="blocked",
    label=_("Blocked"),
    meaning=_("The item at an end cannot be decoded, so pops and leases there fail."),
    applies=lambda row: bool(row.ends.undecodable_ids),
)
#: What concerns look at.
_CONCERN_READS = (begin_counts, begin_oldest, begin_pauses, begin_ends, begin_rates)
CONCERNS = (
    MISMATCHED,
    BLOCKED,
    Concern(
        name="dead",
        label=_("Dead letters"),
        meaning=_("These items failed too often, or were buried. Redrive or remove them."),
        applies=lambda row: row.counts.dead > 0,
        figure=lambda row: grouped(row.counts.dead),
        tab="dead",
    ),
    Concern(
        name="unattended",
        label=_("Pushes without pops"),
        meaning=_("Items are pushed, and nothing takes them."),
        applies=is_unattended,
        figure=lambda row: _("%(rate)s/min") % {"rate": mean(row.pushes)},
    ),
    Concern(
        name="overdue",
        label=_("Waiting for over an hour"),
        meaning=_("The oldest ready item has waited too long."),
        applies=lambda row: is_overdue(row.oldest),
        figure=lambda row: short_age(row.oldest) if row.oldest else "",
    ),
    Concern(
        name="paused",
        label=_("Paused"),
        meaning=_("Pops and leases find nothing until the queue is resumed."),
        applies=lambda row: row.pause is not None,
        figure=lambda row: short_age(row.pause.since) if row.pause else "",
    ),
)


def trouble(row: QueueRow) -> int | None:
    """Return how much attention a queue needs, None for none: the worst concern counts most."""
    ranks = [1 << rank for rank, one in enumerate(reversed(CONCERNS)) if one.applies(row)]
    return sum(ranks) or None


def attention(rows: Sequence[QueueRow], address: Callable[[QueueRow, str], str]) -> Attention:
    """Return the concerns of queues.

    Args:
        rows: The queues.
        address: Returns the address of a queue's items in a state.
    """
    groups = []
    for concern in CONCERNS:
        found = [row for row in rows if concern.applies(row)]
        mentions = [
            Mention(row.queue.name, str(concern.figure(row)), address(row, concern.tab))
            for row in found[:NAMED]
        ]
        if found:
            groups.append(Mentions(concern, mentions, len(found) - len(mentions)))
    return Attention(groups, sum(trouble(row) is not None for row in rows))


@dataclass(frozen=True, kw_only=True)
class QueueColumn(Column[QueueRow]):
    """A column of the list of queues.

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


def _name(row: QueueRow) -> SafeString:
    """Return the link to a queue, and badges if it is blocked or paused."""
    shown = link(f"queue-{row.queue.name}", row.address, row.queue.name)
    badges = [
        ("fdbqueue-mark fdbqueue-bad", concern.meaning, concern.label)
        for concern in (MISMATCHED, BLOCKED)
        if concern.applies(row)
    ]
    if row.pause is not None:
        reason, is_clipped = clip(row.pause.reason)
        why = f"{age(row.pause.since)}: {reason}{'…' if is_clipped else ''}" if reason else ""
        badges.append(("fdbqueue-mark", why or age(row.pause.since), _("Paused")))
    shown_badges = format_html_join("", ' <span class="{}" title="{}">{}</span>', badges)
    return format_html("{}{}", shown, shown_badges) if badges else shown


def _depths(row: QueueRow) -> list[Depth] | None:
    """Return how a queue's depth went, None if it was empty for the whole hour."""
    found = depths(row.counts, row.minutes)
    return found if any(depth.items for depth in found) else None


def _quiet_zero(value: float) -> str:
    return "fdbqueue-quiet" if value == 0 else ""


def _count(name: str, heading: str | Promise, value: str) -> QueueColumn:
    """Return the column of how many items there are, of a state or in all."""
    return QueueColumn(
        name=name,
        heading=heading,
        value=attrgetter(value),
        written=grouped,
        is_number=True,
        css=_quiet_zero,
        reads=(begin_counts,),
    )


def _rate(name: str, heading: str | Promise) -> QueueColumn:
    """Return the column of how many items are pushed or popped per minute."""
    return QueueColumn(
        name=name,
        heading=heading,
        value=attrgetter(name),
        written=mean,
        is_number=True,
        css=_quiet_zero,
        reads=(begin_history,),
        sort_reads=(begin_rates,),
    )


#: The figures of a queue, by their names; those of several queues are summed up above the list.
COUNTS = {state: _count(state, heading, f"counts.{state}") for state, heading in STATES}
COUNTS["dead"] = replace(
    COUNTS["dead"],
    css=lambda count: _quiet_zero(count) or "fdbqueue-problem",
    alarm=lambda count: "bad" if count > 0 else "",
)
TOTAL = _count("total", _("Total"), "total")
RATES = (_rate("pushes", _("Pushes/min")), _rate("pops", _("Pops/min")))
_OLDEST = QueueColumn(
    name="oldest",
    heading=_("Oldest"),
    value=attrgetter("oldest"),
    written=Moment.short,
    template="age.html",
    is_number=True,
    alarm=lambda at: "warning" if is_overdue(at) else "",
    # by the age: what has waited longest is the largest
    sort_key=lambda at: -at.timestamp(),
    reads=(begin_oldest,),
)

#: What the page of a queue shows, too.
FIGURES = (*COUNTS.values(), _OLDEST, *RATES)
COLUMNS = (
    QueueColumn(
        name="name",
        heading=_("Name"),
        value=lambda row: row,
        written=_name,
        sort_key=attrgetter("queue.name"),
        reads=(begin_pauses, begin_ends),
        sort_reads=(),
    ),
    QueueColumn(
        name="kind",
        heading=_("Kind"),
        value=attrgetter("queue.kind"),
        css=lambda _value: "fdbqueue-kind",
    ),
    *COUNTS.values(),
    TOTAL,
    _OLDEST,
    *RATES,
    QueueColumn(
        name="depth",
        heading=_("Depth, last hour"),
        value=_depths,
        written=sparkline,
        template="sparkline.html",
        css=lambda _value: "fdbqueue-depth",
        is_sortable=False,
        reads=(begin_counts, begin_history),
    ),
)
#: An order that no column has: the queues that need attention first.
TROUBLE = QueueColumn(
    name="trouble",
    heading=_("Trouble"),
    value=trouble,
    is_number=True,
    reads=_CONCERN_READS,
)
BY_NAME = {column.name: column for column in (*COLUMNS, TROUBLE)}
#: The names of what the list can be sorted by.
SORTABLE = tuple(name for name, column in BY_NAME.items() if column.is_sortable)
