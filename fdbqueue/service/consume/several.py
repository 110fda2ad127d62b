"""Take items from the first of several queues that has any.

How a take goes, without a transaction of the caller's:

1. **One transaction for all.** For 25 queues at a time a *round* (:mod:`round`) is begun in each,
   so that all reads are under way before the first is awaited; then the rounds are served in the
   queues' order, up to the first that gives items. A round that gives none depends on its queue's
   being empty, or on its being paused, as every strict pop does. So the whole is strictly
   serialisable: at the commit, the queues before the one that gave had nothing to take. The rounds
   requeue what has expired in their queues, and help other processes, as all rounds do.
   A round that only requeues what has expired (its items became dead letters) ends the transaction:
   it is committed, and 1 begins again. So a transaction requeues for one queue at most.
2. **Where that meets others**, so that it conflicts, the call takes from the queue that its last
   attempt took from, by that queue's own :class:`ProcessGroup`: threads share transactions there,
   and processes help each other. The queues before it were empty when 1 read them. If it has
   nothing left, 1 begins again. So a push to a queue before it, or a popper, can make a call begin
   again only by taking what it had found: in each turn some client has taken an item. From the
   third turn on the call pauses before it, for 50 ms at most.
   For a quarter of a second after a conflict, and whenever another thread of the process is at 1
   for the same queues, a call does not try 1: a transaction that only reads finds the first queue
   with items, and the queue's own group takes them.
3. **No items**: the thread or task waits at the watches of all queues (:mod:`waiting`).

In a transaction of the caller's there is 1 alone, and nothing helps other processes. Under an
idempotency key there is 1 alone, too, again after each conflict: before anything is taken, the key
is looked for in the one place of such responses (:class:`SeveralResponses`), and the transaction
depends on that. Two calls under one key both read it, and each writes it, so only one takes items.

*Whose turn it is* (:class:`Turns`), and which thread may be at 1: a thread is at work for as long
as it holds a lock of its own, which any exception releases. Two threads that begin at the same
moment may both be at work: then one of their commits conflicts, as with another process. So there
is nothing to hold while a turn begins, and neither a signal handler nor a fork can come in between.
A forked child has none of the threads: there no one is at work.

What is left behind by

- *an error within a transaction*, such as :class:`CorruptItem`: nothing is taken from any queue;
- *an unknown commit*: the receipt of :mod:`fdbqueue.service.transactions` says whether it took
  effect, in 1; in 2, that of the queue's group;
- *an interrupt*: the call is noted as in flight before it runs what may take items, in 1 or in 2,
  and as not in flight only by what that returned, or by an error of it with ``outcome_known``
  True. An interrupt in between, at whatever line, has ``outcome_known`` False. Once 1 has returned
  items, and until they are returned to the caller, the queue's helper thread requeues them. Under
  an idempotency key it does not, because the same call returns them;
- *a cancelled task*: its items are requeued by :mod:`fdbqueue.service.aio`, as for one queue;
- *a process that dies*: as for one queue, popped items are gone once they are committed, and leases
  expire. No state is kept outside the queues; which queue gave last is in the process's memory.
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, ParamSpec, TypeVar

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import instrumentation
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.consumer import Consumer, TakeOnce
from fdbqueue.service.consume.contention import pause
from fdbqueue.service.consume.poppers import forget_at_fork
from fdbqueue.service.consume.round import Round, RoundResult, Taker, TakeRequest
from fdbqueue.service.consume.state import begin_state, parse_state
from fdbqueue.service.consume.waiting import ItemWait, ItemWatch, deadline_after
from fdbqueue.service.idempotency import KeyedCall, Responses, SavedResponses, is_replayed
from fdbqueue.service.instrumentation import Operation
from fdbqueue.service.items import Item
from fdbqueue.service.storage.rows import End, Loaded
from fdbqueue.service.storage.tables import Kind
from fdbqueue.service.transactions import Conflict, run

T = TypeVar("T")
P = ParamSpec("P")

#: The queues whose reads are under way at the same time.
_READ_AT_ONCE = 25
#: A call pauses before the third turn, and before each after it.
_TURNS = 2
#: For how long after a conflict a process takes from one queue at a time.
_CONTENDED_SECONDS = 0.25


class Consumers(NamedTuple):
    """The queues to take from, in the order that was given.

    Attributes:
        consumers: What takes from each.
        watches: The watch of each, for pops.
        lease_watches: The same for leases.
        stale_at: When to ask for them again, by :func:`time.monotonic`.
    """

    consumers: tuple[Consumer, ...]
    watches: tuple[ItemWatch, ...]
    lease_watches: tuple[ItemWatch, ...]
    stale_at: float


class Turns:
    """What the calls of this process on the same several queues share: who is at work, whose turn.

    Args:
        fair: Whether each call begins behind the queue that gave last.
    """

    def __init__(self, *, fair: bool) -> None:
        self.fair = fair
        self._last = ""
        self.forget()
        forget_at_fork(self)

    def forget(self) -> None:
        """Start again in a forked process, where no thread is at work."""
        self._at_work = threading.Lock()
        self._until = 0.0

    def begins(self, own: threading.Lock) -> bool:
        """Tell whether the calling thread may take from all queues in one transaction.

        It may until it releases its lock ``own``.
        """
        if time.monotonic() < self._until:
            return False
        if self._at_work.locked():
            return False
        self._at_work = own
        return True

    def note_conflict(self) -> None:
        """Take from one queue at a time, for a while."""
        self._until = time.monotonic() + _CONTENDED_SECONDS

    def note_turn(self, name: str) -> None:
        """Note which queue gave last."""
        self._last = name

    def in_turn(self, consumers: Sequence[Consumer]) -> Sequence[Consumer]:
        """Return the queues in the order in which a call that begins now looks at them."""
        if not self.fair or not self._last:
            return consumers
        at = 1 + next((n for n, one in enumerate(consumers) if one.name == self._last), -1)
        return [*consumers[at:], *consumers[:at]]


@dataclass
class Outcome:
    """What a transaction over several queues did.

    Attributes:
        consumer: What gave the items, None if there were none.
        items: The items, as the request's effect returned them.
        wrote: Whether anything was written.
        is_cut: Whether there may be items that it has not looked at.
        expired: What had expired and was requeued, with the name of its queue.
    """

    consumer: Consumer | None = None
    items: list[Item] = field(default_factory=list)
    wrote: bool = False
    is_cut: bool = False
    expired: list[tuple[str, expiry.ExpiredCounts]] = field(default_factory=list)


class SeveralResponses:
    """The responses of calls on several queues, in one place for all queues of a catalog.

    A response names the queue that gave. So a key is known whichever of the queues that was, and
    whatever the names of the next call are.

    Args:
        responses: Where they are kept.
        open_queue: Returns what takes from the queue with a name.
    """

    def __init__(self, responses: Responses, open_queue: Callable[[str], Consumer]) -> None:
        self._responses = responses
        self._open = open_queue

    def recall(self, tr: Transaction, call: KeyedCall) -> list[Item] | None:
        """Return the response of a call, None if it was not made before.

        Raises:
            IdempotencyKeyReused: It is the response of another call.
        """
        found = self._responses.recall(self._responses.begin_recall(tr, call), call)
        if found is None:
            return None
        payload = found[0]
        stop = 1 + payload[0]
        if stop == 1:
            return []
        return self._open(payload[1:stop].decode()).responses.unpacked_items(payload[stop:])

    def save_nothing(self, tr: Transaction, call: KeyedCall) -> None:
        """Save that there were no items."""
        self._responses.save(tr, call, b"\x00")

    def saved_by(self, request: TakeRequest, consumer: Consumer, call: KeyedCall) -> TakeRequest:
        """Let a request to a queue save what it takes, too; return it."""
        take, name = request.effect, consumer.name.encode()
        request.is_copied = True

        def effect(count_change: Any, loaded: Sequence[Loaded]) -> list[Item]:
            items = take(count_change, loaded)
            packed = SavedResponses.packed_items(loaded, items)
            self._responses.save(count_change.tr, call, bytes((len(name),)) + name + packed)
            return items

        request.effect = effect
        return request


class TakeCall:
    """One call that takes items from one of several queues: what is the same for any choice of it.

    Args:
        verb: ``"pop"`` or ``"lease"``, for observers. They are told of the queue that gave, or of
            the first queue that is named, or pattern, if none did.
        name: What errors call the queues.
        first_name: The first of their names.
        database: Where they are; its transactions may have a time limit.
        end: Which end to take from.
        request: Makes the request to one queue.
        responses: The responses of calls with an idempotency key.
        call: The call, if it has one.
    """

    def __init__(
        self,
        verb: str,
        name: str,
        first_name: str,
        database: Database,
        end: End,
        request: Callable[[Consumer], TakeRequest],
        responses: SeveralResponses,
        call: KeyedCall | None = None,
    ) -> None:
        self._responses = responses
        self._verb = verb
        self._leases = verb == "lease"
        self._name = name
        self._database = database
        self._end: End = end
        self._make = request
        self._call = call
        self._requests: dict[Consumer, TakeRequest] = {}
        self._item_wait = ItemWait(())
        #: The queue that observers are told of.
        self._reported = first_name
        #: What was taken, and from which queue, while it may not have been returned yet.
        self._taken: tuple[Consumer, list[Item]] | None = None
        #: Whether something runs that may take items, or has taken some.
        self._is_in_flight = False

    def take(
        self,
        wait: float | None,
        tr: Transaction | None = None,
        waits_while: Callable[[], bool] | None = None,
    ) -> list[Item]:
        """Take items for a thread, as :meth:`Consumer.take` does from one queue."""
        deadline = deadline_after(self._name, wait)
        if tr is not None:
            if wait is not None:
                raise InvalidInput(queue=self._name, reason="a transaction cannot wait")
            if waits_while is not None and not waits_while():
                return []
            return [*self._take_in(tr)]
        found = self._item_wait.until(self._look, deadline, waits_while, self._database)
        if found is None:
            return []
        return [*found[0]] if found else self._take_nothing()

    async def take_in_loop(self, wait: float | None, take_once: TakeOnce) -> list[Item]:
        """Take items for a task, as :meth:`Consumer.take_in_loop` does from one queue."""
        deadline = deadline_after(self._name, wait)

        async def look() -> tuple[list[Item], ...]:
            return await take_once(self._look)

        found = await self._item_wait.until_in_loop(look, deadline)
        if found:
            return found[0]
        if self._call is None:
            return []
        return (await take_once(lambda: (self._take_nothing(),)))[0]

    def requeue(self, items: list[Item]) -> None:
        """Requeue items that were taken for a task that was cancelled."""
        request = next(one for of, one in self._requests.items() if of.name == items[0].queue)
        request.requeue(items)

    # One look, by the thread that waits or by one of the pool

    def _look(self) -> tuple[list[Item], ...]:
        """Return the items that were taken, if there is something to return."""
        items = self._take_now(saves=False)
        return (items,) if items or is_replayed(self._call) else ()

    def _take_nothing(self) -> list[Item]:
        """Return no items; under an idempotency key, look again and save that response."""
        return [] if self._call is None else self._take_now(saves=True)

    def _take_now(self, *, saves: bool) -> list[Item]:
        """Take the items there are, for a thread that may be interrupted."""
        self._taken, self._is_in_flight = None, False
        try:
            for turn in itertools.count():
                if turn >= _TURNS:
                    pause(turn - _TURNS)
                found = self._try(saves=saves)
                if isinstance(found, Consumer):
                    taken = self._in_flight(found.take_now, self._request(found))
                    if taken:
                        self._taken = found, taken[0]
                    self._is_in_flight = bool(taken)
                    found = taken[0] if taken else None
                if found is not None:
                    self._note_given(found)
                    return found
        except BaseException as error:
            vars(error)["outcome_known"] = not self._is_in_flight
            if self._taken is not None and self._call is None:  # else the same call returns them
                self._undo(*self._taken)
            raise
        raise AssertionError  # it counts for ever

    def _in_flight(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call what may take items; in flight until the caller has seen what it returned."""
        self._is_in_flight = True
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            self._is_in_flight = not getattr(error, "outcome_known", False)
            raise

    def _try(self, *, saves: bool) -> list[Item] | Consumer | None:
        """Take items in one transaction, or find the queue that has any.

        Returns:
            The items; or the queue to take them from; or None to try again.
        """
        raise NotImplementedError

    def _take_in(self, tr: Transaction) -> list[Item]:
        """Take items in the caller's transaction."""
        raise NotImplementedError

    def _note_given(self, items: list[Item]) -> None:
        """Note what a call returns."""

    def _in_one_transaction(self, attempt: Callable[[Transaction], Outcome]) -> list[Item] | None:
        """Take items in a transaction of its own; None to try again.

        Raises:
            Conflict: It met others. Not under an idempotency key: then it is tried again here.
        """
        began = time.perf_counter()
        try:
            outcome = self._in_flight(
                run,
                self._database,
                attempt,
                wrote=lambda outcome: outcome.wrote,
                retries_conflicts=self._call is not None,
            )
        except Conflict:
            raise
        except BaseException as error:
            self._report(began, 0, error)
            raise
        if outcome.consumer is not None:
            self._taken = outcome.consumer, outcome.items
        self._is_in_flight = bool(outcome.items)
        self._report(began, len(outcome.items), None)
        for name, expired in outcome.expired:
            expiry.log(name, expired)
        return None if outcome.is_cut else outcome.items

    def _undo(self, consumer: Consumer, items: list[Item]) -> None:
        """Requeue what a commit took for a thread that was interrupted before it returned it."""
        request = self._request(consumer)
        request.result = items
        consumer.group.poppers[self._end].combiner.adopt(request)

    def _request(self, consumer: Consumer) -> TakeRequest:
        """Return the request to a queue, always the same one."""
        found = self._requests.get(consumer)
        if found is None:
            found = self._requests[consumer] = self._made(consumer)
        return found

    def _made(self, consumer: Consumer) -> TakeRequest:
        """Return a new request to a queue."""
        request = self._make(consumer)
        if self._call is None:
            return request
        return self._responses.saved_by(request, consumer, self._call)

    def _report(self, began: float, count: int, error: BaseException | None) -> None:
        seconds = time.perf_counter() - began
        instrumentation.report(Operation(self._verb, self._reported, seconds, count, error))


