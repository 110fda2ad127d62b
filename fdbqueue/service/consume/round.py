"""Rounds: transactions that take items from one end for one request or many.

A round reads the queue's state and its head at once, and serves the requests of this process's
threads, then the help requests of others.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import now_us
from fdbqueue.service.combiner import CombinedBatch
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.acks import Ack
from fdbqueue.service.consume.head import (
    ROUND_ITEMS,
    Head,
    Order,
    QueueState,
    TransactionBudget,
    begin_state,
    parse_state,
)
from fdbqueue.service.consume.help.giving import Giving
from fdbqueue.service.consume.taker import Result, Taker, TakeRequest
from fdbqueue.service.items import Item
from fdbqueue.service.limits import MAX_ENDS_BYTES
from fdbqueue.service.storage.handoffs import (
    HelpRequest,
    remove_request,
)
from fdbqueue.service.storage.item_keys import End

_COUNT = operator.attrgetter("count")


@dataclass
class RoundResult:
    """What a round did.

    Attributes:
        results: The requests that were served, each with its items or its error.
        wrote: Whether anything was written.
        late: How many items the late requests wanted, which joined after it had begun.
        asked: How many items the help requests of other processes wanted.
        expired: How much had expired and was requeued, None if nothing had.
        is_helped: Whether this process's help request was served, or is gone; then a round takes
            nothing.
        is_paused: Whether the queue is paused.
        is_with_family: Whether its family is, and all other members with it.
        is_cut: Whether more has expired than it looks at, in the last transaction.
    """

    results: list[Result] = field(default_factory=list)
    wrote: bool = False
    late: int = 0
    asked: int = 0
    expired: expiry.ExpiredCounts | None = None
    is_helped: bool = False
    is_paused: bool = False
    is_with_family: bool = False
    is_cut: bool = False


def fitting(batch: Sequence[TakeRequest]) -> list[TakeRequest]:
    """Return the first requests of a batch: at most ``ROUND_ITEMS`` items, or one request of more.

    And at most as many as one transaction can end the leases of.
    """
    room, sent = ROUND_ITEMS, 0
    for index, one in enumerate(batch):
        sent += one.ends_bytes
        if index and (one.count > room or sent > MAX_ENDS_BYTES):
            return list(batch[:index])
        room -= one.count
    return list(batch)


class Round:
    """One transaction in which items are taken from one end.

    Its reads begin when it is made, so those of several queues are under way before the first is
    awaited. They do no harm if it does not serve: but for early requests, they are snapshot reads.

    Args:
        taker: Takes the queue's items.
        tr: The transaction.
        end: Which end.
        early: The requests in line when the round begins.
        order: What the transaction is to depend on.
        extra: How many more items to read at once.
        slot: In a queue with shards, how many runs of items of each to leave to others.
        limit: How many items to read at once in place of as many as the early requests want.
        family_pause: The read of whether its family is paused, if that has begun.
        is_last: Whether no other transaction follows, so that it looks further.

    Attributes:
        allowance: What its limits allow, None if it has none.
    """

    def __init__(
        self,
        taker: Taker,
        tr: Transaction,
        end: End,
        early: Sequence[TakeRequest],
        order: Order = Order.STRICT,
        extra: int = 0,
        slot: int = 0,
        limit: int = 0,
        family_pause: Any = None,
        is_last: bool = False,
    ) -> None:
        self._taker = taker
        self._store = store = taker.store
        self._tr = tr
        self._end: End = end
        self._early = early
        self._order = order
        self._count_change = store.count_change(tr)
        self._budget = TransactionBudget(store.keys.size_bytes)
        self._retried = False
        self._is_last = is_last
        self._more_due = False  # then no popper is told yet that the queue is empty
        self._result = RoundResult()
        self._took = 0
        #: How many items had ever been taken when it began, for ``counts.taken_at``.
        self.taken = 0
        self._now = now_us()
        self._state_rows = begin_state(store, tr, self._now)
        member = store.tables.member
        if member is not None and family_pause is None:
            family_pause = tr.snapshot[member.paused]
        self._family_pause = family_pause
        prompt = fitting(early) if len(early) > 1 else early
        self._reads = taker.begin_reads(self._count_change, prompt) if early else {}
        wanted = sum(map(_COUNT, prompt))
        limit = limit or max(1, min(wanted + extra, max(ROUND_ITEMS, wanted)))
        self.allowance = None
        if taker.limits is not None:
            self.allowance = taker.limits.begin(tr, store.tables, self._now)
            limit = int(min(limit, taker.limits.most))
        self._head = Head(tr, store, end, limit, self._budget, order, taker.choices, slot)

    def serve(
        self,
        combined: CombinedBatch | None = None,
        *,
        early: Sequence[TakeRequest] | None = None,
        helps: bool = True,
        own: HelpRequest | None = None,
        sent_bytes: int = 0,
    ) -> RoundResult:
        """Take items for the requests in line.

        Args:
            early: What is in line if that was not known when it began, and needs no reads.
            combined: The batch of the early requests: those that joined the line after the reads
                are served, too, unless there is a help request. A late request gets items, because
                the commit checks the reads. It is told that the queue is empty only if this
                transaction writes: a commit that only read checks nothing. None for the early
                requests alone, whose thread does this itself.
            helps: Whether to take items for other processes' help requests, too.
            own: The help request of the early ones. It is removed here; if it is not open any
                more, nothing is taken.
        """
        self._early = self._early if early is None else early
        if sent_bytes:
            self._budget.reserve_ends(sent_bytes)
        head, result, taker = self._head, self._result, self._taker
        head.preload()  # it comes last: then only one wait blocks
        state = parse_state(
            self._store, self._tr, self._now, self._state_rows, at_random=taker.choices > 0
        )
        self.taken = state.taken
        if own is not None and not state.has_open(own):
            result.is_helped = True
            return result
        given = self._begin_help(state.requests, own) if helps and state.requests else None
        self._retried, result.is_paused = state.retried, state.is_paused
        if self._family_pause is not None:
            result.is_with_family = self._family_pause.present()
        if result.is_paused or result.is_with_family:
            self._close(head)
        elif state.dues or state.expired:
            self._expire(state, head, [] if given is None else given.ends())
        if own is not None:
            remove_request(self._tr, self._store.tables, own.name)
            result.wrote = True
        batch, early_count = self._admitted(combined, own)
        is_sound = self._serve_batch(head, batch, early_count)
        if given is not None:
            self._help(given, head, is_sound=is_sound)
        if result.expired is not None:
            self._store.requeue_rows(self._count_change, head.left())
        self._count_change.take(self._end, self._took)
        self._count_change.write()
        if self.allowance is not None and self.allowance.write(self._took):
            result.wrote = True
        return result

    def _close(self, head: Head) -> None:
        """Take nothing, and depend on the key that says so."""
        member = None if self._result.is_paused else self._store.tables.member
        head.close(self._store.tables.paused if member is None else member.paused)

    @property
    def leaves_items(self) -> bool:
        """Whether there may be ready items that it has not taken."""
        return self._head.has_rows or not self._head.is_exhausted

    def first_items(self) -> int:
        """Wait for the first rows, and return how many there are."""
        return self._head.preload()

    def _ending(self) -> list[Ack]:
        """Return the leases that the early requests end."""
        return [one.acknowledges for one in self._reads if one.acknowledges is not None]

    def _begin_help(self, requests: Sequence[HelpRequest], own: HelpRequest | None) -> Giving:
        """Begin to read what the help requests of other processes need."""
        given = Giving(self._taker.leases, self._count_change)
        ending = [place for one in self._ending() for place in one.places]
        others = [one for one in requests if own is None or one.name != own.name]
        given.begin([one for one in others if one.end == self._end], ending)
        return given

    def _help(self, given: Giving, head: Head, *, is_sound: bool) -> None:
        """Take items for other processes, unless one that was met is corrupt."""
        if is_sound:
            is_cut, retried = self._more_due, self._retried
            given.serve(head, self._budget, self.allowance, more_due=is_cut, retried=retried)
        self._result.asked = given.asked
        self._result.wrote = self._result.wrote or given.wrote
        self._took += given.took

    def _expire(self, state: QueueState, head: Head, helped: Sequence[Ack]) -> None:
        """Take out what has expired: it can be taken at once; the rest is requeued at the end."""
        ends = [one.places for one in (*self._ending(), *helped) if one.check() is None]
        state = state.without_leases(frozenset().union(*ends)) if ends else state
        if not state.dues and not state.expired:
            return
        store, result, most = self._store, self._result, self._taker.max_attempts
        store.format.depend(self._tr)
        found = expiry.take_out(store, self._count_change, state.dues, state.expired, most)
        self._more_due = state.more_due or found.is_cut
        result.expired = found.counts
        if self._is_last and self._more_due and not (found.rows or head.has_rows):
            found = expiry.take_out_more(store, self._count_change, self._now, ends, most)
            result.expired = result.expired.plus(found.counts)
            self._more_due, result.is_cut = False, found.is_cut
        self._returned = found.rows
        self._retried = result.wrote = True
        self._budget.reserve(self._returned)
        head.add(self._returned)

    def _admitted(
        self, combined: CombinedBatch | None, own: HelpRequest | None
    ) -> tuple[list[TakeRequest], int]:
        """Take up the requests to serve; return them, the early ones first, and how many are early.

        A request whose call was made before gets its saved response, and one whose leases
        cannot end its error. A late request with a key, or with leases to end, waits for the next
        round, because this one has not read what it needs. So do all late requests when the
        transaction does not depend on what it has read (``Order.AS_SEEN``).
        """
        early = line = self._early
        if combined is not None and own is None:
            line = combined.waiting()  # the early ones first
            waiting = frozenset(line)
            early = [one for one in early if one in waiting]
            line = early if self._order is Order.AS_SEEN else line
        concluded = self._taker.concluded(self._reads) if self._reads else {}
        if concluded:
            self._result.results += [(one, concluded[one]) for one in early if one in concluded]
        if combined is not None or self._reads:  # a late one may need reads, too
            line = self._taker.remaining(line, self._reads, concluded)
        batch = fitting(line) if len(line) > 1 else [*line]
        if combined is None:
            return batch, len(batch)
        batch = combined.take_up(batch)
        return batch, len(frozenset(early).intersection(batch))

    def _serve_batch(self, head: Head, batch: list[TakeRequest], early: int) -> bool:
        """Take items for the threads of this process; tell whether no row was corrupt.

        A request that a limit keeps from taking anything (``held``) is told so if it is early.
        """
        if self._reads:
            # Those that end more leases than fit beside what was requeued wait for the next round.
            batch = [one for one in batch if self._budget.reserve_ends(one.ends_bytes)]
            early = min(early, len(batch))
        allowance, wanted, held = self.allowance, [], set()
        if allowance is not None:
            allowance.settle(self._count_change.leased)
        for index, one in enumerate(batch):
            count, leases = one.count, one.lease_us > 0
            if allowance is not None:
                is_early = index < early
                count = allowance.grant(count, leases=leases, ends=len(one.ends), early=is_early)
                if not count:
                    held.add(one)
            rows = head.take(count, leased=leases, kept=one.is_copied, facts_bytes=len(one.worker))
            if allowance is not None:
                allowance.note(len(rows), leases=leases)
            wanted.append(rows)
        head.finish()
        ends_leases = self._reads and any(one.acknowledges is not None for one in batch)
        wrote = self._result.wrote or any(wanted) or bool(ends_leases)
        self._result.wrote = wrote
        told_empty = not (self._budget.is_full or self._more_due)
        portions = []
        for index, (one, rows) in enumerate(zip(batch, wanted, strict=True)):
            is_early = index < early
            self._result.late += 0 if is_early else one.count
            if rows or (is_early if one in held else told_empty and (is_early or wrote)):
                portions.append((one, rows))
        results, is_corrupt = self._taker.deliver(
            self._count_change, portions, retried=self._retried
        )
        self._result.results += results
        for _, items in results:
            self._took += len(items) if isinstance(items, list) else 0
        return not is_corrupt


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
