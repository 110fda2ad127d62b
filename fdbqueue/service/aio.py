"""The verbs for event loops: each as the one without the leading ``a``, to be awaited.

Transactions run in threads of a pool that all event loops of the process share
(:mod:`fdbqueue.service.threads`); waiting for items takes none. No verb takes ``tr`` here. A
transaction is read step by step, and its function runs again after a conflict: write it without
``async``, and await it with :func:`arun`. So each signature is written out: a type checker can
forward the parameters of a verb, but cannot leave one out.

A task may be cancelled at any moment: its client has gone, its time is over. Then

- before a call has begun, nothing is done;
- a push that has begun goes on to its end, because a commit under way cannot be taken back.
  The same call under an idempotency key finds out what became of it;
- a task that waits for items ends at once and has taken nothing;
- while a transaction takes items, the task waits for the outcome, and requeues them before
  ``CancelledError`` is raised. No attempt is counted. In the meantime other clients may have
  taken what was behind them;
- under an idempotency key they stay taken: the same call returns them.

``CancelledError`` has an attribute ``outcome_known``: True if nothing was changed, False
if a change was made or may have been, or items could not be requeued: what was popped is then
logged by its ids, and what was leased returns when its lease expires. As with every pop, an item
is gone when the process dies right after the commit: for work that must survive that, lease.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import text_of_error
from fdbqueue.logs import get_logger
from fdbqueue.service.consume.consumer import Consumer, first
from fdbqueue.service.consume.round import TakeRequest
from fdbqueue.service.idempotency import IdempotencyKey
from fdbqueue.service.items import NOT_GIVEN, Duration, Held, Item, Page, Push
from fdbqueue.service.push import Prepared
from fdbqueue.service.sizes import ITERATED_ITEMS, LEASE_SECONDS
from fdbqueue.service.storage.counts import Counts
from fdbqueue.service.storage.item_keys import End
from fdbqueue.service.threads import end_of, in_thread, read_in_thread, stopped
from fdbqueue.service.transactions import run

T = TypeVar("T")

logger = get_logger(__name__)


class _Cancelled(Exception):
    """The task that awaits a call of many transactions was cancelled."""


class AsyncVerbs:
    """The verbs of a queue that an application awaits.

    A queue inherits from this class, which calls the queue's other verbs and declares them here.
    """

    name: str
    _consumer: Consumer
    _check: Callable[[int, str], None]
    prepare: Callable[..., Prepared]
    prepare_batch: Callable[..., Prepared]
    push_many: Callable[..., int]
    ack: Callable[..., None]
    ack_many: Callable[..., Held]
    nack: Callable[..., None]
    nack_many: Callable[..., Held]
    requeue: Callable[..., None]
    extend: Callable[..., Item]
    extend_many: Callable[..., Held]
    peek_many: Callable[..., list[Item]]
    page: Callable[..., Page]
    size: Callable[..., int]
    counts: Callable[..., Counts]

    # Push

    async def apush(
        self,
        value: Any,
        priority: Any = NOT_GIVEN,
        *,
        delay: Duration | None = None,
        not_before: datetime.datetime | None = None,
        unique: str | None = None,
        unique_while: str = "pending",
        once: IdempotencyKey | str | None = None,
    ) -> Item:
        """Put a value into the queue, as :meth:`push` does.

        It is checked and encoded at the call, in the event loop: later changes of the value's
        object have no effect.
        """
        push = Push(value, priority, delay, not_before, unique, unique_while)
        return (await in_thread(self.prepare(push, once=once), None))[0]

    async def apush_many(
        self,
        items: Iterable[Any],
        *,
        delay: Duration | None = None,
        not_before: datetime.datetime | None = None,
    ) -> int:
        """Put many into the queue, as :meth:`push_many` does.

        Cancelled, it stops before the next transaction: the cause of ``CancelledError`` is a
        ``PushInterrupted`` that says how many are in, if any are.

        Args:
            items: The values, or pairs. They are read in another thread, as they are needed:
                give no queryset, and nothing else that belongs to this thread.
            delay: For how long to hide them.
            not_before: When to show them.
        """
        cancelled = threading.Event()
        given = _until_set(items, cancelled)
        push = functools.partial(self.push_many, given, delay=delay, not_before=not_before)
        ended = await end_of(push, on_cancel=cancelled.set)
        if ended.cancelled is not None:
            nothing = not ended.begun or isinstance(ended.error, _Cancelled)
            raise stopped(ended, outcome_known=nothing)
        return ended.result()

    async def apush_batch(
        self, pushes: Sequence[Push], *, once: IdempotencyKey | str | None = None
    ) -> list[Item]:
        """Put values into the queue in one transaction, as :meth:`push_batch` does.

        They are checked and encoded at the call, in the event loop.
        """
        return await in_thread(self.prepare_batch(pushes, once=once), None)

    # Pop

    async def apop_min(self, *, wait: float | None = None) -> Item | None:
        """Take the first item, as :meth:`pop_min` does.

        Cancelled, it takes nothing; see :meth:`apop_many`.
        """
        return first(await self.apop_many(1, end="min", wait=wait))

    apop = apop_min

    async def apop_max(self, *, wait: float | None = None) -> Item | None:
        """Take the last item, as :meth:`pop_max` does.

        Cancelled, it takes nothing; see :meth:`apop_many`.
        """
        return first(await self.apop_many(1, end="max", wait=wait))

    async def apop_many(
        self,
        count: int,
        *,
        end: End = "min",
        wait: float | None = None,
        once: IdempotencyKey | str | None = None,
    ) -> list[Item]:
        """Take items from one end in one transaction, as :meth:`pop_many` does.

        Waiting for items takes no thread. A task cancelled while it waits ends at once. One
        cancelled while items are taken requeues them first, unless the call has an idempotency
        key: then the same call returns them. More than 500, or 1,000,000 bytes, are requeued
        in several transactions. If that fails, those that are not back are logged by their
        ids, and ``CancelledError.outcome_known`` is False.
        """
        self._check(count, end)
        return await self._take(self._consumer.pop_request(end, count, once), wait)

    # Lease

    async def alease_min(
        self,
        *,
        seconds: Duration = LEASE_SECONDS,
        wait: float | None = None,
        worker: str | None = None,
    ) -> Item | None:
        """Hide the first item for a time, as :meth:`lease_min` does.

        Cancelled, it leases nothing; see :meth:`alease_many`.
        """
        return first(
            await self.alease_many(1, end="min", seconds=seconds, wait=wait, worker=worker)
        )

    alease = alease_min

    async def alease_max(
        self,
        *,
        seconds: Duration = LEASE_SECONDS,
        wait: float | None = None,
        worker: str | None = None,
    ) -> Item | None:
        """Hide the last item for a time, as :meth:`lease_max` does.

        Cancelled, it leases nothing; see :meth:`alease_many`.
        """
        return first(
            await self.alease_many(1, end="max", seconds=seconds, wait=wait, worker=worker)
        )

    async def alease_many(
        self,
        count: int,
        *,
        end: End = "min",
        seconds: Duration = LEASE_SECONDS,
        wait: float | None = None,
        worker: str | None = None,
        ack: Iterable[Item | str] = (),
        once: IdempotencyKey | str | None = None,
    ) -> list[Item]:
        """Lease items from one end in one transaction, as :meth:`lease_many` does.

        Waiting for items takes no thread. A task cancelled while it waits ends at once. One
        cancelled while items are leased requeues them first, with no attempt counted, unless
        the call has an idempotency key: then the same call returns them. If that fails,
        they return when their leases expire.
        """
        self._check(count, end)
        request = self._consumer.lease_request(end, count, seconds, once, ack, worker)
        return await self._take(request, wait)

    async def aack(self, lease: Item | str, *, once: IdempotencyKey | str | None = None) -> None:
        """Remove a leased item for good, as :meth:`ack` does."""
        await in_thread(self.ack, lease, once=once)

    async def aack_many(
        self, leases: Iterable[Item | str], *, once: IdempotencyKey | str | None = None
    ) -> Held:
        """Remove leased items for good, as :meth:`ack_many` does."""
        return await in_thread(self.ack_many, list(leases), once=once)

    async def anack(
        self,
        lease: Item | str,
        *,
        delay: Duration | None = None,
        reason: str = "given up",
        retry: bool = True,
        once: IdempotencyKey | str | None = None,
    ) -> None:
        """Give a leased item up, as :meth:`nack` does."""
        await in_thread(self.nack, lease, delay=delay, reason=reason, retry=retry, once=once)

    async def arequeue(self, lease: Item | str) -> None:
        """Requeue a leased item as it was, as :meth:`requeue` does."""
        await in_thread(self.requeue, lease)

    async def anack_many(
        self,
        leases: Iterable[Item | str],
        *,
        delay: Duration | None = None,
        reason: str = "given up",
        once: IdempotencyKey | str | None = None,
    ) -> Held:
        """Give leased items up, as :meth:`nack_many` does."""
        tokens = list(leases)
        return await in_thread(self.nack_many, tokens, delay=delay, reason=reason, once=once)

    async def aextend(
        self,
        lease: Item | str,
        seconds: Duration = LEASE_SECONDS,
        *,
        once: IdempotencyKey | str | None = None,
    ) -> Item:
        """Extend a lease to end the given number of seconds from now, as :meth:`extend` does."""
        return await in_thread(self.extend, lease, seconds, once=once)

    async def aextend_many(
        self,
        leases: Iterable[Item | str],
        seconds: Duration = LEASE_SECONDS,
        *,
        once: IdempotencyKey | str | None = None,
    ) -> Held:
        """Extend leases to end that many seconds from now, as :meth:`extend_many` does."""
        return await in_thread(self.extend_many, list(leases), seconds, once=once)

    @contextlib.asynccontextmanager
    async def aleased(
        self,
        *,
        end: End = "min",
        seconds: Duration = LEASE_SECONDS,
        wait: float | None = None,
        worker: str | None = None,
    ) -> AsyncIterator[Item | None]:
        """Lease an item for the length of an ``async with`` block, as :meth:`leased` does.

        A block that is cancelled gives the item up, as one that raises: an attempt is counted.
        A task cancelled after the block's end, however often, acknowledges the item or gives
        it up all the same, and is cancelled then.

        Raises:
            LeaseLost: The block took longer than the lease, and the item has returned to the
                queue; raised at the end of the block.
        """
        item = first(await self.alease_many(1, end=end, seconds=seconds, wait=wait, worker=worker))
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

    # Look

    async def apeek_min(self) -> Item | None:
        """Return the first item, as :meth:`peek_min` does."""
        return first(await self.apeek_many(1))

    apeek = apeek_min

    async def apeek_max(self) -> Item | None:
        """Return the last item, as :meth:`peek_max` does."""
        return first(await self.apeek_many(1, end="max"))

    async def apeek_many(self, count: int, *, end: End = "min") -> list[Item]:
        """Return the first items from one end, as :meth:`peek_many` does."""
        return await read_in_thread(self.peek_many, count, end=end)

    async def aiterate(
        self, *, end: End = "min", after: str | None = None, **bounds: Any
    ) -> AsyncIterator[Item]:
        """Yield all items in order, as :meth:`iterate` does: ``async for item in queue``.

        Nothing is under way between two items, so the loop may be left at any of them.
        """
        while True:
            page = await read_in_thread(
                self.page, end=end, after=after, limit=ITERATED_ITEMS, **bounds
            )
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

    # What the takes share

    async def _take(self, request: TakeRequest, wait: float | None) -> list[Item]:
        requeue = None if request.call is not None else request.requeue
        take_once = functools.partial(take_in_thread, queue=self.name, requeue=requeue)
        return [*await self._consumer.take_in_loop(request, wait, take_once)]


async def take_in_thread(
    take: Callable[[], tuple[list[Item], ...]],
    *,
    queue: str,
    requeue: Callable[[Any], None] | None,
) -> tuple[list[Item], ...]:
    """Take items in a thread; requeue them if the task was cancelled meanwhile.

    Args:
        take: Takes them.
        queue: The queue's name, for the log.
        requeue: Requeues them; None if they are to stay taken.
    """
    undo = functools.partial(_requeued, queue, requeue)
    ended = await end_of(take, undo=undo)
    if ended.cancelled is None:
        return ended.result()
    nothing = not ended.begun or getattr(ended.error, "outcome_known", False) is True
    if nothing or ended.error is not None:
        raise stopped(ended, outcome_known=nothing)
    undone = await end_of(functools.partial(undo, ended.result()), always=True)
    raise stopped(ended, outcome_known=undone.result())


def _requeued(
    queue: str, requeue: Callable[[Any], None] | None, taken: tuple[list[Item], ...]
) -> bool:
    """Requeue items whatever happens, and tell whether none is taken any more."""
    items = taken[0] if taken else []
    if not items or requeue is None:
        return not items
    try:
        requeue(items)
    except Exception:
        facts = {"queue": queue, "items": [item.id for item in items]}
        logger.exception("items were taken for a cancelled task", extra=facts)
        return False
    return True


def _until_set(items: Iterable[T], cancelled: threading.Event) -> Iterator[T]:
    for item in items:
        if cancelled.is_set():
            raise _Cancelled
        yield item


async def arun(database: Database, function: Callable[[Transaction], T]) -> T:
    """Run a function in a transaction of its own, as :func:`run` does, and await its result.

    The function is an ordinary one, and is called in another thread: what it does with
    queues is given its transaction, ``queue.push(value, tr=tr)``. A task cancelled meanwhile
    waits until it is known whether the transaction was committed.

    Args:
        database: Anything with ``create_transaction()``.
        function: Called with the transaction; again after a conflict.

    Returns:
        What the run that was committed returned.

    Raises:
        OutcomeUnknown: It is not known whether the commit took effect.
        FDBError: The engine's own, if trying again would not help.
    """
    return await in_thread(run, database, function)
