"""One page of a queue's items, in either direction, filtered or not, and where to go from it.

A position is the id of an item: a place in this queue that stays where it is while others
push and pop, whether or not the item is still there. Ids need no signature: the page shows
them anyway, the service takes none that is no place of this queue, and who may look into
the queue is asked first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fdbqueue.pages.forms import ItemsForm
from fdbqueue.pages.searching import contains
from fdbqueue.service.items import Item
from fdbqueue.service.queues import Queue
from fdbqueue.service.tools.scan import Scan, scan

#: A search looks at so many items before it asks whether to go on.
LOOKED_AT = 2_000
_OTHER_END = {"min": "max", "max": "min"}


@dataclass(frozen=True, slots=True)
class Window:
    """The items of a page.

    Attributes:
        items: The items, each with its number, counted along the pages from the first on.
        looked_at: How many items were looked at.
        start: The number of the first of these.
        previous: The query string of the page before, None on the first and on one where
            nothing is left.
        following: That of the page behind, None on the last.
        first: That of the first page, None on it.
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


def window(queue: Queue, form: ItemsForm, tr: Any) -> Window:
    """Read the page that a valid form asks for.

    Raises:
        InvalidInput: A position is none of this queue.
    """
    before = form.cleaned_data["before"]
    if before:
        found = _scan(queue, form, tr, before=before)
        if found.cursor is not None:
            return _backward(form, found)
        # the beginning is reached: show the whole first page, not the piece before an item
    after = None if before else form.cleaned_data["after"] or None
    return _forward(form, _scan(queue, form, tr, after=after), after)


def _scan(
    queue: Queue, form: ItemsForm, tr: Any, *, after: str | None = None, before: str | None = None
) -> Scan:
    wanted = form.cleaned_data
    end, limit = wanted["end"], wanted["limit"]
    return scan(
        queue,
        contains(wanted["q"], queue.codec.name),
        tr=tr,
        most_found=limit,
        most_looked_at=LOOKED_AT if wanted["q"] else limit,
        end=end if before is None else _OTHER_END[end],
        after=after if before is None else before,
        **form.bounds(),
    )


def _forward(form: ItemsForm, found: Scan, after: str | None) -> Window:
    start = form.cleaned_data["start"] if after else 1
    following = previous = None
    if found.cursor is not None:
        following = form.items_address(after=found.cursor, start=start + found.looked_at)
    if after is not None and found.first is not None:  # "before" would pass by ``after`` itself
        previous = form.items_address(before=found.first, start=start)
    return Window(
        items=[(start + passed, item) for passed, item in found.found],
        looked_at=found.looked_at,
        start=start,
        previous=previous,
        following=following,
        first=None if after is None else form.items_address(),
    )


def _backward(form: ItemsForm, found: Scan) -> Window:
    assert found.first is not None
    behind = form.cleaned_data["start"]  # the number of the item that this page is before
    start = max(1, behind - found.looked_at)
    last = start + found.looked_at - 1
    return Window(
        items=[(last - passed, item) for passed, item in reversed(found.found)],
        looked_at=found.looked_at,
        start=start,
        previous=form.items_address(before=found.cursor, start=start),
        following=form.items_address(after=found.first, start=last + 1),
        first=form.items_address(),
    )
