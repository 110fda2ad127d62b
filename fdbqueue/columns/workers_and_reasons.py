"""What is said over all queues: the workers there are, and the reasons of dead letters."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter

from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import COUNT, DURATION, NUMBER, PAST, TEXT, Column, ValueKind
from fdbqueue.service import Queue, WorkerRow, Workers, moment

#: What workers of tasks say that they work on.
_TASKS = "tasks"


@dataclass(slots=True)
class ReasonRow:
    """A reason, and how many dead letters of each queue have died of it.

    Attributes:
        reason: The name of its group; empty if none was given.
        counts: The queues, each with the number.
        position: Where it is in its list.
    """

    reason: str
    counts: list[tuple[Queue, int]] = field(default_factory=list)
    position: int = 0

    @property
    def number(self) -> int:
        """How many dead letters there are."""
        return sum(count for _queue, count in self.counts)

    def by_queue(self) -> list[tuple[Queue, int]]:
        """Return the queues and the numbers, the most first."""
        return sorted(self.counts, key=lambda one: (-one[1], one[0].name))


def workers_of(queue: Queue, found: Workers) -> list[WorkerRow]:
    """Return which of some workers may take from a queue, the lost ones, too.

    One that does not say from which queues it takes may take from all. The queues of an app are
    those of tasks, which workers of tasks alone run.
    """
    return [
        one
        for one in found.rows
        if one.may_serve(queue.home) and (queue.owner is None or one.kind == _TASKS)
    ]


#: What the pages call the states of a worker.
PRESENCES = {"alive": _("Alive"), "lost": _("Lost")}


def _is_lost(state: str) -> bool:
    return state == "lost"


#: The workers there are, whether they lease anything or not; each text is what they say themselves.
WORKER_COLUMNS: tuple[Column[WorkerRow], ...] = (
    Column("name", _("Worker"), attrgetter("name"), TEXT),
    Column(
        "state",
        _("State"),
        attrgetter("state"),
        ValueKind(written=PRESENCES.__getitem__),
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
