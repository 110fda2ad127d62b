"""The facts of a queue: what is read of it, which attention it needs, and its columns.

A :class:`QueueRow` is what is known of one queue; :func:`fill` reads that for many queues at once.
A :class:`QueueColumn` is one thing that is said. To add one, add it to the tuple of what is to show
it: :data:`FIGURES` (the page of a queue, ``queue_list --rates``, families), :data:`LISTED`
(``queue_list``), or ``COLUMNS`` of :mod:`fdbqueue.pages.queues_page`. What it shows must be in a
row; if that needs another read, one of its ``reads`` begins it for all rows.

A :class:`Concern` is one reason why a queue needs attention; :data:`CONCERNS` has them all, the
worst first. Each looks at what is read anyway; only whether there is a worker is read if a task
waits. To add one, add it to the tuple; it then has a line above the list and a place in the order
*trouble first*.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, TypeAlias

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import AGE, COUNT, MEAN, NOTHING, STATES, Column, ValueKind
from fdbqueue.columns.text import (
    cell_age,
    clipped,
    grouped,
    mean,
    seconds_since,
    short_age,
    short_time,
    timestamp,
)
from fdbqueue.columns.workers_and_reasons import workers_of
from fdbqueue.service import Counts, End, Ends, Item, Minute, Pause, Queue, run

#: This many queues are read in one transaction.
QUEUES_AT_ONCE = 200
#: Pushes and pops per minute are means over this many minutes, the present one included.
RATE_MINUTES = 5
#: An item that is ready for longer has waited too long; a label says it in words.
OLDEST_SECONDS = 3_600
#: A task that is ready for longer would have been taken by a worker that has nothing to do.
WORKERLESS_SECONDS = 10
_HOUR_MINUTES = 60
REASON_CHARACTERS = 40
_NO_COUNTS = Counts(0, 0, 0, 0)
_NO_ENDS = Ends(is_empty=True, undecodable=())


@dataclass(slots=True)
class QueueRow:
    """A queue and what is known of it; what was not read yet is empty.

    ``held`` is the name of the limit that gives workers nothing now, empty for none.
    ``is_workerless`` says that tasks wait, and no worker is there for them. ``first`` and ``last``
    are the items at its ends.
    ``history_minutes`` is how many minutes of its history are read, and ``rate_minutes`` how many
    of these the rates are means over, the present minute included.
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
    is_workerless: bool = False
    first: Item | None = None
    last: Item | None = None
    history_minutes: int = _HOUR_MINUTES
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


