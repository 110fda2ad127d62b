"""Pop and lease items: at once, or wait until there are some."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Sequence

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import instrumentation
from fdbqueue.service.clock import duration, in_seconds
from fdbqueue.service.consume.leases import BesideEnds, LeaseEnds, Leases, token_of, worker_of
from fdbqueue.service.consume.process_group import ProcessGroup
from fdbqueue.service.consume.requests import TakeRequest
from fdbqueue.service.consume.requeue import Popped, Requeuer
from fdbqueue.service.consume.round import take
from fdbqueue.service.consume.taker import Taker
from fdbqueue.service.consume.waiting import ItemWait, deadline_after
from fdbqueue.service.idempotency import IdempotencyKey, is_replayed
from fdbqueue.service.items import Duration, Item
from fdbqueue.service.runner import Runner
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.reader import End, Loaded
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.transactions import run

#: The most leases that end in the transaction that takes the next items.
MAX_ENDED = 1_000

#: Calls a function that takes items in a thread, for a task that may be cancelled.
TakeOnce = Callable[[Callable[[], tuple[list[Item], ...]]], Awaitable[tuple[list[Item], ...]]]


class Consumer:
    """Take items of one queue for the threads and tasks of this process.

    Args:
        runner: Runs its operations.
        taker: Takes its items.
        leases: Its leases.
        group: What the threads of this process share of the queue.
        requeuer: Requeues items that were taken for a thread that no longer waits.

    Attributes:
        name: The queue's name.
        taker, group: As given.
        responses: The saved responses of calls with an idempotency key.
        item_wait: Waits for items.
    """

    def __init__(
        self,
        runner: Runner,
        taker: Taker,
        leases: Leases,
        group: ProcessGroup,
        requeuer: Requeuer,
    ) -> None:
        self._runner = runner
        self.taker = taker
        self.name = taker.store.queue
        self._store = taker.store
        self.responses = taker.responses
        self._leases = leases
        self.group = group
        self._requeuer = requeuer
        self.item_wait = ItemWait((group.watch,))

    def pop_request(
        self, end: End, count: int, once: IdempotencyKey | str | None, *, for_a_task: bool = False
    ) -> TakeRequest:
        """Return a request to pop items, for a thread or for a task that may be cancelled."""
        call = None if once is None else self.responses.call(once, "pop", end, count)
        effect = functools.partial(pop_for_a_task if for_a_task else pop, self._store)
        return TakeRequest(end, count, effect, call, requeue=self._requeuer.requeue_popped)

    def lease_request(
        self,
        end: End,
        count: int,
        seconds: Duration,
        once: IdempotencyKey | str | None,
        ack: Iterable[Item | str] = (),
        worker: str | None = None,
        beside: BesideEnds | None = None,
    ) -> TakeRequest:
        """Return a request to lease items, and to acknowledge others in the same transaction.

        ``beside`` writes something more where these are acknowledged.
        """
        lasting_us = duration(self._store.queue, "seconds", seconds)
        name = b"" if worker is None else worker_of(self._store.queue, worker)
        effect = functools.partial(self._leases.lease_items, lasting_us=lasting_us, worker=name)
        tokens = [token_of(lease) for lease in ack]
        if len(tokens) > MAX_ENDED:
            raise InvalidInput(
                queue=self._store.queue, ack=len(tokens), allowed=f"0 to {MAX_ENDED}"
            )
        call = None
        if once is not None:
            facts = "lease", end, count, in_seconds(seconds), *[token.encode() for token in tokens]
            call = self.responses.call(once, *facts)
        return TakeRequest(
            end,
            count,
            effect,
            call,
            requeue=self._requeuer.requeue_leased,
            lease_us=lasting_us,
            worker=name,
            acknowledges=LeaseEnds(self._leases, map(self._leases.parse, tokens), beside)
            if tokens
            else None,
        )

    def take(
        self,
        request: TakeRequest,
        wait: float | None,
        tr: Transaction | None = None,
        waits_while: Callable[[], bool] | None = None,
    ) -> list[Item]:
        """Take items for a thread, as soon as there are some.

        Args:
            request: What to take.
            wait: For how many seconds to wait.
            tr: The transaction to take part in; then there is no waiting.
            waits_while: False ends the wait.
        """
        deadline = deadline_after(self._store.queue, wait)
        if tr is not None:
            if wait is not None:
                raise InvalidInput(queue=self._store.queue, reason="a transaction cannot wait")
            return [*take(self.taker, tr, request)]
        look = functools.partial(self._look, request)
        found = self.item_wait.until(look, deadline, waits_while, self._runner.database)
        if found is None:
            return []
        return [*found[0]] if found else self.take_nothing(request)

    def _look(self, request: TakeRequest) -> tuple[list[Item], ...]:
        """Return the items that were taken, if there is something to return."""
        items = self.take_now(request)
        request.acknowledges = None  # they have ended
        return (items,) if items or is_replayed(request.call) else ()

    async def take_in_loop(
        self, request: TakeRequest, wait: float | None, take_once: TakeOnce
    ) -> list[Item]:
        """Take items for a task, as soon as there are some; waiting takes no thread.

        Args:
            request: What to take.
            wait: For how many seconds to wait.
            take_once: Calls a function that takes items in a thread, and requeues them if the
                task was cancelled meanwhile.
        """
        deadline = deadline_after(self._store.queue, wait)

        async def look() -> tuple[list[Item], ...]:
            return await take_once(functools.partial(self._look, request))

        found = await self.item_wait.until_in_loop(look, deadline)
        if found:
            return found[0]
        if request.call is None:
            return []
        return (await take_once(lambda: (self.take_nothing(request),)))[0]

    def take_now(self, request: TakeRequest) -> list[Item]:
        """Take the items there are, in a transaction that other threads may share."""
        verb = "lease" if request.lease_us else "pop"
        return instrumentation.observed(
            verb, self._store.queue, lambda: self.group.take(request, self._runner.database)
        )

    def take_nothing(self, request: TakeRequest) -> list[Item]:
        """Return no items; under an idempotency key, look again and save that response."""
        call = request.call
        if call is None:
            return []
        return run(
            self._runner.database,
            lambda tr: take(self.taker, tr, request),
            wrote=lambda _: not is_replayed(call),
        )


# The effects of a pop


def pop(
    store: ItemStore, tr: Transaction, count_change: CountChange, loaded: Sequence[Loaded]
) -> Popped:
    """Remove items for good."""
    items = []
    for one in loaded:
        store.remove_taken(tr, count_change, one)
        assert isinstance(one.item, Item)
        items.append(one.item)
    return Popped(items, loaded)


def pop_for_a_task(
    store: ItemStore, tr: Transaction, count_change: CountChange, loaded: Sequence[Loaded]
) -> Popped:
    """Remove items that may be requeued, because the task that pops may be cancelled."""
    for one in loaded:  # later pushes go behind items that may be requeued
        store.note_hidden(count_change, one.position)
    return pop(store, tr, count_change, loaded)
