"""Items as rows of a table."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from fdbqueue.pages.previews import Preview, age, ahead, number, preview, visible
from fdbqueue.service.items import Item
from fdbqueue.service.queues import Queue


@dataclass(frozen=True, slots=True)
class ItemRow:
    """An item as a table shows it.

    ``until`` is when its lease or its delay ends, ``reason`` why it is dead.
    """

    id: str
    state: str
    priority: str | None
    pushed_at: datetime.datetime | None
    age: str
    attempts: str
    size_bytes: str
    preview: Preview
    until: datetime.datetime | None
    until_text: str
    reason: str
    position: int = 0
    address: str = ""


def item_row(item: Item, queue: Queue, *, position: int = 0, address: str = "") -> ItemRow:
    """Return how a table shows an item."""
    return ItemRow(
        id=item.id,
        state=item.state,
        priority=None if item.priority is None else number(item.priority),
        pushed_at=item.pushed_at,
        age="" if item.pushed_at is None else age(item.pushed_at),
        attempts=number(item.attempts),
        size_bytes=number(item.size_bytes),
        preview=preview(item.value, queue.codec.name),
        until=item.until,
        until_text="" if item.until is None else ahead(item.until),
        reason=visible((item.reason or "")[:1_000]),
        position=position,
        address=address,
    )
