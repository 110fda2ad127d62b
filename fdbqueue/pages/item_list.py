"""The items on the page of a queue: paged in both directions, filtered, and searched.

A position is the id of an item: a place in this queue that stays where it is while others
push and pop, whether or not the item is still there. Ids are not signed: the page shows
them anyway, the service refuses those that are not a place of this queue, and the permission
to view the queue is checked first.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fdbqueue.pages.columns import cells
from fdbqueue.pages.forms import ItemsForm
from fdbqueue.pages.item_columns import COLUMNS, ItemRow, shown
from fdbqueue.pages.sites import Addresses
from fdbqueue.pages.text import visible
from fdbqueue.service import Codec, Item, Queue, Scan, Undecodable, scan

#: A search looks at this many items before it asks whether to go on.
LOOKED_AT = 2_000
_OTHER_END = {"min": "max", "max": "min"}
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class ItemList:
    """One page of a queue's items, and the addresses of the pages around it.

    Attributes:
        items: The items, each with its number, counted along the pages from the first on.
        looked_at: How many items were looked at.
        start: The number of the first of these.
        previous: The address of the page before, None on the first page and on an empty one.
        following: The address of the page after, None on the last page.
        first: The address of the first page, None on that page.
    """

    items: list[tuple[int, Item]]
    looked_at: int
    start: int
    previous: str | None
    following: str | None
    first: str | None

    @property
    def last(self) -> int:
        """The number of the last item that was looked at."""
        return self.start + self.looked_at - 1


def read(queue: Queue, form: ItemsForm, tr: Any) -> ItemList:
    """Read the page of items that a valid form asks for.

    Raises:
        InvalidInput: A position is not one of this queue.
    """
    before = form.cleaned_data["before"]
    if before:
        found = _scan(queue, form, tr, before=before)
        if found.cursor is not None:
            return _backward(form, found)
        # the beginning is reached: show the whole first page, not the piece before an item
    after = None if before else form.cleaned_data["after"] or None
    return _forward(form, _scan(queue, form, tr, after=after), after)


def context(queue: Queue, form: ItemsForm, found: ItemList, addresses: Addresses) -> dict[str, Any]:
    """Return what the template shows of a page of items."""
    columns = shown(COLUMNS, queue, form.cleaned_data["state"])
    rows = [
        ItemRow(item, queue, position, addresses.item(queue.name, item.id))
        for position, item in found.items
    ]
    return {
        "columns": columns,
        "rows": [cells(columns, row) for row in rows],
        "items": found,
        "searched": form.cleaned_data["q"],
    }


def contains(wanted: str, codec: Codec) -> Callable[[Item], bool]:
    """Return a function that tells whether an item's value contains a text, ignoring case."""
    if not wanted:
        return lambda _item: True
    folded = _visible(wanted).casefold()
    return lambda item: folded in _visible(_text(item.value, codec)).casefold()


def _visible(text: str) -> str:
    """Return what :func:`visible` does, fast for megabytes that are not printable."""
    if text.isprintable():
        return text
    return text.translate({ord(c): visible(c) for c in set(text) if not c.isprintable()})


def _text(value: Any, codec: Codec) -> str:
    if isinstance(value, Undecodable):
        value = value.raw
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        return _ENCODE(value) if codec.holds == "json" else repr(value)
    except RecursionError:
        return ""


def _scan(
    queue: Queue, form: ItemsForm, tr: Any, *, after: str | None = None, before: str | None = None
) -> Scan:
    wanted = form.cleaned_data
    end, limit = wanted["end"], wanted["limit"]
    return scan(
        queue,
        contains(wanted["q"], queue.codec),
        tr=tr,
        most_found=limit,
        most_looked_at=LOOKED_AT if wanted["q"] else limit,
        end=end if before is None else _OTHER_END[end],
        after=after if before is None else before,
        **form.bounds(),
    )


def _forward(form: ItemsForm, found: Scan, after: str | None) -> ItemList:
    start = form.cleaned_data["start"] if after else 1
    following = previous = None
    if found.cursor is not None:
        following = form.items_address(after=found.cursor, start=start + found.looked_at)
    if after is not None and found.first is not None:  # "before" would pass by ``after`` itself
        previous = form.items_address(before=found.first, start=start)
    return ItemList(
        items=[(start + passed, item) for passed, item in found.found],
        looked_at=found.looked_at,
        start=start,
        previous=previous,
        following=following,
        first=None if after is None else form.items_address(),
    )


def _backward(form: ItemsForm, found: Scan) -> ItemList:
    assert found.first is not None
    behind = form.cleaned_data["start"]  # the number of the item that this page is before
    start = max(1, behind - found.looked_at)
    last = start + found.looked_at - 1
    return ItemList(
        items=[(last - passed, item) for passed, item in reversed(found.found)],
        looked_at=found.looked_at,
        start=start,
        previous=form.items_address(before=found.cursor, start=start),
        following=form.items_address(after=found.first, start=last + 1),
        first=form.items_address(),
    )
