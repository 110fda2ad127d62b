"""Look at a queue from an event loop."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator
from typing import Any

from fdbqueue.service.browse import ITERATION_ITEMS
from fdbqueue.service.items import Item, Page, Priority
from fdbqueue.service.maintenance.census import Examining
from fdbqueue.service.storage.counts import Counts, Minute
from fdbqueue.service.storage.reader import End
from fdbqueue.service.threads import read_in_thread


class AwaitedReads(Examining):
    """The parts of a queue that only read, to be awaited."""

    async def apeek(self) -> Item | None:
        """Return the item at the min end, as :meth:`peek` does."""
        return await read_in_thread(self.peek)

    async def apeek_min(self) -> Item | None:
        """Return the item ``apop_min`` would take, as :meth:`peek_min` does."""
        return await read_in_thread(self.peek_min)

    async def apeek_max(self) -> Item | None:
        """Return the item ``apop_max`` would take, as :meth:`peek_max` does."""
        return await read_in_thread(self.peek_max)

    async def apeek_many(self, count: int, *, end: End = "min") -> list[Item]:
        """Return the items ``apop_many`` would take, as :meth:`peek_many` does."""
        return await read_in_thread(self.peek_many, count, end=end)

    async def aget(self, item_id: str) -> Item:
        """Return the item with an id, as :meth:`get` does."""
        return await read_in_thread(self.get, item_id)

    async def apage(
        self,
        *,
        end: End = "min",
        after: str | None = None,
        limit: int = 100,
        min_priority: Any = None,
        max_priority: Any = None,
        state: str = "ready",
    ) -> Page:
        """Return some items in order, as :meth:`page` does."""
        return await read_in_thread(
            self.page,
            end=end,
            after=after,
            limit=limit,
            min_priority=min_priority,
            max_priority=max_priority,
            state=state,
        )

    async def aiterate(
        self, *, end: End = "min", after: str | None = None, **bounds: Any
    ) -> AsyncIterator[Item]:
        """Yield all items in order, as :meth:`iterate` does: ``async for item in queue``.

        Nothing is under way between two items, so the loop may be left at any of them.
        """
        while True:
            page = await self.apage(end=end, after=after, limit=ITERATION_ITEMS, **bounds)
            for item in page.items:
                yield item
            if page.cursor is None:
                return
            after = page.cursor

    def __aiter__(self) -> AsyncIterator[Item]:
        return self.aiterate()

    async def asize(self) -> int:
        """Return how many items are ready, as :meth:`size` does."""
        return await read_in_thread(self.size)

    async def acounts(self) -> Counts:
        """Return how many items are in each state, as :meth:`counts` does."""
        return await read_in_thread(self.counts)

    async def aby_priority(
        self, *, after: Any = None, limit: int = 1_000
    ) -> list[tuple[Priority, int]]:
        """Return the priorities of ready items, as :meth:`by_priority` does."""
        return await read_in_thread(self.by_priority, after=after, limit=limit)

    async def aoldest(self) -> datetime.datetime | None:
        """Return when the oldest ready item was pushed, as :meth:`oldest` does."""
        return await read_in_thread(self.oldest)

    async def ahistory(self, minutes: int = 60) -> list[Minute]:
        """Return what was pushed and taken in the last minutes, as :meth:`history` does."""
        return await read_in_thread(self.history, minutes)
