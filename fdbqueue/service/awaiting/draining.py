"""Drain a queue, move and bury its items, from an event loop.

What takes several transactions goes on to its end when its task is cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fdbqueue.exceptions import CorruptItem
from fdbqueue.service.awaiting.taking import AwaitedTakes
from fdbqueue.service.bulk.batches import Batch
from fdbqueue.service.storage.reader import End
from fdbqueue.service.threads import in_thread

if TYPE_CHECKING:
    from fdbqueue.service.base import Queue


class AwaitedDrains(AwaitedTakes):
    """The parts of a queue that take everything off it, to be awaited."""

    async def aack_batch(self, batch: Batch) -> None:
        """Remove a batch's items for good, as :meth:`ack_batch` does."""
        await in_thread(self.ack_batch, batch)

    async def areturn_batch(self, batch: Batch) -> None:
        """Put a batch's items back to their places, as :meth:`return_batch` does."""
        await in_thread(self.return_batch, batch)

    async def asettle_batch(self, owner: bytes, done_ids: Iterable[str] = ()) -> int:
        """Finish what an owner left behind who died, as :meth:`settle_batch` does."""
        return await in_thread(self.settle_batch, owner, list(done_ids))

    async def aremove_many(self, item_ids: Iterable[str]) -> int:
        """Remove items for good by their ids, as :meth:`remove_many` does."""
        return await in_thread(self.remove_many, list(item_ids))

    async def aclear_state(self, state: str) -> int:
        """Remove the items that are in a state, as :meth:`clear_state` does."""
        return await in_thread(self.clear_state, state)

    async def amove_many(
        self, target: Queue, count: int, *, end: End = "min", priority: Any = None
    ) -> int:
        """Move items behind those of another queue, as :meth:`move_many` does."""
        return await in_thread(self.move_many, target, count, end=end, priority=priority)

    async def abury(self, item_id: str, *, reason: str = "buried") -> None:
        """Move a ready item to the dead letters, as :meth:`bury` does."""
        await in_thread(self.bury, item_id, reason=reason)

    async def abury_corrupt(self, error: CorruptItem) -> bool:
        """Put the item that an error names out of the way, as :meth:`bury_corrupt` does."""
        return await in_thread(self.bury_corrupt, error)

    async def aredrive(
        self, item_ids: Iterable[str] | None = None, *, limit: int | None = None
    ) -> int:
        """Put dead letters back to their places, as :meth:`redrive` does."""
        ids = None if item_ids is None else list(item_ids)
        return await in_thread(self.redrive, ids, limit=limit)