class SeveralTake(TakeCall):
    """One call that takes items from the first of several queues that has any.

    Args:
        queues: Returns the queues.
        turns: What it shares with other calls of the process.
        others: As for :class:`TakeCall`.
    """

    def __init__(
        self,
        queues: Callable[[], Consumers],
        turns: Turns,
        *others: Any,
    ) -> None:
        super().__init__(*others)
        self._queues = queues
        self._turns = turns
        #: What the last attempt took from.
        self._source: Consumer | None = None

    def _try(self, *, saves: bool) -> list[Item] | Consumer | None:
        own = threading.Lock()
        with own:
            if self._call is not None or self._turns.begins(own):
                try:
                    return self._in_one_transaction(
                        functools.partial(self._attempt, owns=True, saves=saves)
                    )
                except Conflict:
                    self._turns.note_conflict()
                    return self._source
        consumers = self._turns.in_turn(self._consumers())
        look = functools.partial(first_with_items, consumers=consumers, to_lease=self._leases)
        found = run(self._database, look, read_only=True)
        return [] if found is None else found

    def _take_in(self, tr: Transaction) -> list[Item]:
        items = self._attempt(tr, owns=False, saves=True).items
        self._note_given(items)
        return items

    def _note_given(self, items: list[Item]) -> None:
        if items:
            self._turns.note_turn(items[0].queue)

    # One transaction

    def _attempt(self, tr: Transaction, *, owns: bool, saves: bool) -> Outcome:
        """Take items in a transaction.

        Args:
            tr: The transaction.
            owns: Whether it is this call's own: then it ends where another is to go on, and helps
                other processes.
            saves: Whether to save, under an idempotency key, that there were no items.
        """
        self._source = None
        outcome = Outcome()
        consumers = self._consumers()
        if self._call is not None:
            recalled = self._responses.recall(tr, self._call)
            if recalled is not None:
                outcome.items = recalled
                return outcome
        for consumer, one in self._rounds(tr, self._turns.in_turn(consumers)):
            if self._serve(tr, consumer, one, outcome, owns=owns):
                return outcome
        if self._call is not None and saves:
            self._responses.save_nothing(tr, self._call)
            outcome.wrote = True
        return outcome

    def _rounds(
        self, tr: Transaction, consumers: Sequence[Consumer]
    ) -> Iterator[tuple[Consumer, Round]]:
        """Yield each queue with its round, and begin those of 25 queues at once."""
        for start in range(0, len(consumers), _READ_AT_ONCE):
            part = consumers[start : start + _READ_AT_ONCE]
            yield from [(one, self._round(tr, one)) for one in part]

    def _round(self, tr: Transaction, consumer: Consumer) -> Round:
        return Round(consumer.taker, tr, self._end, [self._request(consumer)])

    def _serve(
        self, tr: Transaction, consumer: Consumer, one: Round, outcome: Outcome, *, owns: bool
    ) -> bool:
        """Take items from one queue; tell whether the transaction is not to look at others."""
        while True:
            result = one.serve(helps=owns)
            _add(outcome, consumer.name, result)
            for _, items in result.results:
                if isinstance(items, Exception):
                    try:
                        raise items
                    finally:
                        del items, result  # an error that its own frames refer to keeps them
                if items:
                    outcome.items, outcome.consumer = items, consumer
                    self._source, self._reported = consumer, consumer.name
                outcome.is_cut = owns and not items and bool(outcome.expired)
                return bool(items) or outcome.is_cut
            if owns:
                outcome.is_cut = True
                return True
            one = self._round(tr, consumer)

    # What the steps share

    def _consumers(self) -> Sequence[Consumer]:
        """Return the queues in the order that was given; the next wait is for these."""
        found = self._queues()
        watches = found.lease_watches if self._leases else found.watches
        self._item_wait.watches, self._item_wait.look_at = watches, found.stale_at
        if found.consumers:
            self._reported = found.consumers[0].name
        return found.consumers


