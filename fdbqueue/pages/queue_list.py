"""The list of queues: which are shown, in which order, and what is read for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from fdbqueue.access import visible
from fdbqueue.pages.columns import Column, cells
from fdbqueue.pages.forms import QueuesForm
from fdbqueue.pages.queue_columns import BY_NAME, COLUMNS, RATE_MINUTES, QueueRow, fill
from fdbqueue.pages.sites import Addresses
from fdbqueue.pages.text import grouped
from fdbqueue.service import Catalog, run

#: The list looks at this many queues, in the order of their names, and sorts those.
LOOKED_AT = 1_000
QUEUES_PER_PAGE = 100


@dataclass(frozen=True, slots=True)
class Listed:
    """One page of the list, and how many queues there are to choose from.

    ``first`` is the number of the page's first queue. ``following`` is the name after which
    there are queues that were not looked at.
    """

    rows: list[QueueRow]
    first: int
    found: int
    following: str | None


class Header(NamedTuple):
    """The header of a column: the address that sorts by it, and the order it is in now."""

    column: Column[QueueRow]
    address: str
    order: str


def listed(catalog: Catalog, form: QueuesForm, may_view: Callable[[str], bool]) -> Listed:
    """Read one page of the list, all in one transaction.

    What the order depends on is read of all queues, the rest of those shown: a few round
    trips to a cluster, whatever the number of queues and items.

    Raises:
        PermissionDenied: There are queues, and the reader may see none.
    """
    after, wanted = form.cleaned_data["after"], form.cleaned_data["q"].casefold()
    names, following = visible(catalog, may_view, after=after, limit=LOOKED_AT)
    rows = [QueueRow(catalog.queue(name)) for name in names if wanted in name.casefold()]
    first = (form.cleaned_data["page"] - 1) * QUEUES_PER_PAGE
    chosen = BY_NAME[form.column]
    sort_read = chosen.begin_sort_read or chosen.begin_read

    def read(tr: Any) -> list[QueueRow]:
        fill(tr, rows, [sort_read])
        shown = _sorted(rows, form)[first : first + QUEUES_PER_PAGE]
        reads = [column.begin_read for column in COLUMNS]
        fill(tr, shown, [begin for begin in reads if begin is not sort_read])
        return shown

    shown = run(catalog.database, read, read_only=True)
    return Listed(shown, first + 1, len(rows), following)


def context(form: QueuesForm, found: Listed, addresses: Addresses) -> dict[str, Any]:
    """Return what the template shows of a page of the list."""
    page, after = form.cleaned_data["page"], form.cleaned_data["after"] or None
    last = found.first + len(found.rows) - 1
    for row in found.rows:
        row.address = addresses.queue(row.queue.name)
    return {
        "headers": [_header(form, column) for column in COLUMNS],
        "rows": [cells(COLUMNS, row) for row in found.rows],
        "found": grouped(found.found),
        "first": grouped(found.first),
        "last": grouped(last),
        "looked_at": grouped(LOOKED_AT),
        "rate_minutes": RATE_MINUTES,
        "previous_page": form.address(page=page - 1, after=after) if page > 1 else None,
        "next_page": form.address(page=page + 1, after=after) if last < found.found else None,
        "further": None if found.following is None else form.address(after=found.following),
        "from_start": form.address() if after else None,
    }


def _header(form: QueuesForm, column: Column[QueueRow]) -> Header:
    if BY_NAME[column.name].sort_key is None:
        return Header(column, "", "")
    order = ""
    if form.column == column.name:
        order = "descending" if form.is_descending else "ascending"
    return Header(column, form.sorted_by(column.name), order)


def _sorted(rows: list[QueueRow], form: QueuesForm) -> list[QueueRow]:
    """Sort by a column; those without a value last, equals by their names."""
    sort_key = BY_NAME[form.column].sort_key
    assert sort_key is not None  # the form takes no other column
    keys = {id(row): sort_key(row) for row in rows}
    known = [row for row in rows if keys[id(row)] is not None]
    unknown = [row for row in rows if keys[id(row)] is None]
    known.sort(key=lambda row: keys[id(row)], reverse=form.is_descending)
    return known + unknown
