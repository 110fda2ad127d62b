"""What the page of a queue, and that of an item, reads: each in one transaction."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from fdbqueue.pages.charts import Chart, depth_chart, rate_chart
from fdbqueue.pages.forms import ItemsForm
from fdbqueue.pages.previews import age
from fdbqueue.pages.priorities import LEVELS, Level, Priorities, priorities_of
from fdbqueue.pages.queues import rates
from fdbqueue.pages.windows import Window, window
from fdbqueue.service.items import Item
from fdbqueue.service.overview import depths
from fdbqueue.service.queues import Queue
from fdbqueue.service.storage.counts import Counts
from fdbqueue.service.transactions import run

MINUTES = {"hour": 60, "day": 24 * 60}


@dataclass(frozen=True, slots=True)
class QueueDetails:
    """What is known of a queue, and one page of its items."""

    counts: Counts
    oldest: datetime.datetime | None
    oldest_age: str
    pushes: float
    pops: float
    charts: tuple[Chart, ...]
    priorities: Priorities | None
    window: Window


@dataclass(frozen=True, slots=True)
class ItemDetails:
    """An item, the ids of its neighbours in the same state, and the key it is stored under."""

    item: Item
    key: bytes
    previous: str | None
    following: str | None


def queue_details(queue: Queue, form: ItemsForm) -> QueueDetails:
    """Read a queue: a dozen reads at most, however long it is.

    Raises:
        InvalidInput: A position is none of this queue.
    """
    return run(queue.database, lambda tr: _queue_details(queue, form, tr), read_only=True)


def _queue_details(queue: Queue, form: ItemsForm, tr: Any) -> QueueDetails:
    span = form.cleaned_data["span"]
    counts_answer = queue.overview.ask_counts(tr)
    history_answer = queue.overview.ask_history(tr, MINUTES[span])
    oldest_answer = queue.overview.ask_oldest(tr)()
    levels, is_cut = _levels(queue, tr)
    found = window(queue, form, tr)
    counts, minutes, oldest = counts_answer(), history_answer(), oldest_answer()
    pushes, pops = rates(minutes)
    return QueueDetails(
        counts=counts,
        oldest=oldest,
        oldest_age="" if oldest is None else age(oldest),
        pushes=pushes,
        pops=pops,
        charts=(depth_chart(depths(counts, minutes), span), rate_chart(minutes, span)),
        priorities=priorities_of(levels, counts.ready, queue.priority_type, is_cut=is_cut),
        window=found,
    )


def _levels(queue: Queue, tr: Any) -> tuple[list[Level], bool]:
    """Return the lowest priorities in use, and whether there may be more of them."""
    if not queue.priority_type:
        return [], False
    return queue.overview.lowest_levels(tr, LEVELS)


def item_details(queue: Queue, item_id: str) -> ItemDetails:
    """Read an item and its neighbours.

    Raises:
        ItemNotFound: The item is not there, or no longer.
        InvalidInput: It is no item's id in this queue.
    """

    def read(tr: Any) -> ItemDetails:
        item = queue.get(item_id, tr=tr)
        previous, following = (
            queue.page(end=end, after=item_id, limit=1, state=item.state, tr=tr).items
            for end in ("max", "min")
        )
        return ItemDetails(
            item,
            queue.overview.key_of(item),
            previous[0].id if previous else None,
            following[0].id if following else None,
        )

    return run(queue.database, read, read_only=True)
