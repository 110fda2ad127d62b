"""The columns of the pages over all queues: workers, leases, and the reasons of dead letters.

A row of leases or of dead letters is made of the items that a page has read, never of others: how
many those are of how many, the page says. To add something, add a column to :data:`PRESENT`,
:data:`WORKERS`, :data:`LEASES` or :data:`REASONS`, and what it says to the row.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter

from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import COUNT, DURATION, FUTURE, NUMBER, PAST, TEXT, WORD, Column, ValueKind
from fdbqueue.columns.items import ATTEMPTS, DIED, LEASED_AT, LEASED_UNTIL, WORKER, ItemRow
from fdbqueue.service import Item, WorkerRow, group_named, moment

_NEVER = datetime.datetime.min.replace(tzinfo=datetime.timezone.utc)


@dataclass(slots=True)
class WorkerLeases:
    """A worker, and the leases that it was seen to hold; ``name`` is None if it gave none."""

    name: str | None
    leases: int = 0
    queues: set[str] = field(default_factory=set)
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None

    def add(self, item: Item) -> None:
        """Add a lease."""
        self.leases += 1
        self.queues.add(item.queue)
        self.since = min((at for at in (self.since, item.leased_at) if at), default=None)
        self.until = min((at for at in (self.until, item.until) if at), default=None)


@dataclass(slots=True)
class ReasonRow:
    """A reason, and the dead letters that were seen to have died of it.

    Attributes:
        reason: The name of its group; empty if none was given.
        rows: The items.
        position: Where it is in its list.
    """

    reason: str
    rows: list[ItemRow] = field(default_factory=list)
    position: int = 0

    @property
    def latest(self) -> ItemRow:
        """The one that died last."""
        return max(self.rows, key=died_at)

    def by_queue(self) -> list[tuple[ItemRow, int]]:
        """Return an item of each queue, and how many there are, the most first."""
        counts: dict[str, int] = {}
        first: dict[str, ItemRow] = {}
        for row in self.rows:
            counts[row.queue.name] = counts.get(row.queue.name, 0) + 1
            first.setdefault(row.queue.name, row)
        ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        return [(first[name], count) for name, count in ranked]


def died_at(row: ItemRow) -> datetime.datetime:
    """Return when an item died, the earliest moment there is if it does not say."""
    return row.item.died_at or _NEVER


def by_worker(rows: Iterable[ItemRow]) -> list[WorkerLeases]:
    """Return the workers of leased items, those with the most leases first."""
    found: dict[str | None, WorkerLeases] = {}
    for row in rows:
        name = row.item.worker or None
        found.setdefault(name, WorkerLeases(name)).add(row.item)
    return sorted(found.values(), key=lambda one: (-one.leases, one.name or ""))


def by_reason(rows: Iterable[ItemRow]) -> list[ReasonRow]:
    """Return the reasons of dead letters, that of the latest death first."""
    found: dict[str, ReasonRow] = {}
    for row in rows:
        reason = group_named(row.item.reason or "").decode(errors="replace")
        found.setdefault(reason, ReasonRow(reason)).rows.append(row)
    return sorted(found.values(), key=lambda one: died_at(one.latest), reverse=True)


#: What the pages call the states of a worker.
_PRESENCES = {"alive": _("Alive"), "lost": _("Lost")}


def _is_lost(state: str) -> bool:
    return state == "lost"


#: The workers there are, whether they lease anything or not; each text is what they say themselves.
PRESENT: tuple[Column[WorkerRow], ...] = (
    Column(name="name", heading=_("Worker"), value=attrgetter("name"), kind=TEXT, is_name=True),
    Column(
        name="state",
        heading=_("State"),
        value=attrgetter("state"),
        kind=ValueKind(written=_PRESENCES.__getitem__),
        css=lambda state: "fdbqueue-problem" if _is_lost(state) else "",
        alarm=lambda state: "bad" if _is_lost(state) else "",
    ),
    Column(
        name="age_seconds",
        heading=_("Silent for"),
        value=attrgetter("age_seconds"),
        kind=DURATION,
        label="SILENT",
    ),
    Column(name="kind", heading=_("Kind"), value=attrgetter("kind"), kind=TEXT),
    Column(name="host", heading=_("Host"), value=attrgetter("host"), kind=TEXT),
    Column(name="process", heading=_("Process"), value=attrgetter("process"), kind=NUMBER),
    Column(name="version", heading=_("Version"), value=attrgetter("version"), kind=TEXT),
    Column(name="threads", heading=_("Threads"), value=attrgetter("threads"), kind=COUNT),
    Column(name="running", heading=_("Running"), value=attrgetter("running"), kind=COUNT),
    Column(name="done", heading=_("Done"), value=attrgetter("done"), kind=COUNT),
    Column(name="failed", heading=_("Failed"), value=attrgetter("failed"), kind=COUNT),
    Column(
        name="since",
        heading=_("Since"),
        value=lambda row: moment(row.since_us) if row.since_us else None,
        kind=PAST,
    ),
    Column(name="queues", heading=_("Queues"), value=attrgetter("queues"), kind=TEXT, fold="wrap"),
)
#: The workers above the leases.
WORKERS: tuple[Column[WorkerLeases], ...] = (
    Column(name="worker", heading=_("Worker"), value=attrgetter("name"), kind=TEXT),
    Column(name="leases", heading=_("Leases"), value=attrgetter("leases"), kind=COUNT),
    Column(name="queues", heading=_("Queues"), value=lambda row: len(row.queues), kind=COUNT),
    Column(name="since", heading=_("Oldest since"), value=attrgetter("since"), kind=PAST),
    Column(name="until", heading=_("First ends"), value=attrgetter("until"), kind=FUTURE),
)
#: The leases of all queues. The pages make links of the item and the queue.
LEASES: tuple[Column[ItemRow], ...] = (
    Column(name="item", heading=_("Item or task"), value=attrgetter("item.id"), kind=WORD),
    Column(name="queue", heading=_("Queue"), value=attrgetter("queue.name"), kind=WORD),
    WORKER,
    LEASED_AT,
    LEASED_UNTIL,
    ATTEMPTS,
)
#: The reasons of dead letters.
REASONS: tuple[Column[ReasonRow], ...] = (
    Column(name="reason", heading=_("Reason"), value=attrgetter("reason"), kind=TEXT),
    Column(
        name="letters",
        heading=_("Dead letters"),
        value=lambda row: len(row.rows),
        kind=COUNT,
    ),
    Column(
        name="queues",
        heading=_("Queues"),
        value=lambda row: ", ".join(one.queue.name for one, _count in row.by_queue()),
        kind=WORD,
    ),
    Column(
        name="died_at", heading=_("Last died"), value=lambda row: DIED.value(row.latest), kind=PAST
    ),
    Column(
        name="latest",
        heading=_("Last item or task"),
        value=attrgetter("latest.item.id"),
        kind=WORD,
    ),
)