def begin_waits(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    """Begin to read the minutes that concerns look at: more if a queue keeps no push times."""
    dated = [row for row in rows if keeps_push_times(row.queue)]
    waits = [
        begin_rates(tr, dated),
        begin_history(tr, [row for row in rows if not keeps_push_times(row.queue)]),
    ]

    def wait() -> None:
        for one in waits:
            one()

    return wait


def begin_rates(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    """Begin to read the minutes that rates are means over."""
    return begin_history(tr, rows, only_rates=True)


def begin_workers(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
    """Begin to tell for which queues of tasks there is no worker, though tasks wait.

    To be waited for behind the counts, pauses and oldest items of the rows: it reads nothing
    unless a task has waited for ten seconds. There is no worker if those of this queue are lost; or
    if none has a row, none of its tasks is leased, and none was popped in the last minutes, because
    workers of older versions, and programs of a project's own, have no rows. If there are more
    workers than are read, nothing is said.
    """

    def wait() -> None:
        waiting = [row for row in rows if row.queue.workers is not None and _waits(row)]
        read = waiting[0].queue.workers if waiting else None
        found = None if read is None else read(tr)
        if found is None or not found.is_complete:
            return
        unseen = []
        for row in waiting:
            lost = [one.is_lost for one in workers_of(row.queue, found)]
            row.is_workerless = bool(lost) and all(lost)
            if not lost and row.counts.leased <= 0:
                unseen.append(row)
        begin_rates(tr, [row for row in unseen if not row.minutes])()
        for row in unseen:
            row.is_workerless = not any(minute.pops for minute in row.minutes[-RATE_MINUTES:])

    return wait


def _waits(row: QueueRow) -> bool:
    """Tell whether a ready item of a queue that is not paused has waited for a while."""
    if row.pause is not None or row.counts.ready <= 0 or row.oldest is None:
        return False
    return seconds_since(row.oldest) > WORKERLESS_SECONDS


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
        remedy: Returns a command that helps; empty if ``queue_doctor`` has a check of its own.
    """

    name: str
    label: str | Promise
    meaning: str | Promise
    applies: Callable[[QueueRow], bool]
    figure: Callable[[QueueRow], str] = lambda _row: ""
    tab: str = "ready"
    remedy: Callable[[QueueRow], str] = lambda _row: ""


def waits_too_long(oldest: datetime.datetime | None) -> bool:
    """Tell whether the oldest ready item, pushed at this time, has waited too long."""
    return oldest is not None and seconds_since(oldest) > OLDEST_SECONDS


def is_unattended(row: QueueRow) -> bool:
    """Tell whether items are pushed, and none is taken, though the queue is not paused.

    Pushes of the present minute do not count: no worker may have had the time to take them.
    """
    # without a worker it has a concern that says more
    return not row.is_workerless and not row.held and row.counts.leased <= 0 and _only_gets(row)


def _only_gets(row: QueueRow) -> bool:
    """Tell whether a queue that is not paused has ready items, gets more, and loses none."""
    recent = row.minutes[-RATE_MINUTES:]
    if row.pause is not None or row.counts.ready <= 0:
        return False
    return any(minute.pushes for minute in recent[:-1]) and not any(m.pops for m in recent)


def is_held(row: QueueRow) -> bool:
    """Tell whether items wait because of the queue's own limit, and for nothing else."""
    waits = _only_gets(row) or waits_too_long(row.oldest) or _has_old(row)
    return bool(row.held) and row.pause is None and waits


def is_growing(row: QueueRow) -> bool:
    """Tell whether items are pushed, and none leaves, though fewer are leased than wait.

    One slow lease is no reason why the others wait; a worker for each of them would be.
    """
    return 0 < row.counts.leased < row.counts.ready and not row.held and _only_gets(row)


def _has_old(row: QueueRow) -> bool:
    """Tell whether a queue that keeps no push times has a ready item that has waited too long.

    It has if more are ready than were pushed in that time.
    """
    minutes = row.minutes[-_HOUR_MINUTES:]
    if row.oldest is not None or len(minutes) < _HOUR_MINUTES or keeps_push_times(row.queue):
        return False
    return row.counts.ready > sum(minute.pushes for minute in minutes)


def keeps_push_times(queue: Queue) -> bool:
    """Tell whether the codec of a queue keeps when an item was pushed."""
    return queue.codec.keeps_metadata


def _held_by(row: QueueRow) -> str:
    """Return the limit that holds a queue, and how long its oldest item waits."""
    options, leased = row.queue.options, grouped(row.counts.leased)
    if row.held == "rate":
        limit = _("its rate") if options.rate is None else str(options.rate)
    elif options.max_leased is None:  # stored, as those of limited tasks
        limit = _("%(leased)s leased") % {"leased": leased}
    else:
        most = grouped(options.max_leased)
        limit = _("%(leased)s of %(most)s leased") % {"leased": leased, "most": most}
    return f"{limit}, {short_age(row.oldest)}" if row.oldest else str(limit)


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
WORKERLESS = Concern(
    name="workerless",
    label=_("No worker"),
    meaning=_("Tasks are ready, and no worker of this queue is alive: start tasks_worker."),
    applies=attrgetter("is_workerless"),
    figure=lambda row: short_age(row.oldest) if row.oldest else "",
    remedy=lambda _row: "tasks_worker",
)
#: What concerns look at.
CONCERN_READS = (
    *(begin_counts, begin_oldest, begin_pauses, begin_ends, begin_held, begin_waits),
    begin_workers,
)
CONCERNS = (
    MISMATCHED,
    BLOCKED,
    WORKERLESS,
    Concern(
        name="dead",
        label=_("Dead letters"),
        meaning=_("These items failed too often, or were buried. Redrive or remove them."),
        applies=lambda row: row.counts.dead > 0,
        figure=lambda row: grouped(row.counts.dead),
        tab="dead",
        remedy=lambda row: f"queue_list {shlex.quote(row.queue.name)} --by-reason",
    ),
    Concern(
        name="unattended",
        label=_("Pushes without pops"),
        meaning=_("Items are pushed, and nothing takes them."),
        applies=is_unattended,
        figure=lambda row: _("%(rate)s/min") % {"rate": mean(row.pushes)},
        remedy=lambda _row: "queue_list --workers",
    ),
    Concern(
        name="growing",
        label=_("Grows, no pops"),
        meaning=_(
            "Items are pushed, more are ready than leased, and none was popped or acknowledged in "
            "the last minutes: workers are stuck, slow, or too few."
        ),
        applies=is_growing,
        figure=lambda row: grouped(row.counts.ready),
        remedy=lambda row: f"queue_peek {shlex.quote(row.queue.name)} --state leased",
    ),
    Concern(
        name="overdue",
        label=_("Waiting for over an hour"),
        meaning=_("The oldest ready item has waited too long."),
        applies=lambda row: (waits_too_long(row.oldest) or _has_old(row)) and not is_held(row),
        figure=lambda row: short_age(row.oldest) if row.oldest else "",
        remedy=lambda row: f"queue_list {shlex.quote(row.queue.name)} --rates",
    ),
    Concern(
        name="held",
        label=_("Held by its limit"),
        meaning=_("Items wait because max_leased or rate lets workers take no more of them now."),
        applies=is_held,
        figure=_held_by,
    ),
    Concern(
        name="paused",
        label=_("Paused"),
        meaning=_("Pops and leases find nothing until the queue is resumed."),
        applies=lambda row: row.pause is not None,
        figure=lambda row: short_age(row.pause.since) if row.pause else "",
    ),
)


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
    is_name=True,
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
    alarm=lambda at: "warning" if waits_too_long(at) else "",
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
    reason = f": {clipped(pause.reason, REASON_CHARACTERS)}" if pause.reason else ""
    return f"paused {cell_age(pause.since)}{reason}"


def pause_record(pause: Pause | None) -> dict[str, Any] | None:
    """Return the object for a line of JSON, None for a queue that is not paused."""
    if pause is None:
        return None
    return {"since": timestamp(pause.since), "reason": pause.reason, "family": pause.family}


def resume_command(name: str, pause: Pause) -> str:
    """Return the command that ends the pause of a queue, without ``manage.py``."""
    return f"queue_resume {shlex.quote(pause.family or name)}"


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
    if row.is_workerless:
        words.append("no worker")
    return ", ".join(words) or NOTHING


def _status_alarm(row: QueueRow) -> str:
    if row.ends.undecodable or row.ends.mismatch is not None or row.is_workerless:
        return "bad"
    return "warning" if row.pause else ""


STATUS = QueueColumn(
    "status",
    _("Status"),
    lambda row: row,
    ValueKind(cell=_status),
    fold="wrap",
    fields=lambda row: {
        "blocked": row.ends.undecodable,
        "no_worker": row.is_workerless,
        "paused": pause_record(row.pause),
    },
    alarm=_status_alarm,
    is_sortable=False,
    reads=(begin_counts, begin_oldest, begin_pauses, begin_ends, begin_workers),
)

#: What is said of each queue wherever there is room for figures.
FIGURES = (*COUNTS.values(), OLDEST, *RATES)
#: What ``queue_list`` says, and with ``--rates``.
LISTED = (NAME, KIND, _CODEC, _PRIORITIES, *COUNTS.values(), OLDEST, STATUS)
STATS = (NAME, *FIGURES, STATUS)
