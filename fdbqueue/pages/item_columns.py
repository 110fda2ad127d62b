"""The columns of items and their facts as the pages show them: linked, folded, and with a value.

What is said of an item is in :mod:`fdbqueue.columns.items`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import FUTURE, PAST, TEXT, Column, Kind, link
from fdbqueue.columns.items import (
    FAILURES,
    LISTED,
    REASON,
    ItemColumn,
    ItemRow,
    ReasonGroup,
    ShownFailures,
    reason_text,
    shown_failures,
)
from fdbqueue.columns.text import FoldedText, Moment, folded
from fdbqueue.pages.search import FIRST_HIT
from fdbqueue.pages.values import Preview, preview


@dataclass(frozen=True, slots=True)
class ShownValue:
    """The beginning of a value, or what is around a hit in it, and where all of it is."""

    preview: Preview
    address: str


def address_of(row: ItemRow) -> str:
    """Return the address of an item's page; after a search, that of the hit in it."""
    page: str = row.addresses.item(row.queue.name, row.item.id)
    return f"{page}?{urlencode({'q': row.wanted})}#{FIRST_HIT}" if row.wanted else page


def _value(row: ItemRow) -> ShownValue:
    value, codec = row.item.value, row.queue.codec
    found = preview(value, codec, row.wanted, row.shared)
    has_more = found.clipped or found.begins_later or not found.decodable
    return ShownValue(found, address_of(row) if has_more else "")


class ShownReason(NamedTuple):
    """The reason of a dead letter: the number of its group, if it has one, and the rest of it."""

    group: ReasonGroup | None
    rest: FoldedText | None


def _reason(row: ItemRow) -> ShownReason | None:
    """Return the reason of a dead letter, without the beginning that stands above the list."""
    rest = text = reason_text(row.item.reason)
    if row.group is not None:
        first, _line, more = text.strip().partition("\n")
        rest = more.strip() if first.rstrip() == row.group.text else text
    group = row.group if row.group is not None and row.group.number else None
    shown = folded(rest, f"reason-{row.item.id}") if rest or row.group is None else None
    return None if shown is None and group is None else ShownReason(group, shown)


_IN_ONE_LINE = (
    (PAST, replace(PAST, written=Moment.since, template="age.html")),
    (FUTURE, replace(FUTURE, written=Moment.until, template="age.html")),
    (TEXT, replace(TEXT, template="cut.html")),
)


AnyColumn = TypeVar("AnyColumn", bound=Column[Any])


def in_one_line(column: AnyColumn) -> AnyColumn:
    """Return a column for a list: of a moment it says how far away that is.

    The moment itself is shown on hovering, as a long text is, and on the page of an item.
    """
    kinds = [line for kind, line in _IN_ONE_LINE if column.kind is kind]
    return replace(column, kind=kinds[0]) if kinds else column


def _folded_failures(row: ItemRow) -> ShownFailures:
    return shown_failures(row.item.failures, f"failures-{row.item.id}")


#: Columns that have another look in the table than among the facts of an item.
_IN_TABLE: dict[str, dict[str, Any]] = {
    REASON.name: {
        "value": _reason,
        "kind": Kind(template="reason_cell.html"),
        "css": lambda _value: "fdbqueue-reason",
    },
    FAILURES.name: {"value": _folded_failures, "kind": Kind(template="failures.html")},
}

#: The table of items on the page of a queue.
COLUMNS: tuple[ItemColumn, ...] = (
    ItemColumn(
        name="position",
        heading=_("Position"),
        value=lambda row: link(f"item-{row.item.id}", address_of(row), str(row.position)),
        kind=Kind(is_number=True),
    ),
    *(in_one_line(replace(column, **_IN_TABLE.get(column.name, {}))) for column in LISTED),
    ItemColumn(
        name="value",
        heading=_("Value"),
        value=_value,
        kind=Kind(template="value_cell.html"),
        css=lambda _value: "fdbqueue-value",
    ),
)