def first_with_items(
    tr: Transaction, consumers: Sequence[Consumer], *, to_lease: bool
) -> Consumer | None:
    """Return the first queue that may have items to pop, or to lease, None if none has."""
    for start in range(0, len(consumers), _READ_AT_ONCE):
        part = consumers[start : start + _READ_AT_ONCE]
        looks = [(one, begin_look(tr, one.taker, to_lease=to_lease)) for one in part]
        for one, look in looks:
            if look():
                return one
    return None


def begin_look(tr: Transaction, taker: Taker, *, to_lease: bool) -> Callable[[], bool]:
    """Begin to read whether there may be items to take; call the returned function for it.

    There may be if something has expired, too. The transaction depends on nothing.
    """
    now, store = now_us(), taker.store
    state = begin_state(store, tr, now)
    member = store.tables.member
    family_pause = None if member is None else tr.snapshot[member.paused]
    allowance = None if taker.limits is None else taker.limits.begin(tr, store.tables, now)
    head = tr.snapshot.get_range(*store.keys.bounds, limit=1)

    def look() -> bool:
        is_empty = not any(True for _ in head)
        found = parse_state(store, tr, now, state, at_random=taker.choices > 0)
        has_items = not is_empty or bool(found.dues or found.expired)
        if allowance is not None and has_items:
            ended = sum([due.kind is Kind.LEASE for due in found.dues])
            has_items = not allowance.settle(-ended).is_held(to_lease=to_lease)
        if not has_items or found.is_paused:
            return False
        return family_pause is None or not family_pause.present()

    return look


def _add(outcome: Outcome, name: str, result: RoundResult) -> None:
    outcome.wrote = outcome.wrote or result.wrote
    if result.expired is not None:
        outcome.expired.append((name, result.expired))
