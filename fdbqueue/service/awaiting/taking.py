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
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeVar

from fdbqueue.exceptions import OutcomeUnknown, text_of_error
from fdbqueue.service.answers import Once
from fdbqueue.service.awaiting.reading import AwaitedReads
from fdbqueue.service.awaiting.threads import end_of, in_thread, read_in_thread, stopped
from fdbqueue.service.batches import Batch
from fdbqueue.service.browsing import one
from fdbqueue.service.consuming import is_answered
from fdbqueue.service.counters import Tally
from fdbqueue.service.items import Item
from fdbqueue.service.leases import token_of
from fdbqueue.service.reading import End, Loaded
from fdbqueue.service.wants import Want

logger = logging.getLogger(__name__)

#: A pop only clears what it takes, so it may take more than one transaction can write.
_MAX_RETURNED_BYTES = 1_000_000
_MAX_RETURNED = 500

L = TypeVar("L", bound=list[Item])


class Taken(list[Item]):
    """Items that were popped, with what it takes to put them back."""

    def __init__(self, items: Iterable[Item], loaded: Sequence[Loaded]) -> None:
        super().__init__(items)
        self.loaded = loaded


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
        want = self._wanted_pop(count, end, once, self._remove_for_now)
        return await self._take_or_wait(want, wait, self._put_popped_back)

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
        want = self._wanted_lease(count, end, seconds, once)
        return await self._take_or_wait(want, wait, self._give_leases_back)

    async def aack(self, lease: Item | str) -> None:
        """Remove a leased item for good, as :meth:`ack` does."""
        await in_thread(self.ack, lease)

    async def aack_many(self, leases: Iterable[Item | str]) -> int:
        """Remove leased items for good, as :meth:`ack_many` does."""
        return await in_thread(self.ack_many, list(leases))

    async def anack(
        self, lease: Item | str, *, delay: float | None = None, reason: str = "given up"
    ) -> None:
        """Give a leased item up, as :meth:`nack` does."""
        await in_thread(self.nack, lease, delay=delay, reason=reason)

    async def aextend(self, lease: Item | str, seconds: float = 60) -> Item:
        """Let a lease run for so many seconds from now on, as :meth:`extend` does."""
        return await in_thread(self.extend, lease, seconds)

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
        rung = self._crowd.bell.rung
        deadline = self._deadline(seconds)
        while not await read_in_thread(self._has_items):
            if time.monotonic() >= deadline:
                return False
            await self._crowd.bell.wait_in_loop(rung, deadline)
            rung = self._crowd.bell.rung
        return True

    # What they share

    async def _take_or_wait(
        self, want: Want, wait: float | None, give_back: Callable[[list[Item]], None]
    ) -> list[Item]:
        deadline = self._deadline(wait)
        back = None if want.call is not None else give_back
        while True:
            rung = self._crowd.bell.rung
            items = await self._take(functools.partial(self._take_together, want), back)
            if items or is_answered(want.call):
                return items
            if time.monotonic() >= deadline:
                found = functools.partial(self._found_empty, want, want.call)
                return items if want.call is None else await self._take(found, back)
            try:
                await self._crowd.bell.wait_in_loop(rung, deadline)
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

    def _remove_for_now(self, tr: Any, tally: Tally, loaded: Sequence[Loaded]) -> list[Item]:
        for found in loaded:  # later pushes go behind what may come back
            self._stock.note_hidden(tally, found.position)
        return Taken(self._remove(tr, tally, loaded), loaded)

    def _put_popped_back(self, items: list[Item]) -> None:
        """Put items back, some in each transaction, and leave those that are not back yet."""
        assert isinstance(items, Taken)
        while items:
            count = _fitting(items)
            restore = functools.partial(self._restore, loaded=items.loaded[:count])
            self._transact("return", None, restore)
            items.loaded = items.loaded[count:]
            del items[:count]

    def _restore(self, tr: Any, loaded: Sequence[Loaded]) -> None:
        tally = self._stock.tally()
        for found in loaded:
            self._stock.restore(tr, tally, found)
        tally.write(tr)

    def _give_leases_back(self, items: list[Item]) -> None:
        """Give leases up, some in each transaction, and leave those that are not back yet."""
        while items:
            count = _fitting(items)
            tokens = [token_of(item) for item in items[:count]]
            give_back = functools.partial(self._leases.give_back, tokens=tokens)
            self._transact("return", None, give_back)
            del items[:count]


def _fitting(items: Sequence[Item]) -> int:
    """Return how many items one transaction puts back: at least one."""
    size = 0
    for count, item in enumerate(items[:_MAX_RETURNED]):
        size += item.size_bytes
        if count and size > _MAX_RETURNED_BYTES:
            return count
    return min(len(items), _MAX_RETURNED)


def _took_nothing(error: BaseException | None) -> bool:
    """Tell whether an error says for certain that nothing was taken."""
    return error is not None and not isinstance(error, OutcomeUnknown)
