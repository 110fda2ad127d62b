"""Which queues need attention, and why.

A :class:`Concern` is one reason; :data:`CONCERNS` has them all, the worst first. Each looks at
what the pages read of a queue anyway (:data:`READS`), so none costs a read of its own. To add one,
add it to the tuple; it then has a line above the list and a place in the order *trouble first*.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from fdbqueue.pages.durations import short_age
from fdbqueue.pages.queue_rows import (
    RATE_MINUTES,
    QueueRow,
    begin_counts,
    begin_ends,
    begin_oldest,
    begin_pauses,
    begin_rates,
)
from fdbqueue.pages.text import grouped, mean

#: An item that is ready for longer has waited too long; a label says it in words.
OLDEST_SECONDS = 3_600
#: A line names this many queues at most.
NAMED = 5

#: What concerns look at.
READS = (begin_counts, begin_oldest, begin_pauses, begin_ends, begin_rates)


@dataclass(frozen=True, kw_only=True)
class Concern:
    """A reason why a queue needs attention.

    Attributes:
        name: Names it in ids and CSS classes.
        label: What it is called.
        meaning: Says what is wrong, as a sentence.
        applies: Tells whether a queue has it.
        figure: Returns how much of it a queue has; empty where there is no number.
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


class Group(NamedTuple):
    """A concern, the first queues that have it, and how many others have it, too."""

    concern: Concern
    mentions: list[Mention]
    others: int


@dataclass(frozen=True, slots=True)
class Attention:
    """The concerns of some queues, and how many of the queues have any."""

    groups: list[Group]
    troubled: int


def is_blocked(row: QueueRow) -> bool:
    """Tell whether an item at an end of a queue cannot be decoded."""
    return bool(row.ends.undecodable)


def is_overdue(row: QueueRow) -> bool:
    """Tell whether the oldest ready item has waited too long."""
    if row.oldest is None:
        return False
    now = datetime.datetime.now(datetime.timezone.utc)
    return (now - row.oldest).total_seconds() > OLDEST_SECONDS


def is_unattended(row: QueueRow) -> bool:
    """Tell whether items are pushed, and none is taken, though the queue is not paused.

    Pushes of the present minute do not count: no worker may have had the time to take them.
    """
    recent = row.minutes[-RATE_MINUTES:]
    if row.pause is not None or row.counts.leased or row.counts.ready <= 0:
        return False
    return any(minute.pushes for minute in recent[:-1]) and not any(m.pops for m in recent)


BLOCKED = Concern(
    name="blocked",
    label=_("Blocked"),
    meaning=_("The item at an end cannot be decoded, so pops and leases there fail."),
    applies=is_blocked,
)
CONCERNS = (
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
        applies=is_overdue,
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
            groups.append(Group(concern, mentions, len(found) - len(mentions)))
    return Attention(groups, sum(trouble(row) is not None for row in rows))
