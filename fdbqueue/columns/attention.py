"""Why a queue needs attention, in words, and what helps: its *concerns*.

:data:`CONCERNS` has them all, the worst first. Each looks at the row of a queue, which
:data:`CONCERN_READS` fill; why a queue does not move is found in :mod:`attention_causes`. The list
of queues, ``queue_list``, ``queue_doctor``, the health check and the metrics say the concerns of a
queue, in the same words. To add one, add it to :data:`CONCERNS`: it then has a line above the list,
and a place in the order *trouble first*.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns.attention_causes import begin_movement
from fdbqueue.columns.queue_rows import (
    QueueRow,
    begin_counts,
    begin_ends,
    begin_held,
    begin_oldest,
    begin_pauses,
)
from fdbqueue.columns.text import duration, grouped, short_age
from fdbqueue.service import Pause

#: What concerns look at.
CONCERN_READS = (
    begin_counts,
    begin_oldest,
    begin_pauses,
    begin_ends,
    begin_held,
    begin_movement,
)


@dataclass(frozen=True, kw_only=True)
class Concern:
    """A reason why a queue needs attention.

    Attributes:
        name: Names it in ids and CSS classes, in JSON, and as a cause of ``attention_causes.py``.
        label: What it is called.
        meaning: Says what is wrong and what to do, as a sentence.
        applies: Tells whether a queue has it; None if it is among its causes.
        figure: Returns how much of it a queue has; empty if there is no number.
        tab: The state whose items show it.
        remedy: Returns the command that helps, without ``manage.py``; empty if none does.
        is_checked: Whether ``queue_doctor`` has a check of its own.
        stands: Whether the queue stands still by a fault, not because somebody wants it to.
    """

    name: str
    label: str | Promise
    meaning: str | Promise
    applies: Callable[[QueueRow], bool]
    figure: Callable[[QueueRow], str] = lambda _row: ""
    tab: str = "ready"
    remedy: Callable[[QueueRow], str] = lambda _row: ""
    is_checked: bool = False
    stands: bool = False

    def text(self, row: QueueRow) -> str:
        """Return all of it as a text."""
        figure = f" ({self.figure(row)})" if self.figure(row) else ""
        return f"{self.label}{figure}: {self.meaning}"


def concerns_of(row: QueueRow) -> list[Concern]:
    """Return the concerns of a queue, the worst first."""
    return [one for one in CONCERNS if one.applies(row)]


def waits_too_long(row: QueueRow) -> bool:
    """Tell whether the oldest ready item has waited too long."""
    return not row.causes.keys().isdisjoint({"idle", "untaken", "slow", "limit"})


def resume_command(name: str, pause: Pause) -> str:
    """Return the command that ends the pause of a queue, without ``manage.py``."""
    return f"queue_resume {shlex.quote(pause.family or name)}"


def start_command(row: QueueRow) -> str:
    """Return the command that starts a worker of a queue, without ``manage.py``."""
    if row.queue.owner is not None:
        return "tasks_worker"
    return f"queue_work {shlex.quote(row.queue.name)} --handler PATH"


def _give_back_command(row: QueueRow) -> str:
    worker = row.causes["lost_leases"].worker
    assert worker is not None
    return f"queue_give_back {shlex.quote(row.queue.name)} --worker {shlex.quote(worker.name)}"


def _for_long(row: QueueRow, name: str) -> str:
    """Return for how long something could be taken, and who does not."""
    seconds, worker, leases = row.causes[name]
    words = [] if worker is None else [worker.name]
    words += [] if seconds is None else [duration(seconds)]
    words += [grouped(leases)] if leases else []
    return ", ".join(words)


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


def _cause(
    name: str,
    label: str | Promise,
    meaning: str | Promise,
    remedy: Callable[[QueueRow], str] = start_command,
    *,
    tab: str = "ready",
    stands: bool = True,
) -> Concern:
    """Return the concern that a cause why queues do not move is."""
    return Concern(
        name=name,
        label=label,
        meaning=meaning,
        applies=lambda row: name in row.causes,
        figure=lambda row: _for_long(row, name),
        tab=tab,
        remedy=remedy,
        stands=stands,
    )


MISMATCHED = Concern(
    name="mismatched",
    label=_("Other settings"),
    meaning=_(
        "The queue was written under another kind, codec, priority type or order than the setting "
        "here says, so pushes, pops and leases fail."
    ),
    applies=lambda row: row.ends.mismatch is not None,
    remedy=lambda row: f"queue_doctor {shlex.quote(row.queue.name)}",
    is_checked=True,
    stands=True,
)
BLOCKED = Concern(
    name="blocked",
    label=_("Blocked"),
    meaning=_("The item at an end cannot be decoded, so pops and leases there fail."),
    applies=lambda row: bool(row.ends.undecodable_ids),
    remedy=lambda row: f"queue_doctor {shlex.quote(row.queue.name)} --repair",
    is_checked=True,
    stands=True,
)
PAUSED = Concern(
    name="paused",
    label=_("Paused"),
    meaning=_("Pops and leases find nothing until the queue is resumed."),
    applies=lambda row: row.pause is not None,
    figure=lambda row: short_age(row.pause.since) if row.pause else "",
    remedy=lambda row: resume_command(row.queue.name, row.pause) if row.pause else "",
    is_checked=True,
)
CONCERNS = (
    MISMATCHED,
    BLOCKED,
    _cause(
        "lost",
        _("No worker: lost"),
        _(
            "Items can be taken, and every worker of the queue is lost: it was killed, hangs, or "
            "does not reach the engine. Start one."
        ),
    ),
    _cause(
        "no_worker",
        _("No worker"),
        _("Items can be taken, and no worker of the queue is alive. Start one."),
    ),
    _cause(
        "lost_leases",
        _("Leases of a lost worker"),
        _("A worker that is lost holds items until its leases end. Give them back."),
        _give_back_command,
        tab="leased",
        stands=False,
    ),
    _cause(
        "idle",
        _("Worker takes nothing"),
        _(
            "Items can be taken, and a worker that is alive takes none: it is busy with what it "
            "has, or hangs. Start another one, or restart it."
        ),
    ),
    _cause(
        "untaken",
        _("Nothing takes items"),
        _("Items can be taken, and nothing takes them. Start a worker."),
    ),
    Concern(
        name="dead",
        label=_("Dead letters"),
        meaning=_("These items failed too often, or were buried. Redrive or remove them."),
        applies=lambda row: row.counts.dead > 0,
        figure=lambda row: grouped(row.counts.dead),
        tab="dead",
        remedy=lambda row: f"queue_list {shlex.quote(row.queue.name)} --by-reason",
    ),
    _cause(
        "slow",
        _("Waits too long"),
        _("Items are taken, but the oldest waits too long. Start more workers."),
        stands=False,
    ),
    Concern(
        name="limit",
        label=_("At its limit"),
        meaning=_(
            "Items wait because max_leased or rate lets workers take no more of them now. If it is "
            "too low, raise it in the setting."
        ),
        applies=lambda row: "limit" in row.causes,
        figure=_held_by,
    ),
    PAUSED,
)
