"""The concerns: the reasons why a queue needs attention.

:data:`CONCERNS` has them all, the worst first. Each looks at the row of a queue, which
:data:`CONCERN_READS` fill; only if a task waits do they read whether there is a worker. The list of
queues shows all concerns, and ``queue_doctor`` warns of those that have a remedy. To add one, add
it to :data:`CONCERNS`: it then has a line above the list, and a place in the order *trouble first*.
"""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns.queue_rows import (
    HOUR_MINUTES,
    RATE_MINUTES,
    QueueRow,
    begin_counts,
    begin_ends,
    begin_held,
    begin_history,
    begin_oldest,
    begin_pauses,
    begin_rates,
    begin_workers,
    keeps_push_times,
)
from fdbqueue.columns.text import grouped, mean, seconds_since, short_age

#: An item that is ready for longer has waited too long; a label says it in words.
OLDEST_SECONDS = 3_600


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
    minutes = row.minutes[-HOUR_MINUTES:]
    if row.oldest is not None or len(minutes) < HOUR_MINUTES or keeps_push_times(row.queue):
        return False
    return row.counts.ready > sum(minute.pushes for minute in minutes)


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


def _begin_minutes(tr: Any, rows: Sequence[QueueRow]) -> Callable[[], None]:
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


#: What concerns look at.
CONCERN_READS = (
    begin_counts,
    begin_oldest,
    begin_pauses,
    begin_ends,
    begin_held,
    _begin_minutes,
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
