"""The page of one item: its facts, its neighbours in the same state, and its value.

The value is shown as indented JSON, as text, or as bytes in hexadecimal: a long one up to a limit,
and all of it if the reader asks for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import facts
from fdbqueue.columns.items import ItemRow, read_row, shown
from fdbqueue.columns.text import command
from fdbqueue.pages.actions import acts_in
from fdbqueue.pages.forms import ItemForm
from fdbqueue.pages.readings import Reading
from fdbqueue.pages.sites import Addresses
from fdbqueue.pages.values import TEXT_CHARACTERS, WHOLE_CHARACTERS, show
from fdbqueue.service import Item, Queue, Undecodable, run

#: The page of a longer item does not refresh by itself: each time it would read all of the item.
MAX_REFRESHED_BYTES = 1_000_000


class Remedy(NamedTuple):
    """What helps an item that no pop gives, in words, and the command that does it."""

    text: str | Promise
    command: str


@dataclass(frozen=True, slots=True)
class ItemDetails:
    """An item, and the ids of its neighbours in the same state."""

    row: ItemRow
    previous: str | None
    following: str | None


def item_details(queue: Queue, item_id: str) -> ItemDetails:
    """Read an item and its neighbours, in one transaction.

    Raises:
        ItemNotFound: The item is not there, or no longer.
        InvalidInput: It is not the id of an item of this queue.
    """

    def read(tr: Any) -> ItemDetails:
        row = read_row(queue, item_id, tr)
        previous, following = (
            queue.page(end=end, after=item_id, limit=1, state=row.item.state, tr=tr).items
            for end in ("max", "min")
        )
        return ItemDetails(
            row,
            previous[0].id if previous else None,
            following[0].id if following else None,
        )

    return run(queue.database, read, read_only=True)


def is_cheap(details: ItemDetails) -> bool:
    """Tell whether reading an item again every few seconds costs little."""
    return details.row.item.size_bytes <= MAX_REFRESHED_BYTES


def facts_of(
    queue: Queue, details: ItemDetails, addresses: Addresses, reading: Reading
) -> dict[str, Any]:
    """Return what the template shows of an item, but for its value."""
    row, item = dataclasses.replace(details.row, addresses=addresses), details.row.item
    columns = shown(reading.facts, queue, item.state)
    return {
        "facts": facts([column for column in columns if not column.is_place], row),
        "places": facts([column for column in columns if column.is_place], row),
        "previous_item": details.previous and addresses.item(queue.name, details.previous),
        "next_item": details.following and addresses.item(queue.name, details.following),
        "remedy": _remedy(queue, item),
        "item_id": item.id,
        "acts": _acts(item, reading),
    }


def _acts(item: Item, reading: Reading) -> str:
    """Return the names of the actions on an item; what cannot be decoded is not redriven."""
    names = acts_in(item.state, of_tasks=reading.task is not None)
    is_decodable = not isinstance(item.value, Undecodable)
    return " ".join(one for one in names if is_decodable or one != "redrive")


def _remedy(queue: Queue, item: Item) -> Remedy | None:
    """Return what helps a dead letter, or a ready item that cannot be decoded; None for others."""
    is_decodable = not isinstance(item.value, Undecodable)
    if item.state == "dead" and not is_decodable:
        text = _("It cannot be decoded, and would block the queue. Remove it:")
        return Remedy(text, command("queue_remove", queue.name, item.id))
    if item.state == "dead":
        text = _("Redrive it, as if it had never been tried:")
        return Remedy(text, command("queue_redrive", queue.name, id=item.id))
    if item.state == "ready" and not is_decodable:
        text = _("Make it a dead letter, which keeps its bytes:")
        return Remedy(text, bury_command(queue, [item.id]))
    return None


def bury_command(queue: Queue, item_ids: Iterable[str]) -> str:
    """Return the command that makes items that cannot be decoded dead letters."""
    return command("queue_bury", queue.name, *item_ids, reason="undecodable")


def value_context(queue: Queue, details: ItemDetails, form: ItemForm) -> dict[str, Any]:
    """Return the value, and the address that shows all of it if its text is cut."""
    item, is_whole = details.row.item, form.cleaned_data["show"] == "whole"
    value = show(item.value, queue.codec, WHOLE_CHARACTERS if is_whole else TEXT_CHARACTERS)
    can_show_all = value.cut and not value.is_dump and not is_whole
    return {
        "is_decodable": not isinstance(item.value, Undecodable),
        "value": value,
        "whole": form.address(show="whole") + "#value-heading" if can_show_all else "",
    }
