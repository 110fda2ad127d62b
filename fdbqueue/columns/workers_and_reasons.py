"""What is said over all queues: the workers there are, and sums of leases and of dead letters.

A row of leases or of dead letters is made of the items that a page has read, never of others: how
many those are of how many, the page says, whose links are its columns.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter

from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import COUNT, DURATION, NUMBER, PAST, TEXT, Column, ValueKind
from fdbqueue.columns.items import ItemRow
from fdbqueue.service import Item, Queue, WorkerRow, Workers, group_of_text, moment

#: What workers of tasks say that they work on.
_TASKS = "tasks"
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
    """Return the reasons of dead letters, the latest death's first."""
    found: dict[str, ReasonRow] = {}
    for row in rows:
        reason = group_of_text(row.item.reason or "").decode(errors="replace")
        found.setdefault(reason, ReasonRow(reason)).rows.append(row)
    return sorted(found.values(), key=lambda one: died_at(one.latest), reverse=True)


def workers_of(queue: Queue, found: Workers) -> list[WorkerRow]:
    """Return which of some workers may take from a queue, the lost ones, too.

    One that does not say from which queues it takes may take from all. Tasks are run by workers of
    tasks alone.
    """
    return [
        one
        for one in found.rows
        if one.may_serve(queue.home) and (queue.workers is None or one.kind == _TASKS)
    ]


#: What the pages call the states of a worker.
_PRESENCES = {"alive": _("Alive"), "lost": _("Lost")}


def _is_lost(state: str) -> bool:
    return state == "lost"


#: The workers there are, whether they lease anything or not; each text is what they say themselves.
WORKER_COLUMNS: tuple[Column[WorkerRow], ...] = (
    Column("name", _("Worker"), attrgetter("name"), TEXT),
    Column(
        "state",
        _("State"),
        attrgetter("state"),
        ValueKind(written=_PRESENCES.__getitem__),
        css=lambda state: "fdbqueue-problem" if _is_lost(state) else "",
        alarm=lambda state: "bad" if _is_lost(state) else "",
    ),
    Column("age_seconds", _("Silent for"), attrgetter("age_seconds"), DURATION, label="SILENT"),
    Column("kind", _("Kind"), attrgetter("kind"), TEXT),
    Column("host", _("Host"), attrgetter("host"), TEXT),
    Column("process", _("Process"), attrgetter("process"), NUMBER),
    Column("version", _("Version"), attrgetter("version"), TEXT),
    Column("threads", _("Threads"), attrgetter("threads"), COUNT),
    Column("running", _("Running"), attrgetter("running"), COUNT),
    Column("done", _("Done"), attrgetter("done"), COUNT),
    Column("failed", _("Failed"), attrgetter("failed"), COUNT),
    Column("since", _("Since"), lambda row: moment(row.since_us) if row.since_us else None, PAST),
    Column("queues", _("Queues"), attrgetter("queues"), TEXT),
)
