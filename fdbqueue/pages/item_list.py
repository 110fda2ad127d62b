"""The items on the page of a queue: paged in both directions, filtered, and searched.

A position is the id of an item: a place in this queue that stays where it is while others
push and pop, whether or not the item is still there. In the order of time it is the moment and the
id. Ids are not signed: the page shows
them anyway, the service refuses those that are not a place of this queue, and the permission
to view the queue is checked first.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fdbqueue import deadlines
from fdbqueue.columns.items import REASON, ItemRow, ReasonGroup, shown
from fdbqueue.columns.queue_rows import QueueRow
from fdbqueue.columns.text import grouped, visible
from fdbqueue.pages.action_page import Offer
from fdbqueue.pages.forms import BY_DEATH, BY_MOMENT, ItemsForm
from fdbqueue.pages.item_columns import holders, ticked
from fdbqueue.pages.listing import table
from fdbqueue.pages.readings import Reading
from fdbqueue.pages.sites import Addresses
from fdbqueue.pages.values import preview, shared_members
from fdbqueue.service import (
    Item,
    Queue,
    Scan,
    group_of_text,
    scan,
    scan_by_moment,
)

#: A search ends when half of the page's time is over, and at the latest when it has looked at this
#: many items, or about this many bytes. FoundationDB allows a transaction five seconds.
MAX_ITEMS_SEARCHED = 1_000_000
MAX_BYTES_SEARCHED = 25_000_000
_OTHER_END = {"min": "max", "max": "min"}


@dataclass(frozen=True, slots=True)
class ItemList:
    """One page of a queue's items, and the addresses of the pages around it.

    Attributes:
        rows: The items, each with its number, counted along the pages from the first on.
        is_searched: Whether only items that match were listed.
        looked_at: How many items were looked at.
        start: The number of the first of these.
        previous: The address of the page before, None on the first page and on an empty one.
        following: The address of the page after, None on the last page.
        first: The address of the first page, None on that page.
    """

    rows: list[ItemRow]
    is_searched: bool
    looked_at: int
    start: int
    previous: str | None
    following: str | None
    first: str | None

    @property
    def last(self) -> int:
        """The number of the last item that was looked at."""
        return self.start + self.looked_at - 1


class SearchProgress(NamedTuple):
    """How far a search has come.

    Attributes:
        hits: How many items it has found.
        looked_at: How many items it looked at, and which.
        following: The address that searches on; None at the end of the queue.
        go_on: What the link there says.
    """

    hits: str
    looked_at: str
    following: str | None
    go_on: str


def read(queue: Queue, form: ItemsForm, tr: Any, reading: Reading) -> ItemList:
    """Read the page of items that a valid form asks for.

    Raises:
        InvalidInput: A position is not one of this queue.
    """
    search = _Search(queue, form, tr, reading)
    found = _page(search, form)
    if form.cleaned_data["state"] == "leased" and queue.workers is not None and found.rows:
        by_name = holders(queue.workers.read_in(tr))
        rows = [replace(row, holder=by_name.get(row.item.worker or "")) for row in found.rows]
        found = replace(found, rows=rows)
    if reading.begin_notes is None:
        return found
    begun = [reading.begin_notes(queue, row.item, tr) for row in found.rows]
    pairs = zip(found.rows, begun, strict=True)
    return replace(found, rows=[replace(row, notes=notes()) for row, notes in pairs])


def context(
    of: QueueRow,
    form: ItemsForm,
    found: ItemList,
    addresses: Addresses,
    reading: Reading,
    groups: Mapping[bytes, ReasonGroup],
    acts: Sequence[Offer] = (),
) -> dict[str, Any]:
    """Return what the template shows of a page of items of a queue.

    ``groups`` are the reasons of dead letters that stand above them, by the names of their groups;
    ``acts`` the actions that may be done to the rows that a reader ticks.
    """
    queue, state = of.queue, form.cleaned_data["state"]
    columns = shown(reading.columns, queue, state)
    members = {} if reading.task else shared_members([row.item.value for row in found.rows])
    shared = _shared_group([row.item for row in found.rows]) if state == "dead" else None
    rows = [
        replace(
            row,
            addresses=addresses,
            shared=frozenset(members),
            group=shared or groups.get(group_of_text(row.item.reason or "")),
        )
        for row in found.rows
    ]
    if shared is not None:
        columns = [
            one
            for one in columns
            if one.name != REASON.name or any(one.value(row) is not None for row in rows)
        ]
    total = _total(of, form, found)
    if acts:
        columns = [ticked(columns[0]), *columns[1:]]
    is_cut = found.following is not None or found.previous is not None
    is_whole = is_cut and not found.is_searched and state != "ready"
    return {
        "acts": acts if rows else (),
        "all_of_list": total if is_whole else "",
        "state_label": dict(reading.tabs).get(state, state),
        "shared": preview(members, queue.codec) if members else None,
        "shared_group": shared and shared.text,
        "first": grouped(found.start),
        "last": grouped(found.last),
        "total": "" if found.is_searched else total,
        **table(columns, rows),
        "items": found,
        "searched": found.is_searched,
        "progress": _progress(len(rows), found, total),
    }


def _shared_group(items: Sequence[Item]) -> ReasonGroup | None:
    """Return the first line of the reason that several dead letters all died of, None if none."""
    groups = {(item.reason or "").strip().partition("\n")[0].rstrip() for item in items}
    shared = groups.pop() if len(groups) == 1 and len(items) > 1 else ""
    return ReasonGroup(visible(shared)) if shared else None


def _progress(hits: int, found: ItemList, total: str) -> SearchProgress:
    """Return how far a search has come, in words.

    Args:
        hits: How many items it has found.
        found: What it looked at.
        total: How many items there are to look at; empty if nothing counts these.
    """
    count, last = found.looked_at, found.last
    text = ngettext("in %(count)s item looked at", "in %(count)s items looked at", count)
    text %= {"count": grouped(count)}
    if found.start > 1 and count:
        place = {"looked_at": text, "first": grouped(found.start), "last": grouped(last)}
        text = _("%(looked_at)s, from %(first)s to %(last)s") % place
    if total and (found.following or found.start > 1):
        text = _("%(looked_at)s of %(total)s") % {"looked_at": text, "total": total}
    return SearchProgress(
        ngettext("%(count)s hit", "%(count)s hits", hits) % {"count": grouped(hits)},
        text,
        found.following,
        _("Go on from item %(number)s") % {"number": grouped(last + 1)},
    )


def _total(of: QueueRow, form: ItemsForm, found: ItemList) -> str:
    """Return how many items there are to page through; empty if nothing counts these.

    Counts that are wrong, because foreign programs keep none, are left out if that shows.
    """
    count: int = getattr(of.counts, form.cleaned_data["state"], 0)
    bounds = form.bounds()
    is_part = any(bounds.get(name) is not None for name in ("min_priority", "max_priority"))
    return "" if is_part or count < found.last else grouped(count)


def _page(search: _Search, form: ItemsForm) -> ItemList:
    before = form.cleaned_data["before"]
    if before:
        found = search.scan(before, is_backward=True)
        if found.cursor is not None and found.first is not None:
            return _backward(form, search, found)
        # the beginning is reached: show the whole first page, not the piece before an item; or
        # there were too many items of another state to pass
    after = None if before else form.cleaned_data["after"] or None
    return _forward(form, search, search.scan(after), after)


class _Search:
    """Finds the items that a form asks for, from a position on."""

    def __init__(self, queue: Queue, form: ItemsForm, tr: Any, reading: Reading) -> None:
        self._queue = queue
        self._form = form
        self._tr = tr
        self._matches = reading.matching(queue, form)
        state = form.cleaned_data["state"]
        self._scan = reading.scans.get(state)
        order = form.cleaned_data["end"]
        self._is_latest_first = order == BY_DEATH
        if order in {BY_MOMENT, BY_DEATH}:
            self._scan = functools.partial(scan_by_moment, state=state)
        self.is_selective = self._matches is not None

    def row(self, item: Item, position: int) -> ItemRow:
        return ItemRow(item, self._queue, position=position)

    def scan(self, position: str | None, *, is_backward: bool = False) -> Scan:
        limit = self._form.cleaned_data["limit"]
        bounds: dict[str, Any] = {
            "tr": self._tr,
            "most_found": limit,
            "most_looked_at": MAX_ITEMS_SEARCHED if self.is_selective else limit,
            "is_late": deadlines.is_half_over,
            "after": position,
        }
        matches = self._matches or (lambda _item: True)
        if self.is_selective:
            bounds["most_bytes"] = MAX_BYTES_SEARCHED
        if self._scan is not None:
            is_backward = is_backward != self._is_latest_first
            return self._scan(self._queue, matches, is_backward=is_backward, **bounds)
        end = self._form.cleaned_data["end"]
        end = _OTHER_END[end] if is_backward else end
        return scan(self._queue, matches, end=end, **bounds, **self._form.bounds())


def _forward(form: ItemsForm, search: _Search, found: Scan, after: str | None) -> ItemList:
    start = form.cleaned_data["start"] if after else 1
    following = previous = None
    if found.cursor is not None:
        following = form.page_address(after=found.cursor, start=start + found.looked_at)
    if after is not None and found.first is not None:  # "before" would pass by ``after`` itself
        previous = form.page_address(before=found.first, start=start)
    return ItemList(
        rows=[search.row(item, start + passed) for passed, item in found.found],
        is_searched=search.is_selective,
        looked_at=found.looked_at,
        start=start,
        previous=previous,
        following=following,
        first=None if after is None else form.page_address(),
    )


def _backward(form: ItemsForm, search: _Search, found: Scan) -> ItemList:
    assert found.first is not None
    behind = form.cleaned_data["start"]  # the number of the item that this page is before
    start = max(1, behind - found.looked_at)
    last = start + found.looked_at - 1
    return ItemList(
        rows=[search.row(item, last - passed) for passed, item in reversed(found.found)],
        is_searched=search.is_selective,
        looked_at=found.looked_at,
        start=start,
        previous=form.page_address(before=found.cursor, start=start),
        following=form.page_address(after=found.first, start=last + 1),
        first=form.page_address(),
    )
