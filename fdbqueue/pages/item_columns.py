"""What the pages say of an item: the columns of a queue's items, and the facts of one item.

To add one, add an :class:`ItemColumn` to :data:`COLUMNS`, to :data:`FACTS`, or to both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from urllib.parse import urlencode

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from fdbqueue.pages.columns import DASH, STATES, Column, link
from fdbqueue.pages.search import FIRST_HIT
from fdbqueue.pages.sites import Addresses
from fdbqueue.pages.text import (
    FoldedText,
    Moment,
    folded,
    key_escaped,
    key_text,
    number,
    size,
    visible,
)
from fdbqueue.pages.values import Preview, preview
from fdbqueue.service import Item, Queue

_MAX_REASON_CHARACTERS = 1_000
_MAX_WORKER_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class ItemRow:
    """An item of a queue, where it is in its list, and what its own page says besides.

    ``addresses`` are those of the pages; ``key`` is what it is stored under; ``unique_while`` says
    how long it has its unique key; ``notes`` are what the queue's reading has read besides;
    ``wanted`` is the text that a search has looked for in its value.
    """

    item: Item
    queue: Queue
    position: int
    addresses: Addresses
    key: bytes = b""
    unique_while: str | None = None
    notes: Any = None
    wanted: str = ""

    @property
    def address(self) -> str:
        """The address of its page; after a search, that of the hit in it."""
        page = self.addresses.item(self.queue.name, self.item.id)
        return f"{page}?{urlencode({'q': self.wanted})}#{FIRST_HIT}" if self.wanted else page


def _always(_queue: Queue, _state: str) -> bool:
    return True


def _in_state(state: str) -> Callable[[Queue, str], bool]:
    return lambda _queue, of_items: of_items == state


@dataclass(frozen=True, kw_only=True)
class ItemColumn(Column[ItemRow]):
    """A column of a queue's items, or a fact of one item.

    Attributes:
        is_shown: Tells for a queue and a state of items whether the column is there.
        is_place: Whether it tells where an item is stored, which few readers ask.
    """

    is_shown: Callable[[Queue, str], bool] = _always
    is_place: bool = False


def shown(columns: tuple[ItemColumn, ...], queue: Queue, state: str) -> list[ItemColumn]:
    """Return the columns that are there for a queue's items in a state."""
    return [column for column in columns if column.is_shown(queue, state)]


def _reason(row: ItemRow) -> str:
    return visible((row.item.reason or "")[:_MAX_REASON_CHARACTERS])


def _exact_size(count: int) -> str:
    shown = size(count)
    return shown.exact if shown.words == shown.exact else f"{shown.words} ({shown.exact})"


def _folded_reason(row: ItemRow) -> FoldedText:
    return folded(_reason(row), f"reason-{row.item.id}")


_UNIQUE = {
    "pending": _("Kept until the item is done"),
    "ready": _("Kept until the item is popped or leased"),
}


def _worker_text(worker: str | None) -> str:
    return DASH if worker is None else visible(worker[:_MAX_WORKER_CHARACTERS])


@dataclass(frozen=True, slots=True)
class ShownFailure:
    """A failed attempt, as text."""

    attempt: str
    moment: Moment
    worker: str
    reason: str


@dataclass(frozen=True, slots=True)
class ShownFailures:
    """The failed attempts of an item, the latest first; they fold if they have an id.

    ``worker`` is who held the last lease; empty if it gave no name.
    """

    failures: list[ShownFailure]
    worker: str
    element_id: str = ""


def _failures(row: ItemRow) -> ShownFailures:
    found = [
        ShownFailure(
            number(one.attempt),
            Moment.ago(one.at),
            _worker_text(one.worker),
            visible(one.reason[:_MAX_REASON_CHARACTERS]),
        )
        for one in reversed(row.item.failures)
    ]
    has_worker = bool(row.item.failures and row.item.failures[-1].worker)
    return ShownFailures(found, found[0].worker if has_worker else "")


def _folded_failures(row: ItemRow) -> ShownFailures:
    return dataclasses.replace(_failures(row), element_id=f"failures-{row.item.id}")


@dataclass(frozen=True, slots=True)
class ShownValue:
    """The beginning of a value, or what is around a hit in it, and where all of it is."""

    preview: Preview
    address: str


