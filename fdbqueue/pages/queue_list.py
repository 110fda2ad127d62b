"""The list of queues: which are shown, in which order, and what is read for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.utils.functional import Promise
from django.utils.html import conditional_escape
from django.utils.translation import gettext_lazy as _

from fdbqueue.access import visible
from fdbqueue.pages.columns import Tile, cells
from fdbqueue.pages.forms import QueuesForm
from fdbqueue.pages.queue_columns import (
    BY_NAME,
    COLUMNS,
    COUNTS,
    RATE_MINUTES,
    RATES,
    TOTAL,
    TROUBLE,
    BeginRead,
    QueueColumn,
    QueueRow,
    attention,
    begin_counts,
    fill,
)
from fdbqueue.pages.sites import Addresses
from fdbqueue.pages.text import grouped
from fdbqueue.service import Catalog, run

#: The list looks at this many queues, in the order of their names, and sorts those.
LOOKED_AT = 1_000
QUEUES_PER_PAGE = 100


@dataclass(frozen=True, slots=True)
class QueueList:
    """One page of the list, and what there is to choose from.

    Attributes:
        rows: The queues of the page.
        found: All queues that the list looked at and the form asks for; their counts are read.
        examined: Those of which everything is read that concerns look at.
        first: The number of the page's first queue.
        following: The name after which there are queues that were not looked at.
    """

    rows: list[QueueRow]
    found: list[QueueRow]
    examined: list[QueueRow]
    first: int
    following: str | None


class Header(NamedTuple):
    """The header of a column: the address that sorts by it, and the order it is in now."""

    column: QueueColumn
    address: str
    order: str


def listed(catalog: Catalog, form: QueuesForm, may_view: Callable[[str], bool]) -> QueueList:
    """Read one page of the list, all in one transaction.

    What the order depends on is read of all queues, then their counts and the rest of those
    shown: a few round trips to a cluster, whatever the number of queues and items.
    """
    after, wanted = form.cleaned_data["after"], form.cleaned_data["q"].casefold()
    names, following = visible(catalog, may_view, after=after, limit=LOOKED_AT)
    rows = [QueueRow(catalog.queue(name)) for name in names if wanted in name.casefold()]
    first = (form.cleaned_data["page"] - 1) * QUEUES_PER_PAGE
    order = BY_NAME[form.column]
    sort_reads = order.reads_to_sort

    def read(tr: Any) -> list[QueueRow]:
        fill(tr, [(begin, rows) for begin in sort_reads])
        shown = order.sorted(rows, is_descending=form.is_descending)[
            first : first + QUEUES_PER_PAGE
        ]
        fill(tr, _reads(rows, shown, sort_reads))
        return shown

    shown = run(catalog.database, read, read_only=True)
    examined = rows if form.column == TROUBLE.name else shown
    return QueueList(shown, rows, examined, first + 1, following)


def _reads(
    rows: list[QueueRow], shown: list[QueueRow], done: Sequence[BeginRead]
) -> list[tuple[BeginRead, list[QueueRow]]]:
    """Return what is left to read: counts of all queues, the rest of those shown."""
    wanted = dict.fromkeys(begin for column in COLUMNS for begin in column.reads)
    return [
        (begin, rows if begin is begin_counts else shown) for begin in wanted if begin not in done
    ]


def context(form: QueuesForm, found: QueueList, addresses: Addresses) -> dict[str, Any]:
    """Return what the template shows of a page of the list."""
    page, after = form.cleaned_data["page"], form.cleaned_data["after"] or None
    last, count = found.first + len(found.rows) - 1, len(found.found)
    for row in found.rows:
        row.address = addresses.queue(row.queue.name)
    labels = [str(column.heading) for column in COLUMNS]  # translated once
    return {
        "tiles": _totals(found),
        "attention": attention(found.examined, lambda row, tab: _at(addresses, row, tab)),
        "examined": grouped(len(found.examined)),
        "is_examined": len(found.examined) == count,
        "trouble_first": form.address(sort=f"-{TROUBLE.name}", after=after),
        "is_trouble_first": form.column == TROUBLE.name,
        "headers": [_header(form, column) for column in COLUMNS],
        "rows": [cells(COLUMNS, row, labels) for row in found.rows],
        "found": grouped(count),
        "first": grouped(found.first),
        "last": grouped(last),
        "looked_at": grouped(LOOKED_AT),
        "rate_minutes": RATE_MINUTES,
        "previous_page": form.address(page=page - 1, after=after) if page > 1 else None,
        "next_page": form.address(page=page + 1, after=after) if last < count else None,
        "further": None if found.following is None else form.address(after=found.following),
        "from_start": form.address() if after else None,
    }


def _at(addresses: Addresses, row: QueueRow, state: str) -> str:
    """Return the address of a queue's items in a state."""
    address = addresses.queue(row.queue.name)
    return address if state == "ready" else f"{address}?{urlencode({'state': state})}"


def _totals(found: QueueList) -> list[Tile]:
    """Return the figures of all queues together; rates if those of all were read."""
    rows = found.found
    tiles = [
        Tile("queues", _("Queues"), conditional_escape(grouped(len(rows)))),
        _sum(TOTAL, rows, _("Items")),
        *(_sum(column, rows) for column in COUNTS.values()),
    ]
    if len(found.rows) == len(rows):
        tiles += [_sum(column, rows) for column in RATES]
    return tiles


def _sum(column: QueueColumn, rows: list[QueueRow], label: str | Promise | None = None) -> Tile:
    return column.tile(sum(map(column.value, rows)), label)


def _header(form: QueuesForm, column: QueueColumn) -> Header:
    if not column.is_sortable:
        return Header(column, "", "")
    order = ""
    if form.column == column.name:
        order = "descending" if form.is_descending else "ascending"
    return Header(column, form.sorted_by(column.name), order)
