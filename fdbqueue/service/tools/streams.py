"""Go through a queue: take it batch by batch, or search it without taking anything.

Each batch is of a size that suits one transaction. The caller brings the items elsewhere, or they
are moved to another queue. An item that cannot be decoded is moved to the dead letters, because it
would stop everything after it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import CorruptItem
from fdbqueue.service import moments
from fdbqueue.service.bulk.move import check_move, move_now
from fdbqueue.service.items import Duration, Item
from fdbqueue.service.moments import parsed_position, position
from fdbqueue.service.queues import Queue
from fdbqueue.service.sizes import LEASE_SECONDS, MAX_RETURNED_BYTES, STEP_BYTES
from fdbqueue.service.storage.item_keys import End
from fdbqueue.service.transactions import error_code

T = TypeVar("T")

#: The most items in a batch, by default.
BATCH_ITEMS = 2_000
#: The first batch, before the length of the values is known.
_FIRST_ITEMS = 200
#: transaction_too_large and transaction_too_old: fewer items may succeed.
_TOO_MUCH = frozenset({2101, 1007})
_READ_AT_ONCE = 1_001
#: After the first read, the next are about as long as this, so that a search ends soon when late.
_BYTES_AT_ONCE = 1_000_000


class Pace:
    """The number of items in the next batch, chosen so that they take about a megabyte.

    Args:
        most: The most items in a batch.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = min(most, _FIRST_ITEMS)

    def took(self, count: int, size_bytes: int) -> None:
        """Note the number of items in a batch, and the length of their stored values."""
        average = max(1, size_bytes // max(1, count))
        self.count = max(1, min(self._most, STEP_BYTES // average, 10 * self.count))

    def slow_down(self, error: Exception) -> bool:
        """Halve the number after an error that fewer items may avoid; tell whether it is one."""
        if self.count == 1 or error_code(error) not in _TOO_MUCH:
            return False
        self.count //= 2
        return True


class _BatchStream:
    """Common base of classes that take one batch after the other.

    Args:
        queue: The queue.
        end: ``"min"`` or ``"max"``.
        limit: The most items altogether.
        batch_items: The most items in a batch; it also ends at about a megabyte.
    """

    def __init__(self, queue: Queue, end: End, limit: float, batch_items: int) -> None:
        self._queue = queue
        self._end: End = end
        self._pace = Pace(batch_items)
        #: How many items may still be taken.
        self.remaining = limit
        #: The ids of the items that were moved to the dead letters.
        self.buried: list[str] = []

    def _taken(self, take: Callable[[int], T], nothing: T) -> T:
        """Take the next batch: bury corrupt items, and take fewer when it is too large."""
        while self.remaining > 0:
            try:
                return take(int(min(self._pace.count, self.remaining)))
            except CorruptItem as error:
                if self._queue.bury_corrupt(error):
                    self.buried.append(error.context["id"])
            except Exception as error:
                if not self._pace.slow_down(error):
                    raise
        return nothing

    def _note(self, count: int, size_bytes: int) -> None:
        if count:
            self._pace.took(count, size_bytes)
            self.remaining -= count


class Batcher(_BatchStream):
    """Lease batches from one end of a queue.

    Args:
        queue: The queue.
        end: ``"min"`` or ``"max"``.
        limit: The most items altogether.
        batch_items: The most items in a batch; it also ends at about a megabyte.
        seconds: How long each batch is leased.
        worker: Who leases them.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        end: End = "min",
        limit: float = math.inf,
        batch_items: int = BATCH_ITEMS,
        seconds: Duration = LEASE_SECONDS,
        worker: str | None = None,
    ) -> None:
        super().__init__(queue, end, limit, batch_items)
        self._lease = functools.partial(queue.lease_many, end=end, seconds=seconds, worker=worker)

    def next(self) -> list[Item]:
        """Lease the next batch; empty when the queue is empty or the limit is reached."""
        nothing: list[Item] = []
        batch = self._taken(self._lease, nothing)
        self._note(len(batch), sum([item.size_bytes for item in batch]))
        return batch


class Mover(_BatchStream):
    """Move items from one end of a queue to another queue, a transaction at a time.

    Args:
        queue: The queue.
        target: The queue they move to.
        end: ``"min"`` or ``"max"``.
        limit: The most items altogether.
        batch_items: The most items in a transaction; it also ends at about a megabyte.
        priority: The priority they get; None to keep their own.

    Raises:
        InvalidInput: The move is impossible, as for :func:`check_move`.
    """

    def __init__(
        self,
        queue: Queue,
        target: Queue,
        *,
        end: End = "min",
        limit: float = math.inf,
        batch_items: int = BATCH_ITEMS,
        priority: Any = None,
    ) -> None:
        check_move(queue.parts, target.parts, priority)
        super().__init__(queue, end, limit, batch_items)
        self._target = target
        self._priority = priority

    def next(self) -> int:
        """Move some items, and return how many; 0 when the queue is empty or the limit reached.

        Raises:
            InvalidInput: The target cannot hold an item; it stays, with its whole batch.
        """
        moved, size_bytes = self._taken(self._move_some, (0, 0))
        self._note(moved, size_bytes)
        return moved

    def _move_some(self, count: int) -> tuple[int, int]:
        parts, target = self._queue.parts, self._target.parts
        return move_now(parts, target, count, self._end, self._priority)


# Search


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
        if not is_last and (size >= most_bytes or passed >= moments.MAX_PASSED or is_late()):
            return Scan(found, looked_at, first, last)
    return Scan(found, looked_at, first, None)
