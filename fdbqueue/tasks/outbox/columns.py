"""What is said of the rows of an outbox: on its page, and by ``tasks_outbox``."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from django.db.models import Count, Min
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import CODE, PAST, TEXT, Column
from fdbqueue.service import moment
from fdbqueue.tasks.columns import shown_path
from fdbqueue.tasks.outbox.models import OutboxTask
from fdbqueue.tasks.outbox.rows import Outbox

#: The most queues that are told apart.
_MOST_QUEUES = 1_000


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
    Column(name="id", heading=_("Task id"), value=attrgetter("result_id"), kind=CODE),
    Column(
        name="function",
        heading=_("Function"),
        value=lambda row: shown_path(row.function),
        kind=TEXT,
    ),
    Column(name="queue", heading=_("Queue"), value=attrgetter("queue"), kind=TEXT),
    Column(name="enqueued", heading=_("Enqueued"), value=enqueued, kind=PAST),
    Column(
        name="state",
        heading=_("State"),
        value=lambda row: _("Waits") if row.set_aside_us is None else _("Set aside"),
    ),
    Column(
        name="problem",
        heading=_("Not moved because"),
        value=lambda row: row.problem or None,
        kind=TEXT,
    ),
)


def sums(outbox: Outbox, is_shown: Callable[[str], bool] = lambda _: True) -> OutboxSums:
    """Count the rows of the queues that are shown, by their names."""

    def of(rows: Any) -> list[Any]:
        counted = rows.order_by("queue").values("queue")
        counted = counted.annotate(count=Count("id"), oldest=Min("enqueued_us"))[:_MOST_QUEUES]
        return [one for one in counted if is_shown(one["queue"])]

    waiting, aside = of(outbox.waiting), of(outbox.set_aside)
    oldest = min((one["oldest"] for one in waiting), default=None)
    return OutboxSums(
        sum(one["count"] for one in waiting),
        sum(one["count"] for one in aside),
        None if oldest is None else moment(oldest),
    )


def first_rows(
    outbox: Outbox, most: int, is_shown: Callable[[str], bool] = lambda _: True
) -> Iterator[OutboxTask]:
    """Yield the first rows, without what they push: those that were set aside, then the others.

    Args:
        outbox: The outbox.
        most: The most of each.
        is_shown: Tells whether rows of a queue are shown, by its name.
    """
    for rows in (outbox.set_aside, outbox.waiting):
        for row in rows.defer("call")[:most]:
            if is_shown(row.queue):
                yield row
