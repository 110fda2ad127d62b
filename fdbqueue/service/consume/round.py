"""Take requests, and rounds: transactions that take items from one end for one request or many."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import CorruptItem, FdbQueueError
from fdbqueue.service.clock import now_us
from fdbqueue.service.combiner import CombinedBatch, SharedOperation
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.acks import Ack
from fdbqueue.service.consume.allowance import TakeLimits
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
from fdbqueue.service.consume.leases import Leases
from fdbqueue.service.idempotency import KeyedCall, SavedResponses
from fdbqueue.service.items import Item
from fdbqueue.service.sizes import MAX_ENDS_BYTES
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.handoffs import (
    HelpRequest,
    LeaseKey,
    packed_lease_keys,
    remove_request,
)
from fdbqueue.service.storage.item_keys import End, Loaded, Row
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.writes import SharedTransaction

_COUNT = operator.attrgetter("count")
#: The most leases that a help request asks for, and the most bytes of the names of those that it
#: ends: the names must fit into its row.
MAX_ASKED_LEASES, MAX_ASKED_KEYS_BYTES = 500, 30_000
#: Requeues items that were taken, in transactions of its own.
Requeue = Callable[[Any], None]
#: Saves what was taken, as the response of a call, in the same transaction.
Save = Callable[[Transaction, Sequence[Loaded], Sequence[Item]], None]


class Popped(list[Item]):
    """Popped items, with the stored rows that requeue them, and the rows of their failures."""

    loaded: Sequence[Loaded]
    failures: Mapping[bytes, list[Any]]


class TakeRequest(SharedOperation):
    """A request of one thread: take items from one end, and pop or lease them.

    Attributes:
        end: Which end.
        count: The most items.
        call: The call on this queue that has an idempotency key, None if there is none.
        lease_us: For how many microseconds it leases them; 0 if it pops them, 1 if the lease is
            over at once.
        worker: The name of the worker that leases them, in UTF-8; empty for none.
        save: Saves what is taken for a call on several queues; None if there is none.
        is_copied: Whether the transaction writes a copy of what is taken, as the response of a call
            with an idempotency key.
        acknowledges: Leases that end in the same transaction; None if none do, or they have.
        has_acknowledged: Whether they have ended: what ends the call now was not without effect.
        requeue: Requeues them, if the thread no longer waits.
    """

    __slots__ = (
        "acknowledges",
        "call",
        "count",
        "end",
        "has_acknowledged",
        "is_copied",
        "lease_us",
        "requeue",
        "save",
        "worker",
    )

    def __init__(
        self,
        end: End,
        count: int,
        call: KeyedCall | None = None,
        *,
        requeue: Requeue,
        lease_us: int = 0,
        worker: bytes = b"",
        acknowledges: Ack | None = None,
    ) -> None:
        self.end = end
        self.count = count
        self.call = call
        self.save: Save | None = None
        self.is_copied = call is not None
        self.requeue = requeue
        self.lease_us = lease_us
        self.worker = worker
        self.acknowledges = acknowledges
        self.has_acknowledged = False

    @property
    def needs_reads(self) -> bool:
        """Whether something is read for it before it is served."""
        return self.call is not None or self.acknowledges is not None

    @property
    def ends_bytes(self) -> int:
        """About how much a transaction sends to end the leases that end with it."""
        return 0 if self.acknowledges is None else self.acknowledges.sent_bytes

    @property
    def ends(self) -> tuple[LeaseKey, ...]:
        """The leases that end with it."""
        return () if self.acknowledges is None else self.acknowledges.lease_keys

    @property
    def shared_lease_us(self) -> int:
        """For how long another process may lease items for it; 0 if it must not."""
        fits = (
            self.count <= MAX_ASKED_LEASES
            and len(packed_lease_keys(self.ends)) <= MAX_ASKED_KEYS_BYTES
        )
        return self.lease_us if fits and self.call is None else 0

    def note_acknowledged(self) -> None:
        """Note that the leases that it was to end have ended, in a commit that is known."""
        self.has_acknowledged = self.has_acknowledged or self.acknowledges is not None
        self.acknowledges = None


#: A request, and the rows that were taken for it.
Portion = tuple[TakeRequest, list[Row]]
#: A request, and its items or its error.
Result = tuple[TakeRequest, list[Item] | Exception]


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


def remaining(
    batch: Iterable[TakeRequest], reads: Container[TakeRequest], concluded: Container[TakeRequest]
) -> list[TakeRequest]:
    """Return the requests that are not concluded, but for those whose reads were not begun."""
    ready = [one for one in batch if one in reads or not one.needs_reads]
    return [one for one in ready if one not in concluded]


class Taker:
    """What rounds need of one queue, and what becomes of the rows that they take.

    Args:
        store: Its items.
        limits: What limits how many items are leased and taken; None if nothing does.

    Attributes:
        store, limits: As given.
        responses: The saved responses of calls with an idempotency key.
        leases: Its leases.
        max_attempts: How many failed leases make an item dead; None for no limit.
        choices: Of how many shards a take chooses the best; 0 in a queue without shards.
    """

    def __init__(self, store: ItemStore, limits: TakeLimits | None) -> None:
        self.store = store
        self.limits = limits
        self.responses = SavedResponses(store)
        self.leases = Leases(store)
        self.max_attempts = store.options.max_attempts
        self.choices = store.options.choices or 0

    # Before anything is taken: saved responses, and leases that end in the same transaction

    def begin_reads(
        self, count_change: CountChange, batch: Iterable[TakeRequest]
    ) -> dict[TakeRequest, Any]:
        """Begin to read the saved responses of requests, and the leases that they end.

        Of several requests with the same key, or the same lease, only for the first.

        Returns:
            The requests whose reads were begun, each with the read of its saved response.
        """
        names: set[bytes] = set()
        reads: dict[TakeRequest, Any] = {}
        for one in batch:
            if not one.needs_reads:
                continue
            own = set() if one.acknowledges is None else {*one.acknowledges.places}
            if one.call is not None:
                own.add(one.call.name)
            if own & names:
                continue
            names |= own
            reads[one] = None
            if one.call is not None:
                reads[one] = self.responses.begin_recall(count_change.tr, one.call)
            if one.acknowledges is not None:
                shared = SharedTransaction(count_change.tr, self.store, count_change)
                one.acknowledges.begin_reads(shared)
        return reads

    def concluded(self, reads: dict[TakeRequest, Any]) -> dict[TakeRequest, list[Item] | Exception]:
        """Return the requests for which nothing is taken, each with its result.

        That is the saved response of a call that was made before, or the error if leases
        cannot end.
        """
        found: dict[TakeRequest, list[Item] | Exception] = {}
        for request, read in reads.items():
            items: list[Item] | Exception | None = None
            if request.call is not None:
                try:
                    items = self.responses.recalled_items(read, request.call)
                except FdbQueueError as error:
                    items = error
                if request.call.has_acknowledged:
                    request.note_acknowledged()
            if items is None and request.acknowledges is not None:
                items = request.acknowledges.check()
            if items is not None:
                found[request] = items
        return found

    # What becomes of rows

    def deliver(
        self, count_change: CountChange, portions: Sequence[Portion], *, retried: bool
    ) -> tuple[list[Result], bool]:
        """Pop or lease the rows of each request, up to the first row that is corrupt.

        That row is requeued, with all rows of its request and of the requests behind it. A
        request without rows gets the error too, because the queue is not empty.

        Returns:
            The results, and whether a row was corrupt.
        """
        corrupt: CorruptItem | None = None
        results: list[Result] = []
        for request, rows in portions:
            result = self._outcome(count_change, request, rows, corrupt, retried)
            if isinstance(result, CorruptItem):
                corrupt = result
            results.append((request, result))
        if corrupt is not None:
            results = [(request, result or copy.copy(corrupt)) for request, result in results]
        for request, outcome in results:
            if request.acknowledges is not None and not isinstance(outcome, Exception):
                request.acknowledges.end(count_change)
                if request.call is not None and not outcome:
                    self.responses.save_acknowledged(count_change.tr, request.call)
        return results, corrupt is not None

    def _outcome(
        self,
        count_change: CountChange,
        request: TakeRequest,
        rows: Sequence[Row],
        corrupt: CorruptItem | None,
        retried: bool,
    ) -> list[Item] | CorruptItem:
        tr = count_change.tr
        if not rows:
            return []
        if corrupt is None:
            loaded = self.store.load(tr, rows, retried=retried)
            for one in loaded:
                if isinstance(one.item, CorruptItem):
                    corrupt = one.item
                    break
            else:
                if request.lease_us:
                    lasting_us = request.lease_us if request.lease_us > 1 else 0
                    items = self.leases.lease_items(
                        count_change, loaded, lasting_us=lasting_us, worker=request.worker
                    )
                else:
                    items = self._pop(count_change, loaded)
                if request.call is not None:
                    self.responses.save_items(tr, request.call, loaded, items)
                elif request.save is not None:
                    request.save(tr, loaded, items)
                return items
        self.store.write_rows(tr, rows)
        return copy.copy(corrupt)

    def _pop(self, count_change: CountChange, loaded: Sequence[Loaded]) -> Popped:
        """Remove items for good.

        Whoever pops may be interrupted or cancelled before it has them, and then they are requeued.
        So later pushes go behind them, also if the queue is empty meanwhile.
        """
        items, tr = Popped(), count_change.tr
        reads: dict[bytes, Any] = {}  # of the failures of items that have attempts, by their places
        for one in loaded:
            if isinstance(one.item, Item) and one.item.attempts:
                reads[one.row.place] = self.store.failures.begin_read(tr, one.row.place)
        for one in loaded:
            if isinstance(one.position.sequence, int):  # in commit order they are first anyway
                count_change.high = max(count_change.high, one.position.sequence)
            self.store.remove_taken(count_change, one)
            assert isinstance(one.item, Item)
            items.append(one.item)
        items.loaded = loaded
        items.failures = {place: [*rows] for place, rows in reads.items()} if reads else {}
        return items


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
        self._tr, self._end = tr, end
        self._early = early
        self._order = order
        self._count_change = store.count_change(tr)
        self._budget = TransactionBudget(store.keys.size_bytes)
        self._retried = False
        self._is_last = is_last
        self._more_due = False  # then no popper is told yet that the queue is empty
        self._result, self._took = RoundResult(), 0
        self.taken = 0  # how many items had ever been when it began, for ``counts.taken_at``
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
            own: The early ones' help request, removed here; if it is not open, nothing is taken.
            sent_bytes: How much the transaction sends already, for other queues.
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
            member = None if result.is_paused else self._store.tables.member
            head.close(self._store.tables.paused if member is None else member.paused)
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
            line = remaining(line, self._reads, concluded)
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
