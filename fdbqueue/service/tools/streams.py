"""Take one batch after the other from a queue, each of a size that suits one transaction.

The caller brings the items elsewhere, or they are moved to another queue. An item that cannot be
decoded is moved to the dead letters, because it would stop everything behind it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

from fdbqueue.exceptions import CorruptItem
from fdbqueue.service.bulk.batches import Batch, check_move, move
from fdbqueue.service.items import Duration
from fdbqueue.service.limits import STEP_BYTES
from fdbqueue.service.queues import Queue
from fdbqueue.service.storage.item_keys import End
from fdbqueue.service.transactions import error_code

T = TypeVar("T")

#: The most items in a batch, by default.
BATCH_ITEMS = 2_000
#: The first batch, before the length of the values is known.
_FIRST_ITEMS = 200
#: transaction_too_large and transaction_too_old: fewer items may succeed.
_TOO_MUCH = frozenset({2101, 1007})


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
        owner: The owner of the batches, as for ``lease_batch``.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        end: End = "min",
        limit: float = math.inf,
        batch_items: int = BATCH_ITEMS,
        seconds: Duration = 60,
        owner: bytes | None = None,
    ) -> None:
        super().__init__(queue, end, limit, batch_items)
        self._lease = functools.partial(queue.lease_batch, end=end, seconds=seconds, owner=owner)

    def next(self) -> Batch:
        """Lease the next batch; empty when the queue is empty or the limit is reached."""
        batch = self._taken(self._lease, Batch.empty())
        self._note(len(batch), batch.size_bytes)
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
        some = functools.partial(
            move,
            source=self._queue.parts,
            target=self._target.parts,
            count=count,
            end=self._end,
            priority=self._priority,
        )
        return self._queue.parts.runner.write("move", None, some)
