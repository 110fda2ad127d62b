"""Rounds: transactions that take items from one end, for one popper or for many.

A round serves the requests of this process's threads, and after them the help requests of other
processes. It reads the head of the queue and its state (who else pops, who asks for help,
what has expired) at once, so an uncontended pop costs one read more than the recipe's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.head import Head, Order, TransactionBudget
from fdbqueue.service.consume.help import Help
from fdbqueue.service.consume.requests import (
    ROUND_ITEMS,
    Acknowledgement,
    QueueState,
    RoundResult,
    TakeRequest,
)
from fdbqueue.service.consume.taker import Taker, is_plain
from fdbqueue.service.items import Item
from fdbqueue.service.storage.counts import taken_at
from fdbqueue.service.storage.handoffs import HelpRequest, remove_request
from fdbqueue.service.storage.reader import End, Row

#: Returns the requests in line once the head has been read, the early ones first, and how many are
#: early: were in line when the round began.
Gather = Callable[[], tuple[Sequence[TakeRequest], int]]
#: Takes up requests, and returns those whose threads still wait.
TakeUp = Callable[[list[TakeRequest]], list[TakeRequest]]


class Round:
    """One transaction in which items are taken from one end.

    Its reads begin when it is made, so those of several queues are under way before the first is
    awaited. They do no harm where the round does not serve: they are snapshot reads, but for those
    of the early requests' keys and leases.

    Args:
        taker: Takes the queue's items.
        tr: The transaction.
        end: Which end.
        early: The requests in line when the round begins.
        order: What the transaction is to depend on.
        extra: How many more items to read at once.
    """

    def __init__(
        self,
        taker: Taker,
        tr: Transaction,
        end: End,
        early: Sequence[TakeRequest],
        order: Order = Order.STRICT,
        extra: int = 0,
    ) -> None:
        self._taker = taker
        self._store = taker.store
        self._tr = tr
        self._end: End = end
        self._order = Order.RELAXED if taker.relaxed else order
        self._count_change = self._store.count_change()
        self._budget = TransactionBudget(self._store.keys.size_bytes)
        self._returned: list[Row] = []
        self._retried = False
        self._more_due = False  # then no popper is told yet that the queue is empty
        self._result = RoundResult()
        self._took = 0
        #: How many items had ever been taken at this end when it began.
        self.taken = 0
        self._now = now_us()
        self._state_rows = taker.begin_state(tr, self._now)
        prompt = fitting(early)
        #: The reads that requests need.
        self._reads = taker.begin_reads(tr, prompt)
        self._head = self._begin_head(sum([one.count for one in prompt]), extra)

    def serve(
        self,
        gather: Gather,
        *,
        take_up: TakeUp = list,
        helps: bool = True,
        may_undo: bool = False,
        own: HelpRequest | None = None,
    ) -> RoundResult:
        """Take items for the requests in line.

        Args:
            gather: Returns the requests in line once the head has been read. A late request
                (one that joined the line after the reads) gets items, because the commit checks
                the reads. It is told that the queue is empty only if this transaction writes:
                a commit that only read checks nothing.
            take_up: Takes up the requests that are served.
            helps: Whether to take items for other processes' help requests, too.
            may_undo: Whether taken items may be requeued later.
            own: The help request of the early ones. It is removed here; if it is not open any
                more, nothing is taken.
        """
        head = self._head
        head.preload()  # it comes last: then only one wait blocks
        state = self._taker.parse_state(self._tr, self._now, self._state_rows)
        self.taken = taken_at(self._end, state.taken)
        if own is not None and not _is_open(own, state):
            self._result.is_helped = True
            return self._result
        ends = [one.acknowledges for one in self._reads if one.acknowledges is not None]
        given = Help(self._taker, self._tr, self._count_change)
        if helps:
            others = [one for one in state.requests if own is None or one.name != own.name]
            ending = [place for one in ends for place in one.places]
            given.begin([one for one in others if one.end == self._end], ending)
        if state.is_paused:
            head.close(self._store.tables.paused)
        else:
            self._expire(_without_ending(state, [*ends, *given.ends()]), head)
        if own is not None:
            remove_request(self._tr, self._store.tables, own.name)
            self._result.wrote = True
        admitted, early_count = self._admitted(*gather())
        batch = take_up(admitted)
        early_count = len(set(admitted[:early_count]).intersection(batch))
        # On the embedded engine only commits raise the version: while there is a handoff that may
        # expire, a round that finds nothing commits a write, so that it does expire.
        self._result.wrote = self._result.wrote or state.awaits
        if self._serve_batch(head, batch, early_count, may_undo):
            given.serve(head, self._budget, more_due=self._more_due, retried=self._retried)
        self._result.asked = given.asked
        self._result.wrote = self._result.wrote or given.wrote
        for row in self._returned:
            if row.place not in self._budget.places:
                self._store.requeue_rows(self._tr, [row])
        self._count_change.take(self._end, self._took + given.took)
        self._count_change.write(self._tr)
        return self._result

    def _begin_head(self, wanted: int, extra: int) -> Head:
        limit = max(1, min(wanted + extra, max(ROUND_ITEMS, wanted)))
        store = self._store
        return Head(self._tr, store.keys, store.reader, self._end, limit, self._budget, self._order)

    def _expire(self, state: QueueState, head: Head) -> None:
        """Requeue what has expired; it can be taken at once."""
        self._retried = state.retried
        if not state.dues and not state.expired:
            return
        store, tr, max_attempts = self._store, self._tr, self._taker.max_attempts
        found = expiry.examine(store, tr, state.dues, state.expired)
        self._returned = expiry.apply(store, tr, self._count_change, found, max_attempts)
        self._result.expired = expiry.counted(found, max_attempts)
        self._retried = self._result.wrote = True
        self._more_due = state.more_due or found.is_cut
        self._budget.reserve(self._returned)
        head.add(self._returned)

    def _admitted(
        self, waiting: Sequence[TakeRequest], early: int
    ) -> tuple[list[TakeRequest], int]:
        """Return the requests to serve, the early ones first, and how many are early.

        A request whose call was made before gets its saved response, and one whose leases
        cannot end its error. A late request with a key, or with leases to end, waits for the next
        round, because this one has not read what it needs. So do all late requests when the
        transaction does not depend on what it has read (``Order.AS_SEEN``).
        """
        concluded = self._taker.concluded(self._reads)
        batch = []
        prompt = 0
        for index, one in enumerate(waiting):
            if one in concluded:
                self._result.results.append((one, concluded[one]))
            elif (one in self._reads or is_plain(one)) and (
                index < early or self._order is not Order.AS_SEEN
            ):
                batch.append(one)
                prompt += index < early
        batch = fitting(batch)
        return batch, min(prompt, len(batch))

    def _serve_batch(
        self, head: Head, batch: list[TakeRequest], early: int, may_undo: bool
    ) -> bool:
        """Take items for the threads of this process; tell whether no row was corrupt."""
        wanted = [
            head.take(
                one.count,
                leased=one.lease_us > 0,
                kept=one.call is not None,
                facts_bytes=len(one.worker),
            )
            for one in batch
        ]
        head.finish()
        ends_leases = any(one.acknowledges is not None for one in batch)
        wrote = self._result.wrote = self._result.wrote or any(wanted) or ends_leases
        told_empty = not (self._budget.is_full or self._more_due)
        portions = [
            (one, rows)
            for index, (one, rows) in enumerate(zip(batch, wanted, strict=True))
            if rows or (told_empty and (index < early or wrote))
        ]
        results, is_corrupt = self._taker.deliver(
            self._tr, self._count_change, portions, retried=self._retried
        )
        self._result.results += results
        self._took += sum([len(items) for _, items in results if isinstance(items, list)])
        if may_undo:  # later pushes go behind items that may be requeued
            for row in itertools.chain.from_iterable(wanted):
                self._store.note_hidden(self._count_change, self._store.position(row.place))
        self._result.late = sum([one.count for one in batch[early:]])
        return not is_corrupt


def _is_open(own: HelpRequest, state: QueueState) -> bool:
    """Tell whether this process's help request is still to be served."""
    expired = [one for one in state.expired if not one.is_handed]
    return any(one.name == own.name for one in (*state.requests, *expired))


