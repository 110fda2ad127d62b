"""Pop and lease items: at once, or wait until there are some.

A lease that acknowledges others does so in the first transaction that looks for items; from then on
errors of the call say so. Under an idempotency key the same call ends none again.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import (
    FdbQueueError,
    FormatMismatch,
    InvalidInput,
    OutcomeUnknown,
    text_of_error,
)
from fdbqueue.service import instrumentation
from fdbqueue.service.clock import duration, in_seconds, now_us
from fdbqueue.service.consume.acks import Ack, BesideEnds, distinct, parsed_token, token_of
from fdbqueue.service.consume.leases import worker_of
from fdbqueue.service.consume.poppers import ProcessGroup
from fdbqueue.service.consume.prospect import READ_AT_ONCE, Look
from fdbqueue.service.consume.round import Popped, Round, Taker, TakeRequest
from fdbqueue.service.consume.waiting import ItemWait, deadline_after
from fdbqueue.service.idempotency import IdempotencyKey, is_replayed
from fdbqueue.service.items import Duration, Item
from fdbqueue.service.sizes import MAX_ENDS_BYTES, STEP_BYTES
from fdbqueue.service.storage.item_keys import End, Loaded
from fdbqueue.service.transactions import error_code, run, unlimited
from fdbqueue.service.writes import Runner

#: The most leases that end in the transaction that takes the next items.
MAX_ENDED = 1_000
#: A pop only clears what it takes, so it may take more than one transaction can write.
_MAX_REQUEUED = 500

#: Calls a function that takes items in a thread, for a task that may be cancelled.
TakeOnce = Callable[[Callable[[], tuple[list[Item], ...]]], Awaitable[tuple[list[Item], ...]]]


class Consumer:
    """Take items of one queue for the threads and tasks of this process.

    Args:
        runner: Runs its operations.
        taker: Takes its items.
        group: What the threads of this process share of the queue.

    Attributes:
        name: The queue's name.
        taker, group: As given.
        responses: The saved responses of calls with an idempotency key.
        item_wait: Waits for items to pop.
        lease_wait: Waits for items to lease.
    """

    def __init__(self, runner: Runner, taker: Taker, group: ProcessGroup) -> None:
        self._runner = runner
        self.taker = taker
        self.name = taker.store.queue
        self._store = taker.store
        self.responses = taker.responses
        self._leases = taker.leases
        self.group = group
        self.item_wait = ItemWait((group.watch,))
        self.lease_wait = ItemWait((group.lease_watch,))

    def pop_request(self, end: End, count: int, once: IdempotencyKey | str | None) -> TakeRequest:
        """Return a request to pop items."""
        call = None if once is None else self.responses.call(once, "pop", end, count)
        return TakeRequest(end, count, call, requeue=self.requeue_popped)

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

        Raises:
            BatchTooLarge: They are more than one transaction can acknowledge.
        """
        lasting_us = duration(self._store.queue, "seconds", seconds)
        name = b"" if worker is None else worker_of(self._store.queue, worker)
        tokens = [*map(token_of, ack)]
        if len(tokens) > MAX_ENDED:
            raise InvalidInput(
                queue=self._store.queue, ack=len(tokens), allowed=f"0 to {MAX_ENDED}"
            )
        ends = None
        if beside is not None and not tokens:
            reason = "beside goes with ack: there is nothing to acknowledge"
            raise InvalidInput(queue=self._store.queue, reason=reason)
        if tokens:
            own = distinct(map(functools.partial(parsed_token, self._store), tokens))
            ends = Ack(self._store, own, beside)
            ends.check_size(MAX_ENDS_BYTES)
        call = None
        if once is not None:
            facts = "lease", end, count, in_seconds(seconds), *[token.encode() for token in tokens]
            who = () if worker is None else (worker,)  # a text, as no token is
            call = self.responses.call(once, *facts, *who)
        return TakeRequest(
            end,
            count,
            call,
            requeue=self.requeue_leased,
            lease_us=max(1, lasting_us),  # also one that is over at once is a lease
            worker=name,
            acknowledges=ends,
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
            waits_while: False ends the call, and nothing is taken.
        """
        deadline = 0.0 if wait is None else deadline_after(self._store.queue, wait)
        if tr is not None:
            if wait is not None:
                raise InvalidInput(queue=self._store.queue, reason="a transaction cannot wait")
            if waits_while is not None and not waits_while():
                return []
            return [*take_in(self.taker, tr, request)[0]]
        try:
            if wait is None and waits_while is None:
                found: tuple[list[Item], ...] | None = self.take_now(request)
            else:
                look = functools.partial(self.take_now, request)
                item_wait = self.lease_wait if request.lease_us else self.item_wait
                found = item_wait.until(look, deadline, waits_while, self._runner.database)
            if found is None:
                return []
            return [*found[0]] if found else self._take_nothing(request)
        except BaseException as error:
            _tell_of_acks(request, error)
            raise

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
            return await take_once(functools.partial(self.take_now, request))

        try:
            item_wait = self.lease_wait if request.lease_us else self.item_wait
            found = await item_wait.until_in_loop(look, deadline)
            if found:
                return found[0]
            if request.call is None:
                return []
            return (await take_once(lambda: (self._take_nothing(request),)))[0]
        except BaseException as error:
            _tell_of_acks(request, error)
            raise

    def take_now(self, request: TakeRequest) -> tuple[list[Item], ...]:
        """Take the items there are, in a transaction that other threads may share.

        What is raised has an attribute ``outcome_known``: True if nothing was taken.

        Returns:
            The items, or the saved response; an empty tuple if the call has nothing to return
            yet.

        Raises:
            CorruptItem: One of them cannot be decoded; all stay where they are.
            DeadlineExceeded: The time was over first; nothing was taken.
            OutcomeUnknown: It is not known whether they were taken.
        """
        submit, database = self.group.poppers[request.end].combiner.submit, self._runner.database
        if instrumentation.observers:
            verb = "lease" if request.lease_us else "pop"
            items = instrumentation.observed(verb, self._store.queue, submit, request, database)
        else:
            items = submit(request, database)
        if request.acknowledges is not None:
            request.note_acknowledged()
        return (items,) if items or is_replayed(request.call) else ()

    def _take_nothing(self, request: TakeRequest) -> list[Item]:
        """Return no items; under an idempotency key, look again and save that response."""
        call = request.call
        if call is None:
            return []
        return run(
            self._runner.database,
            lambda tr: take_in(self.taker, tr, request)[0],
            wrote=lambda _: not is_replayed(call),
        )

    # What undoes takes

    def requeue_popped(self, items: Popped) -> None:
        """Requeue popped items, and remove them from the list: after an error it holds the rest."""
        while items:
            count = _fitting_count(items)
            some = items.loaded[:count]
            self._requeue(
                functools.partial(self._requeue_rows, loaded=some, failures=items.failures)
            )
            items.loaded = items.loaded[count:]
            del items[:count]

    def requeue_leased(self, items: list[Item]) -> None:
        """Requeue leased items in the same way; those whose lease was lost are skipped."""
        while items:
            count = _fitting_count(items)
            keys = [parsed_token(self._store, token_of(item))[:2] for item in items[:count]]
            self._requeue(functools.partial(self._leases.requeue_keys, keys=keys))
            del items[:count]

    def _requeue_rows(
        self, tr: Transaction, loaded: Sequence[Loaded], failures: Mapping[bytes, list[Any]]
    ) -> None:
        """Requeue popped items: if the queue has other settings by now, as delayed ones.

        Those are where they are under any settings, and nobody else has the items any more.
        """
        until = None
        try:
            self._store.format.check(tr)
        except FormatMismatch:
            until = now_us()
        count_change = self._store.count_change(tr)
        for one in loaded:
            failed = failures.get(one.row.place, ())
            self._store.requeue_taken(count_change, one, failed, until)
        count_change.write()

    def _requeue(self, function: Callable[[Transaction], None]) -> None:
        """Call what requeues, in a transaction without a time limit."""
        requeue = functools.partial(
            run, unlimited(self._runner.database), function, wrote=lambda _: True
        )
        instrumentation.observed("return", self._store.queue, requeue)


class Consumers(dict[str, Consumer]):
    """What takes from each queue, by name: a take that meets many finds them without a call each.

    Args:
        open_queue: Returns what takes from a queue that is met for the first time.
    """

    def __init__(self, open_queue: Callable[[str], Consumer]) -> None:
        super().__init__()
        self._open_queue = open_queue

    def __missing__(self, name: str) -> Consumer:
        found = self[name] = self._open_queue(name)
        return found


def take_in(taker: Taker, tr: Transaction, request: TakeRequest) -> tuple[list[Item], bool]:
    """Take items in the caller's transaction, which serves no other popper.

    Returns:
        The items; and whether more leases have expired than it looks at, if there are none.

    Raises:
        CorruptItem: One of them cannot be decoded; all stay where they are.
        IdempotencyKeyReused: The key was another call's.
    """
    while True:
        one = Round(taker, tr, request.end, [request], is_last=True)
        result = one.serve(helps=False)
        for _, items in result.results:
            if isinstance(items, Exception):
                try:
                    raise items
                finally:
                    del items, result  # an error that its own frames refer to keeps them
            if request.call is not None and not items and not request.call.replayed:
                taker.responses.save_items(tr, request.call, [], [])
            return items, result.is_cut


def first(items: list[Item]) -> Item | None:
    """Return the first item, None if there is none."""
    return items[0] if items else None


def looks_at(tr: Transaction, consumers: Sequence[Consumer]) -> Iterator[tuple[Consumer, Look]]:
    """Yield queues, each with a look at it; the looks at 25 queues begin at once."""
    for start in range(0, len(consumers), READ_AT_ONCE):
        part = consumers[start : start + READ_AT_ONCE]
        yield from [(one, Look(tr, one.taker)) for one in part]


def first_with_items(
    tr: Transaction, consumers: Sequence[Consumer], *, to_lease: bool
) -> Consumer | None:
    """Return the first queue that may have items to pop, or to lease, None if none has."""
    for one, look in looks_at(tr, consumers):
        if look.settle().prospect(to_lease=to_lease).is_now:
            return one
    return None


def held_until(tr: Transaction, consumers: Sequence[Consumer], *, to_lease: bool) -> int | None:
    """Return the earliest :meth:`Look.held_until` of some queues, None if none has one."""
    limited = [one for one in consumers if one.taker.limits is not None]
    found = [look.settle().held_until(to_lease=to_lease) for _, look in looks_at(tr, limited)]
    return min([until for until in found if until is not None], default=None)


def _fitting_count(items: Sequence[Item]) -> int:
    """Return how many items one transaction requeues: at least one."""
    size = 0
    for count, item in enumerate(items[:_MAX_REQUEUED]):
        size += item.size_bytes
        if count and size > STEP_BYTES:
            return count
    return min(len(items), _MAX_REQUEUED)


def _tell_of_acks(request: TakeRequest, error: BaseException) -> None:
    """Let an error that ends a call say so if the call has acknowledged leases.

    Raises:
        OutcomeUnknown: In place of an error of the engine or of fdbqueue, which would say that
            nothing was changed.
    """
    if not request.has_acknowledged:
        return
    told = error
    is_ours = isinstance(error, FdbQueueError) or error_code(error) is not None
    if is_ours and not isinstance(error, OutcomeUnknown):
        told = OutcomeUnknown(acknowledged=True, reason=text_of_error(error))
    vars(told).update(outcome_known=False, acknowledged=True)
    if told is not error:
        raise told from error
