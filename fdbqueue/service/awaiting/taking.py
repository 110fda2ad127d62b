"""Take items from an event loop.

A task may be cancelled at any moment: its client has gone, its time is over. Then

- while it waits for items, it ends at once and has taken nothing;
- while a transaction takes some, it waits for the outcome, and puts them back to their places
  before ``CancelledError`` is raised. No attempt is counted. In the meantime others may have
  taken what was behind them;
- under an idempotency key they stay taken: the same call returns them.

``CancelledError`` has an attribute ``outcome_known``: False where items may be gone, for the
transaction's outcome is unknown, or they could not be put back; what was popped is then logged
by its ids, and what was leased comes back when its time is over. As with every pop, an item is
gone when the process dies right after the commit: for work that must survive that, lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, TypeVar

from fdbqueue.exceptions import text_of_error
from fdbqueue.service.awaiting.reading import AwaitedReads
from fdbqueue.service.browse import one
from fdbqueue.service.bulk.batches import Batch
from fdbqueue.service.consume.requests import TakeRequest
from fdbqueue.service.consume.requeue import pop_for_a_task
from fdbqueue.service.consuming import is_answered
from fdbqueue.service.idempotency import Once
from fdbqueue.service.items import Held, Item
from fdbqueue.service.storage.reader import End
from fdbqueue.service.threads import end_of, in_thread, read_in_thread, stopped

logger = logging.getLogger(__name__)

L = TypeVar("L", bound=list[Item])


class AwaitedTakes(AwaitedReads):
    """The parts of a queue that take items from it, to be awaited."""

    # Popping

    async def apop(self, *, wait: float | None = None) -> Item | None:
        """Take the item at the min end, as :meth:`apop_min` does."""
        return await self.apop_min(wait=wait)

    async def apop_min(self, *, wait: float | None = None) -> Item | None:
        """Take the first item, as :meth:`pop_min` does.

        Cancelled, it takes nothing; see :meth:`apop_many`.
        """
        return one(await self.apop_many(1, end="min", wait=wait))

    async def apop_max(self, *, wait: float | None = None) -> Item | None:
        """Take the last item, as :meth:`pop_max` does.

        Cancelled, it takes nothing; see :meth:`apop_many`.
        """
        return one(await self.apop_many(1, end="max", wait=wait))

    async def apop_many(
        self,
        count: int,
        *,
        end: End = "min",
        wait: float | None = None,
        once: Once | str | None = None,
    ) -> list[Item]:
        """Take items from one end in one transaction, as :meth:`pop_many` does.

        Waiting for items takes no thread. A task cancelled while it waits ends at once. One
        cancelled while items are taken puts them back to their places first, unless the call
        has an idempotency key: then the same call returns them. More than 500, or 1,000,000
        bytes, are put back in several transactions. Where that fails, those that are not back
        are logged by their ids, and ``CancelledError.outcome_known`` is False.
        """
        effect = functools.partial(pop_for_a_task, self._stock)
        request = self._pop_request(count, end, once, effect)
        return [*await self._take_or_wait(request, wait, self._requeuer.requeue_popped)]

    # Leasing

    async def alease(self, *, seconds: float = 60, wait: float | None = None) -> Item | None:
        """Lease the item at the min end, as :meth:`alease_min` does."""
        return await self.alease_min(seconds=seconds, wait=wait)

    async def alease_min(self, *, seconds: float = 60, wait: float | None = None) -> Item | None:
        """Hide the first item for a time, as :meth:`lease_min` does.

        Cancelled, it leases nothing; see :meth:`alease_many`.
        """
        return one(await self.alease_many(1, end="min", seconds=seconds, wait=wait))

    async def alease_max(self, *, seconds: float = 60, wait: float | None = None) -> Item | None:
        """Hide the last item for a time, as :meth:`lease_max` does.

        Cancelled, it leases nothing; see :meth:`alease_many`.
        """
        return one(await self.alease_many(1, end="max", seconds=seconds, wait=wait))

    async def alease_many(
        self,
        count: int,
        *,
        end: End = "min",
        seconds: float = 60,
        wait: float | None = None,
        once: Once | str | None = None,
    ) -> list[Item]:
        """Lease items from one end in one transaction, as :meth:`lease_many` does.

        Waiting for items takes no thread. A task cancelled while it waits ends at once. One
        cancelled while items are leased gives them back first, with no attempt counted, unless
        the call has an idempotency key: then the same call returns them. Where that fails,
        they come back when their time is over.
        """
        request = self._lease_request(count, end, seconds, once)
        return await self._take_or_wait(request, wait, self._requeuer.requeue_leased)

    async def aack(self, lease: Item | str, *, once: Once | str | None = None) -> None:
        """Remove a leased item for good, as :meth:`ack` does."""
        await in_thread(self.ack, lease, once=once)

    async def aack_many(
        self, leases: Iterable[Item | str], *, once: Once | str | None = None
    ) -> Held:
        """Remove leased items for good, as :meth:`ack_many` does."""
        return await in_thread(self.ack_many, list(leases), once=once)

    async def anack(
        self,
        lease: Item | str,
        *,
        delay: float | None = None,
        reason: str = "given up",
        once: Once | str | None = None,
    ) -> None:
        """Give a leased item up, as :meth:`nack` does."""
        await in_thread(self.nack, lease, delay=delay, reason=reason, once=once)

    async def anack_many(
        self,
        leases: Iterable[Item | str],
        *,
        delay: float | None = None,
        reason: str = "given up",
        once: Once | str | None = None,
    ) -> Held:
        """Give leased items up, as :meth:`nack_many` does."""
        tokens = list(leases)
        return await in_thread(self.nack_many, tokens, delay=delay, reason=reason, once=once)

    async def aextend(
        self, lease: Item | str, seconds: float = 60, *, once: Once | str | None = None
    ) -> Item:
        """Extend a lease to end the given number of seconds from now, as :meth:`extend` does."""
        return await in_thread(self.extend, lease, seconds, once=once)

    async def aextend_many(
        self,
        leases: Iterable[Item | str],
        seconds: float = 60,
        *,
        once: Once | str | None = None,
    ) -> Held:
        """Extend leases to end that many seconds from now, as :meth:`extend_many` does."""
        return await in_thread(self.extend_many, list(leases), seconds, once=once)

    @contextlib.asynccontextmanager
    async def aleased(
        self, *, end: End = "min", seconds: float = 60, wait: float | None = None
    ) -> AsyncIterator[Item | None]:
        """Lease an item for the length of an ``async with`` block, as :meth:`leased` does.

        A block that is cancelled gives the item up, as one that raises: an attempt is counted.
        A task cancelled after the block's end, however often, acknowledges the item or gives
        it up all the same, and is cancelled then.

        Raises:
            LeaseLost: The block took longer than the lease, and somebody brought the item
                back; raised at its end.
        """
        item = one(await self.alease_many(1, end=end, seconds=seconds, wait=wait))
        if item is None:
            yield None
            return
        try:
            yield item
        except BaseException as error:
            give_up = functools.partial(self.nack, item, reason=text_of_error(error))
            ended = await end_of(give_up, always=True)
            if ended.cancelled is not None:
                raise stopped(ended, outcome_known=False) from error
            raise  # what the block raised matters more than what became of the lease
        ended = await end_of(functools.partial(self.ack, item), always=True)
        if ended.cancelled is not None:
            raise stopped(ended, outcome_known=False)
        ended.result()

    # Batches

    async def alease_batch(
        self, count: int, *, end: End = "min", seconds: float = 60, owner: bytes | None = None
    ) -> Batch:
        """Lease items from one end under one token, as :meth:`lease_batch` does.

        Cancelled, it leases nothing: what was taken is put back first.
        """
        lease = functools.partial(self.lease_batch, count, end=end, seconds=seconds, owner=owner)
        return await self._take(lease, self.return_batch)

    async def await_for_items(self, seconds: float) -> bool:
        """Wait until there may be an item to take, as :meth:`wait_for_items` does.

        Waiting takes no thread, and ends at once when it is cancelled.
        """
        seen = self._poppers.watch.generation
        deadline = self._deadline(seconds)
        while not await read_in_thread(self._has_items):
            if time.monotonic() >= deadline:
                return False
            await self._poppers.watch.wait_in_loop(seen, deadline)
            seen = self._poppers.watch.generation
        return True

    # What they share

    async def _take_or_wait(
        self, request: TakeRequest, wait: float | None, give_back: Callable[[Any], None]
    ) -> list[Item]:
        deadline = self._deadline(wait)
        back = None if request.call is not None else give_back
        while True:
            seen = self._poppers.watch.generation
            items = await self._take(functools.partial(self._take_together, request), back)
            if items or is_answered(request.call):
                return items
            if time.monotonic() >= deadline:
                found = functools.partial(self._found_empty, request, request.call)
                return items if request.call is None else await self._take(found, back)
            try:
                await self._poppers.watch.wait_in_loop(seen, deadline)
            except asyncio.CancelledError as error:
                error.outcome_known = True  # type: ignore[attr-defined]
                raise

    async def _take(self, take: Callable[[], L], give_back: Callable[[L], None] | None) -> L:
        """Take items in a thread; give them back where nobody is there to have them."""
        ended = await end_of(take)
        if ended.cancelled is None:
            return ended.result()
        nothing = not ended.begun or _took_nothing(ended.error)
        if nothing or ended.error is not None:
            raise stopped(ended, outcome_known=nothing)
        items = ended.result()
        is_known = not items or (give_back is not None and await self._back(items, give_back))
        raise stopped(ended, outcome_known=is_known)

    async def _back(self, items: L, give_back: Callable[[L], None]) -> bool:
        """Give items back whatever happens, and tell whether that is done."""
        ended = await end_of(functools.partial(give_back, items), always=True)
        if ended.error is None:
            return True
        facts = {"queue": self.name, "items": [item.id for item in items]}
        logger.error("items were taken for a cancelled task", extra=facts, exc_info=ended.error)
        return False


def _took_nothing(error: BaseException | None) -> bool:
    """Tell whether an error says for certain that nothing was taken."""
    return getattr(error, "outcome_known", False) is True
