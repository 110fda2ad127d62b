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


@dataclass(frozen=True, slots=True)
class OutboxSums:
    """How many rows there are, and since when the oldest waits."""

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


def sums(outbox: Outbox) -> OutboxSums:
    """Count the rows."""
    waiting = outbox.waiting.order_by().aggregate(count=Count("id"), oldest=Min("enqueued_us"))
    oldest = waiting["oldest"]
    aside = outbox.set_aside.count()
    return OutboxSums(waiting["count"], aside, None if oldest is None else moment(oldest))


def first(rows: QuerySet[OutboxTask], most: int) -> list[OutboxTask]:
    """Return the first of some rows, without what they push."""
    return [*rows.defer("call")[:most]]