def _value(row: ItemRow) -> ShownValue:
    value, codec = row.item.value, row.queue.codec
    found = preview(value, codec, row.wanted)
    has_more = found.clipped or found.begins_later or not found.decodable
    return ShownValue(found, row.address if has_more else "")


def _until_column(state: str, heading: str | Promise) -> ItemColumn:
    return ItemColumn(
        name="until",
        heading=heading,
        value=attrgetter("item.until"),
        written=Moment.ahead,
        template="moment.html",
        is_shown=_in_state(state),
    )


_PRIORITY = ItemColumn(
    name="priority",
    heading=_("Priority"),
    value=attrgetter("item.priority"),
    written=number,
    is_number=True,
    is_shown=lambda queue, _state: queue.priority_type is not None,
)
_PUSHED = ItemColumn(
    name="pushed",
    heading=_("Pushed"),
    value=attrgetter("item.pushed_at"),
    written=Moment.ago,
    template="moment.html",
)
_LEASED_UNTIL = _until_column("leased", _("Leased until"))
_DELAYED_UNTIL = _until_column("delayed", _("Delayed until"))
_WORKER = ItemColumn(
    name="worker",
    heading=_("Worker"),
    value=attrgetter("item.worker"),
    written=_worker_text,
    template="text.html",
    is_shown=_in_state("leased"),
)
_DIED = ItemColumn(
    name="died",
    heading=_("Died"),
    value=attrgetter("item.died_at"),
    written=Moment.ago,
    template="moment.html",
    is_shown=_in_state("dead"),
)
_ATTEMPTS = ItemColumn(
    name="attempts",
    heading=_("Attempts"),
    value=attrgetter("item.attempts"),
    written=number,
    is_number=True,
    is_minor=True,
)
_SIZE = ItemColumn(
    name="size",
    heading=_("Size"),
    value=attrgetter("item.size_bytes"),
    written=size,
    template="size.html",
    is_number=True,
    is_minor=True,
)

_EXACT_SIZE = dataclasses.replace(_SIZE, written=_exact_size, template="")

#: The table of items on the page of a queue.
COLUMNS = (
    ItemColumn(
        name="position",
        heading=_("Position"),
        value=lambda row: link(f"item-{row.item.id}", row.address, str(row.position)),
        is_number=True,
    ),
    _PRIORITY,
    _PUSHED,
    _LEASED_UNTIL,
    _WORKER,
    _DELAYED_UNTIL,
    _DIED,
    ItemColumn(
        name="reason",
        heading=_("Reason"),
        value=_folded_reason,
        template="reason.html",
        css=lambda _value: "fdbqueue-reason",
        is_shown=_in_state("dead"),
    ),
    ItemColumn(
        name="failures",
        heading=_("Last failures"),
        value=_folded_failures,
        template="failures.html",
        is_shown=_in_state("dead"),
    ),
    _ATTEMPTS,
    _SIZE,
    ItemColumn(
        name="value",
        heading=_("Value"),
        value=_value,
        template="value_cell.html",
        css=lambda _value: "fdbqueue-value",
    ),
)
#: The facts on the page of one item.
FACTS = (
    ItemColumn(name="queue", heading=_("Queue"), value=attrgetter("queue.name")),
    ItemColumn(
        name="state",
        heading=_("State"),
        value=attrgetter("item.state"),
        written=dict(STATES).__getitem__,
    ),
    _LEASED_UNTIL,
    _WORKER,
    _DELAYED_UNTIL,
    _DIED,
    ItemColumn(
        name="reason",
        heading=_("Reason"),
        value=_reason,
        template="lines.html",
        is_shown=_in_state("dead"),
    ),
    ItemColumn(
        name="failures",
        heading=_("Last failures"),
        value=_failures,
        template="failures.html",
    ),
    _PRIORITY,
    _PUSHED,
    _ATTEMPTS,
    _EXACT_SIZE,
    ItemColumn(
        name="unique",
        heading=_("Unique key"),
        value=attrgetter("unique_while"),
        written=_UNIQUE.__getitem__,
    ),
    ItemColumn(name="id", heading=_("Item id"), value=attrgetter("item.id"), template="code.html"),
    ItemColumn(
        name="key",
        heading=_("Key"),
        value=attrgetter("key"),
        written=key_text,
        template="code.html",
        is_place=True,
    ),
    ItemColumn(
        name="key_escaped",
        heading=_("Key for fdbcli"),
        value=attrgetter("key"),
        written=key_escaped,
        template="code.html",
        is_place=True,
    ),
)
