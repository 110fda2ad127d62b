"""Read what the pages show, as rows of a table: the ends of a queue, or a page of it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from fdbqueue.pages.previews import Preview, age, number, preview
from fdbqueue.service.base import Queue
from fdbqueue.service.items import Item
from fdbqueue.service.transactions import run


@dataclass(frozen=True, slots=True)
class ItemRow:
    """An item as a table shows it."""

    id: str
    priority: str | None
    pushed_at: datetime.datetime | None
    age: str
    attempts: str
    size_bytes: str
    preview: Preview


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue as the list shows it: without a first item it is empty."""

    queue: Queue
    first: ItemRow | None
    last: ItemRow | None


@dataclass(frozen=True, slots=True)
class Rows:
    """One page of a queue's items, and the cursor of the next page if there is one."""

    items: list[ItemRow]
    cursor: str | None


def item_row(item: Item, queue: Queue) -> ItemRow:
    """Return how a table shows an item."""
    return ItemRow(
        id=item.id,
        priority=None if item.priority is None else number(item.priority),
        pushed_at=item.pushed_at,
        age="" if item.pushed_at is None else age(item.pushed_at),
        attempts=number(item.attempts),
        size_bytes=number(item.size_bytes),
        preview=preview(item.value, queue.codec.name),
    )


def queue_row(queue: Queue) -> QueueRow:
    """Read both ends of a queue in one transaction: two rows, however long it is."""

    def ends(tr: Any) -> list[Item]:
        first = queue.page(end="min", limit=1, tr=tr).items
        return first + queue.page(end="max", limit=1, tr=tr).items

    rows = [item_row(item, queue) for item in run(queue.database, ends)]
    return QueueRow(queue, rows[0], rows[-1]) if rows else QueueRow(queue, None, None)


def item_rows(queue: Queue, limit: int, **bounds: Any) -> Rows:
    """Read a page of a queue, and one item more, so that no page links to an empty one.

    Args:
        queue: The queue.
        limit: The most rows.
        bounds: The other arguments of ``queue.page()``.

    Raises:
        InvalidInput: A bound does not fit the queue.
    """
    page = queue.page(limit=limit + 1, **bounds)
    shown = page.items[:limit]
    cursor = shown[-1].id if len(page.items) > limit else page.cursor
    return Rows([item_row(item, queue) for item in shown], cursor)
