"""One batch after the other off a queue, each as long as one transaction takes well.

To be brought elsewhere by the caller, or moved to another queue. An item that cannot be decoded
is moved to the dead letters, or it would stop everything behind it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

from fdbqueue.exceptions import CorruptItem
from fdbqueue.service.bulk.batches import Batch
from fdbqueue.service.bulk.move import check_move, move
from fdbqueue.service.queues import Queue
from fdbqueue.service.storage.reader import End
from fdbqueue.service.tools.pace import Pace

T = TypeVar("T")

#: Most items of one batch, unless told otherwise.
BATCH_ITEMS = 2_000


class _Batching:
    """What those have in common that take one batch after the other.

    Args:
        queue: The queue.
        end: ``"min"`` or ``"max"``.
        limit: The most items altogether.
        batch_items: The most items of a batch; about a megabyte is one, too.
    """

    def __init__(self, queue: Queue, end: End, limit: float, batch_items: int) -> None:
        self._queue = queue
        self._end: End = end
        self._pace = Pace(batch_items)
        #: How many items may still come.
        self.remaining = limit
        #: The ids of those that were moved to the dead letters.
        self.buried: list[str] = []

    def _taken(self, take: Callable[[int], T], nothing: T) -> T:
        """Take so many as is good, less where that is too much, past what is corrupt."""
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


class Batcher(_Batching):
    """Lease batches from one end of a queue.

    Args:
        queue: The queue.
        end: ``"min"`` or ``"max"``.
        limit: The most items altogether.
        batch_items: The most items of a batch; about a megabyte is one, too.
        seconds: For how long each is leased.
        owner: Whose the batches are, as for ``lease_batch``.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        end: End = "min",
        limit: float = math.inf,
        batch_items: int = BATCH_ITEMS,
        seconds: float = 60,
        owner: bytes | None = None,
    ) -> None:
        super().__init__(queue, end, limit, batch_items)
        self._lease = functools.partial(queue.lease_batch, end=end, seconds=seconds, owner=owner)

    def next(self) -> Batch:
        """Lease the next batch: empty when the queue is, or the limit is reached."""
        batch = self._taken(self._lease, Batch.empty())
        self._note(len(batch), batch.size_bytes)
        return batch


class Mover(_Batching):
    """Move items from one end of a queue behind those of another, a transaction at a time.

    Args:
        queue: The queue.
        target: The one they go to.
        end: ``"min"`` or ``"max"``.
        limit: The most items altogether.
        batch_items: The most of one transaction; about a megabyte is one, too.
        priority: The priority of all of them; None for their own.

    Raises:
        InvalidInput: The move makes no sense, as :func:`check_move` says.
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
        """Move some: none when the queue is empty, or the limit is reached.

        Raises:
            InvalidInput: The target cannot hold an item; it stays, with those that came
                with it.
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
