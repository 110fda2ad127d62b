"""What the templates show of what was read."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from fdbqueue.pages import previews
from fdbqueue.pages.details import ItemDetails, QueueDetails
from fdbqueue.pages.forms import STATES, ItemsForm, QueuesForm
from fdbqueue.pages.mounts import Addresses
from fdbqueue.pages.numbers import grouped, mean
from fdbqueue.pages.priorities import Bucket
from fdbqueue.pages.queues import LOOKED_AT as QUEUES_LOOKED_AT
from fdbqueue.pages.queues import RATE_MINUTES, Listed, QueueRow
from fdbqueue.pages.rows import item_row
from fdbqueue.pages.trees import tree
from fdbqueue.service.items import Undecodable
from fdbqueue.service.queues import Queue
from fdbqueue.service.storage.counts import Counts


class Column(NamedTuple):
    """A column of the list: what it is called, and how to sort by it."""

    name: str
    label: str | Promise
    is_number: bool
    address: str
    order: str


class Tab(NamedTuple):
    """The items of one state: how many there are, and where."""

    name: str
    label: str | Promise
    items: str
    address: str
    is_chosen: bool


class Fact(NamedTuple):
    """Something about a queue; ``is_code`` where it is written for programs."""

    label: str | Promise
    value: str
    is_code: bool = False


_COLUMNS = {
    "name": _("Name"),
    "kind": _("Kind"),
    "ready": _("Ready"),
    "leased": _("Leased"),
    "delayed": _("Delayed"),
    "dead": _("Dead"),
    "oldest": _("Oldest"),
    "pushes": _("Pushes a minute"),
    "pops": _("Pops a minute"),
}


def queues(form: QueuesForm, found: Listed, addresses: Addresses) -> dict[str, Any]:
    """Return what the list shows."""
    page, after = form.cleaned_data["page"], form.cleaned_data["after"] or None
    last = found.first + len(found.rows) - 1
    return {
        "columns": [_column(form, name) for name in _COLUMNS],
        "rows": [_queue_row(row, addresses) for row in found.rows],
        "found": grouped(found.found),
        "first": grouped(found.first),
        "last": grouped(last),
        "looked_at": grouped(QUEUES_LOOKED_AT),
        "rate_minutes": RATE_MINUTES,
        "previous_page": form.address(page=page - 1, after=after) if page > 1 else None,
        "next_page": form.address(page=page + 1, after=after) if last < found.found else None,
        "further": None if found.following is None else form.address(after=found.following),
        "from_start": form.address() if after else None,
    }


def _column(form: QueuesForm, name: str) -> Column:
    order = ""
    if form.column == name:
        order = "descending" if form.is_descending else "ascending"
    is_number = name not in {"name", "kind"}
    return Column(name, _COLUMNS[name], is_number, form.sorted_by(name), order)


def _queue_row(row: QueueRow, addresses: Addresses) -> dict[str, Any]:
    return {
        "name": row.queue.name,
        "kind": row.queue.kind,
        "address": addresses.queue(row.queue.name),
        "counts": _counted(row.counts),
        "oldest": row.oldest,
        "oldest_age": row.oldest_age,
        "pushes": mean(row.pushes),
        "pops": mean(row.pops),
        "depth": row.depth,
    }


def _counted(counts: Counts) -> list[tuple[str, str]]:
    return [(state, grouped(getattr(counts, state))) for state, _label in STATES]


def facts(queue: Queue) -> list[Fact]:
    """Return how a queue is set up."""
    found = [Fact(_("Kind"), queue.kind)]
    if queue.priority_type:
        found.append(Fact(_("Priorities"), queue.priority_type))
    attempts = (
        _("no limit") if queue.options.max_attempts is None else grouped(queue.options.max_attempts)
    )
    return [
        *found,
        Fact(_("Codec"), queue.codec.name),
        Fact(_("Order of equals"), queue.options.order),
        Fact(_("Most attempts"), str(attempts)),
        Fact(_("Largest value (bytes)"), grouped(queue.options.max_value_bytes)),
        Fact(_("Subspace"), previews.subspace(queue), is_code=True),
    ]


def queue(
    queue: Queue, form: ItemsForm, details: QueueDetails, addresses: Addresses
) -> dict[str, Any]:
    """Return what a queue's page shows of what was read."""
    found, state = details.window, form.cleaned_data["state"]
    counted = dict(_counted(details.counts))
    rows = [
        item_row(item, queue, position=number, address=addresses.item(queue.name, item.id))
        for number, item in found.items
    ]
    buckets = [] if details.priorities is None else details.priorities.buckets
    return {
        "tabs": [
            Tab(name, label, counted[name], form.items_address(state=name), name == state)
            for name, label in STATES
        ],
        "details": details,
        "pushes": mean(details.pushes),
        "pops": mean(details.pops),
        "rate_minutes": RATE_MINUTES,
        "spans": [
            (label, form.address(span=span), form.cleaned_data["span"] == span)
            for span, label in (("hour", _("Last hour")), ("day", _("Last day")))
        ],
        "buckets": [_bucket_row(bucket, form) for bucket in buckets],
        "state": state,
        "rows": rows,
        "window": found,
        "searched": form.cleaned_data["q"],
    }


def _bucket_row(bucket: Bucket, form: ItemsForm) -> dict[str, str]:
    """Return a row of the table of priorities, with the address of its items."""
    low, high = repr(bucket.low), repr(bucket.high)
    address = form.items_address(min_priority=low, max_priority=high, state="ready")
    return {
        "label": bucket.label,
        "items": grouped(bucket.items),
        "address": address if bucket.items else "",
    }


def item(queue: Queue, details: ItemDetails, addresses: Addresses) -> dict[str, Any]:
    """Return what an item's page shows."""
    value = details.item.value
    is_json = queue.codec.name == "json" and not isinstance(value, Undecodable)
    return {
        "item": item_row(details.item, queue),
        "state_label": dict(STATES)[details.item.state],
        "key": previews.key_text(details.key),
        "key_escaped": previews.key_escaped(details.key),
        "previous_item": details.previous and addresses.item(queue.name, details.previous),
        "next_item": details.following and addresses.item(queue.name, details.following),
        "value": previews.show(value, queue.codec.name),
        "tree": _tree(value) if is_json else None,
    }


def _tree(value: Any) -> str | None:
    """Return the markup of a JSON value, None where it is nested beyond all bounds."""
    try:
        return tree(value)
    except RecursionError:
        return None
