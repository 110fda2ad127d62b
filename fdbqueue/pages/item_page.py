"""The page of one item: its facts, its neighbours in the same state, and its value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fdbqueue.pages.columns import facts
from fdbqueue.pages.item_columns import ItemRow, shown
from fdbqueue.pages.json_tree import tree
from fdbqueue.pages.readings import Reading
from fdbqueue.pages.sites import Addresses
from fdbqueue.pages.text import show
from fdbqueue.service import Item, Queue, Undecodable, run


@dataclass(frozen=True, slots=True)
class ItemDetails:
    """An item, its keys, and the ids of its neighbours in the same state.

    ``key`` is the one it is stored under; ``unique_while`` says how long it has its unique key.
    """

    item: Item
    key: bytes
    unique_while: str | None
    previous: str | None
    following: str | None


def item_details(queue: Queue, item_id: str) -> ItemDetails:
    """Read an item and its neighbours, in one transaction.

    Raises:
        ItemNotFound: The item is not there, or no longer.
        InvalidInput: It is not the id of an item of this queue.
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
            queue.overview.unique_while(tr, item),
            previous[0].id if previous else None,
            following[0].id if following else None,
        )

    return run(queue.database, read, read_only=True)


def context(
    queue: Queue, details: ItemDetails, addresses: Addresses, reading: Reading
) -> dict[str, Any]:
    """Return what the template shows of an item."""
    item = details.item
    is_decodable = not isinstance(item.value, Undecodable)
    is_json = queue.codec.holds == "json" and is_decodable
    row = ItemRow(item, queue, 0, addresses, details.key, details.unique_while)
    return {
        "facts": facts(shown(reading.facts, queue, item.state), row),
        "previous_item": details.previous and addresses.item(queue.name, details.previous),
        "next_item": details.following and addresses.item(queue.name, details.following),
        "value": show(item.value, queue.codec),
        "is_decodable": is_decodable,
        "tree": _tree(item.value) if is_json else None,
    }


def _tree(value: Any) -> str | None:
    """Return the markup of a JSON value, None if it is nested too deeply."""
    try:
        return tree(value)
    except RecursionError:
        return None
