"""The page of one item: its facts, its neighbours in the same state, and its value.

The value is shown as a tree with its text folded below, as its whole text, or as the bytes that are
stored. A search leads here with its text, whose hits in the value are highlighted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import facts
from fdbqueue.columns.items import ItemRow, read_row, shown
from fdbqueue.columns.text import command
from fdbqueue.pages.forms import ItemForm
from fdbqueue.pages.readings import Reading
from fdbqueue.pages.search import Highlighter
from fdbqueue.pages.sites import Addresses
from fdbqueue.pages.values import TEXT_CHARACTERS, WHOLE_CHARACTERS, dumped, show, tree
from fdbqueue.service import Item, LongText, Queue, Undecodable, run

#: The page of a longer item does not refresh by itself: each time it would read all of the item.
MAX_REFRESHED_BYTES = 1_000_000


class Remedy(NamedTuple):
    """What helps an item that no pop gives, in words, and the command that does it."""

    text: str | Promise
    command: str


class WayToShow(NamedTuple):
    """A way to show the value, and the address that shows it so."""

    label: str | Promise
    address: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class ItemDetails:
    """An item, and the ids of its neighbours in the same state.

    ``stored`` are the bytes under its key, if they were asked for.
    """

    row: ItemRow
    stored: bytes | None
    previous: str | None
    following: str | None


def item_details(queue: Queue, item_id: str, form: ItemForm) -> ItemDetails:
    """Read an item and its neighbours, in one transaction.

    Raises:
        ItemNotFound: The item is not there, or no longer.
        InvalidInput: It is not the id of an item of this queue.
    """
    wants_bytes = form.cleaned_data["show"] == "bytes"

    def read(tr: Any) -> ItemDetails:
        row = read_row(queue, item_id, tr)
        previous, following = (
            queue.page(end=end, after=item_id, limit=1, state=row.item.state, tr=tr).items
            for end in ("max", "min")
        )
        return ItemDetails(
            row,
            bytes(tr[row.key]) if wants_bytes else None,
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
    """Return the names of the actions on an item; one that is a task is requeued alone."""
    more = "" if reading.task is not None else "remove"
    requeue = "" if isinstance(item.value, Undecodable) else "redrive "
    return {"dead": f"{requeue}{more}", "ready": f"bury {more}" if more else ""}.get(
        item.state, more
    )


def _remedy(queue: Queue, item: Item) -> Remedy | None:
    """Return what helps a dead letter, or a ready item that cannot be decoded; None for others."""
    is_decodable = not isinstance(item.value, Undecodable)
    if item.state == "dead" and not is_decodable:
        text = _("It cannot be decoded, and would block the queue. Remove it:")
        return Remedy(text, command("queue_remove", queue.name, item.id))
    if item.state == "dead":
        text = _("Requeue it, as if it had never been tried:")
        return Remedy(text, command("queue_redrive", queue.name, id=item.id))
    if item.state == "ready" and not is_decodable:
        text = _("Make it a dead letter, which keeps its bytes:")
        return Remedy(text, bury_command(queue, [item.id]))
    return None


def bury_command(queue: Queue, item_ids: Iterable[str]) -> str:
    """Return the command that makes items that cannot be decoded dead letters."""
    return command("queue_bury", queue.name, *item_ids, reason="undecodable")


def _choices(queue: Queue, item: Item, form: ItemForm) -> list[WayToShow]:
    """Return the ways to show a value, without ways that would show the same."""
    is_text = not isinstance(item.value, bytes | Undecodable)
    first = _("As a tree") if _is_json(queue, item) else _("As text")
    labels = {"value": first if is_text else _("The value's bytes")}
    if is_text:
        labels["text"] = _("Show the whole value")
    labels["bytes"] = _("Raw bytes, as stored")
    chosen = form.cleaned_data["show"]
    return [
        WayToShow(label, form.address(show=name) + "#value-heading", name == chosen)
        for name, label in labels.items()
    ]


def value_context(queue: Queue, details: ItemDetails, form: ItemForm) -> dict[str, Any]:
    """Return the value as the reader has chosen to see it, and how many hits it has."""
    item, chosen = details.row.item, form.cleaned_data["show"]
    highlighter = Highlighter(form.cleaned_data["q"])
    markup = _tree(item.value, highlighter) if chosen == "value" and _is_json(queue, item) else None
    most = WHOLE_CHARACTERS if chosen == "text" else TEXT_CHARACTERS
    if details.stored is None:
        value = show(item.value, queue.codec, most)
    else:
        value = dumped(details.stored, max(item.size_bytes, len(details.stored)))
    is_plain = value.is_dump or highlighter.count  # the lines of a dump break hits
    text = (Highlighter("") if is_plain else highlighter).highlighted(value.text)
    return {
        "is_decodable": not isinstance(item.value, Undecodable),
        "choices": _choices(queue, item, form),
        "value": value,
        "tree": markup,
        "text": text,
        "is_open": not markup or "<mark" in text,
        "wanted": form.cleaned_data["q"],
        "hits": highlighter.count,
    }


def _is_json(queue: Queue, item: Item) -> bool:
    return queue.codec.holds == "json" and not isinstance(item.value, LongText | Undecodable)


def _tree(value: Any, highlighter: Highlighter) -> SafeString | None:
    """Return the markup of a JSON value, None if it is nested too deeply."""
    try:
        return tree(value, highlighter)
    except RecursionError:
        return None
