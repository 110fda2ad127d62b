"""Search a bounded part of a queue for matching items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service import moments
from fdbqueue.service.items import Item
from fdbqueue.service.limits import MAX_RETURNED_BYTES
from fdbqueue.service.moments import parsed_position, position
from fdbqueue.service.queues import Queue

_READ_AT_ONCE = 1_001
#: After the first read, the next are about as long as this, so that a search ends soon when late.
_BYTES_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of a search.

    Attributes:
        found: The matching items, each with the number of items looked at before it.
        looked_at: How many items were looked at.
        first: The place of the first of them, None when there was none: its id, or what the order
            of the search has instead.
        cursor: The place to continue after, None when there are no more items.
    """

    found: list[tuple[int, Item]]
    looked_at: int
    first: str | None
    cursor: str | None


class _Limits(NamedTuple):
    """When a search ends besides: after that many stored bytes, or when it is late."""

    bytes: int
    is_late: Callable[[], bool]


class _BoundedItems:
    """The items of a queue in order; ``is_cut`` says that there are more than it yields."""

    def __init__(
        self, queue: Queue, tr: Transaction, at_once: int, limits: _Limits, bounds: dict[str, Any]
    ) -> None:
        self.is_cut = False
        self._queue = queue
        self._tr = tr
        self._at_once = at_once
        self._limits = limits
        self._bounds = bounds

    def __iter__(self) -> Iterator[Item]:
        size, after, limit = 0, self._bounds.pop("after", None), self._at_once
        while True:
            page = self._queue.page(after=after, limit=limit, tr=self._tr, **self._bounds)
            yield from page.items
            if page.cursor is None:
                return
            is_full = len(page.items) < limit  # the page ended at its limit of bytes
            read = sum(item.size_bytes for item in page.items)
            size += MAX_RETURNED_BYTES if is_full else read
            if size >= self._limits.bytes or self._limits.is_late():
                self.is_cut = True
                return
            after = page.cursor
            fitting = _BYTES_AT_ONCE * len(page.items) // max(1, read)
            limit = max(1, min(self._at_once, fitting))


def scan(
    queue: Queue,
    matches: Callable[[Item], bool],
    *,
    tr: Transaction,
    most_found: int,
    most_looked_at: int,
    most_bytes: int = MAX_RETURNED_BYTES,
    is_late: Callable[[], bool] = lambda: False,
    **bounds: Any,
) -> Scan:
    """Look at items in order until enough are found, or enough were looked at.

    The search also ends when it has read enough bytes, or when it is late. Its cost does not
    depend on the length of the queue.

    Args:
        queue: The queue.
        matches: Tells whether an item matches.
        tr: The transaction to read in.
        most_found: Find at most this many items.
        most_looked_at: Look at at most this many items.
        most_bytes: Read about this many stored bytes at most; at least 5,000,000.
        is_late: Asked after each 1,001 items, or about 1,000,000 bytes; True ends the search.
        bounds: Which items, as for ``queue.page()``.

    Raises:
        InvalidInput: A bound does not fit the queue.
    """
    at_once = min(_READ_AT_ONCE, most_looked_at + 1)
    items = _BoundedItems(queue, tr, at_once, _Limits(most_bytes, is_late), bounds)
    found: list[tuple[int, Item]] = []
    looked_at, first, last = 0, None, None
    for item in items:
        if len(found) == most_found or looked_at == most_looked_at:
            return Scan(found, looked_at, first, last)
        if matches(item):
            found.append((looked_at, item))
        looked_at, first, last = looked_at + 1, first or item.id, item.id
    return Scan(found, looked_at, first, last if items.is_cut else None)


def scan_by_moment(
    queue: Queue,
    matches: Callable[[Item], bool],
    *,
    state: str,
    tr: Transaction,
    most_found: int,
    most_looked_at: int,
    most_bytes: int = MAX_RETURNED_BYTES,
    is_late: Callable[[], bool] = lambda: False,
    after: str | None = None,
    is_backward: bool = False,
) -> Scan:
    """Look at items in the order of time (:mod:`~fdbqueue.service.moments`), else as :func:`scan`.

    It also ends when it has passed some 10,000 items of another state, which the index has, too.
    A place is the moment in microseconds and the id. An item that is leased for longer meanwhile
    moves behind those of later pages.

    Args:
        queue: The queue.
        matches: Tells whether an item matches.
        state: ``"leased"``, ``"delayed"`` or ``"dead"``.
        tr: The transaction to read in.
        most_found: Find at most this many items.
        most_looked_at: Look at at most this many items.
        most_bytes: Read about this many stored bytes at most.
        is_late: Asked after each portion of the index; True ends the search.
        after: Only items behind this place.
        is_backward: Whether to begin with what ends, or died, last.

    Raises:
        InvalidInput: ``after`` is no such place of this queue.
    """
    portions = queue.parts.browser.moments.portions(
        tr,
        state,
        None if after is None else parsed_position(after),
        is_backward=is_backward,
        at_once=most_looked_at + 1,
    )
    found: list[tuple[int, Item]] = []
    looked_at, passed, size, first, last = 0, 0, 0, None, None
    for rows, is_last, is_full in portions:
        for at, item_id, item in rows:
            if item is None:
                passed, last = passed + 1, position(at, item_id)
                continue
            if len(found) == most_found or looked_at == most_looked_at:
                return Scan(found, looked_at, first, last)
            last = position(at, item_id)
            if matches(item):
                found.append((looked_at, item))
            looked_at, first, size = looked_at + 1, first or last, size + item.size_bytes
        size += MAX_RETURNED_BYTES if is_full else 0
        if not is_last and (size >= most_bytes or passed >= moments.MOST_PASSED or is_late()):
            return Scan(found, looked_at, first, last)
    return Scan(found, looked_at, first, None)
