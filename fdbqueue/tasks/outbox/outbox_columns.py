"""The facts of the rows of an outbox, on its page and by ``tasks_outbox``."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from operator import attrgetter

from django.db.models import Count, Min, QuerySet
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import CODE, PAST, TEXT, Column
from fdbqueue.service import moment
from fdbqueue.tasks.columns import shown_path
from fdbqueue.tasks.outbox.models import OutboxTask
from fdbqueue.tasks.outbox.outbox_rows import Outbox
from fdbqueue.viewer import EVERYTHING, Viewer

#: So many queues are named in one query.
_NAMES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class OutboxSums:
    """How many rows there are in some queues, and since when the oldest waits."""

    waiting: int
    set_aside: int
    oldest: datetime.datetime | None


def enqueued(row: OutboxTask) -> datetime.datetime:
    """Return when a row was enqueued."""
    return moment(row.enqueued_us)


COLUMNS: tuple[Column[OutboxTask], ...] = (
    Column("id", _("Task id"), attrgetter("result_id"), CODE),
    Column("function", _("Function"), lambda row: shown_path(row.function), TEXT),
    Column("queue", _("Queue"), attrgetter("queue"), TEXT),
    Column("enqueued", _("Enqueued"), enqueued, PAST),
    Column(
        "state", _("State"), lambda row: _("Waits") if row.set_aside_us is None else _("Set aside")
    ),
    Column("problem", _("Not moved because"), lambda row: row.problem or None, TEXT),
)


def sums(outbox: Outbox, viewer: Viewer = EVERYTHING) -> OutboxSums:
    """Count the rows of the queues that a viewer may see."""
    waiting, oldest = count(outbox.waiting, viewer)
    aside, _oldest = count(outbox.set_aside, viewer)
    return OutboxSums(waiting, aside, oldest)


def count(rows: QuerySet[OutboxTask], viewer: Viewer) -> tuple[int, datetime.datetime | None]:
    """Count the rows that a viewer may see; return when the first was enqueued, too."""
    of_queues = rows.order_by("queue").values("queue")
    of_queues = of_queues.annotate(count=Count("id"), oldest=Min("enqueued_us"))
    total, oldest = 0, None
    for one in of_queues.iterator():
        if viewer.sees(one["queue"]):
            total += one["count"]
            oldest = one["oldest"] if oldest is None else min(oldest, one["oldest"])
    return total, None if oldest is None else moment(oldest)


def first(rows: QuerySet[OutboxTask], most: int, viewer: Viewer = EVERYTHING) -> list[OutboxTask]:
    """Return the first of some rows that a viewer may see, without what they push.

    Rows that the viewer may not see take no place: if one is among the first, the queues that are
    to be seen are found out, and then only rows of these are read.
    """
    rows = rows.defer("call")
    found = [*rows[:most]]
    if viewer.sees_each(row.queue for row in found):
        return found
    names = [*filter(viewer.sees, rows.order_by().values_list("queue", flat=True).distinct())]
    found = []
    for begin in range(0, len(names), _NAMES_AT_ONCE):
        more = rows.filter(queue__in=names[begin : begin + _NAMES_AT_ONCE])[:most]
        found += [row for row in more if viewer.sees(row.queue)]  # of some databases "a" is "A"
        found = sorted(found, key=attrgetter("pk"))[:most]
    return found