def _without_ending(state: QueueState, ends: Iterable[Acknowledgement]) -> QueueState:
    """Return the state without the leases that end here: they do not expire as well."""
    places = [one.places for one in ends if one.check() is None]
    if not places:
        return state
    ending = frozenset().union(*places)
    return state._replace(dues=[due for due in state.dues if due.rest not in ending])


def fitting(batch: Sequence[TakeRequest]) -> list[TakeRequest]:
    """Return the first requests of a batch: at most 1,000 items, or one request of more."""
    room = ROUND_ITEMS
    for index, one in enumerate(batch):
        if index and one.count > room:
            return list(batch[:index])
        room -= one.count
    return list(batch)


def take(taker: Taker, tr: Transaction, request: TakeRequest) -> list[Item]:
    """Take items in the caller's transaction, which serves no other popper.

    Raises:
        CorruptItem: One of them cannot be decoded; all stay where they are.
        IdempotencyKeyReused: The key was another call's.
    """
    while True:
        one = Round(taker, tr, request.end, [request])
        result = one.serve(lambda: ([request], 1), helps=False)
        for _, items in result.results:
            if isinstance(items, Exception):
                try:
                    raise items
                finally:
                    del items, result  # an error that its own frames refer to keeps them
            if request.call is not None and not items and not request.call.replayed:
                taker.responses.save_items(tr, request.call, [], [])
            return items
