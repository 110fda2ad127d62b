"""Take items from one of several queues: a list of them, or members of families by their index.

How a take goes, without a transaction of the caller's:

1. **Combine** the threads of the process that take from these queues at this end.
2. **Walk and visit.** The transaction meets the queues on its walk (:mod:`ring`), and serves a
   round in each, up to the first that gives (:mod:`visits`). All items of a request come from one
   queue, in its order.

   *In order*, all requests go to the first queue, and those that it does not serve to the next. *In
   turn*, the walk begins after the queue that gave last. Both are strict: at the commit, the queues
   before the one that gave had nothing, or were paused. Of families see :mod:`several_poppers`.
3. **Commit**, all or nothing; after a conflict again. After two, each thread takes by the poppers
   of the queue that the last attempt took from for it; the queues before it were empty when 2 read
   them. If nothing is left there, 1 begins again.
4. **None** is returned if all queues have nothing, at one moment. A transaction that has requeued
   too much is committed, and 1 begins again.
5. **Wait** at the watches of all queues (:mod:`waiting`).

In a transaction of the caller's there is 2 alone. Under an idempotency key a thread does 2 and 3 by
itself, and depends on the place of the key's response: of two calls only one takes items.

What is left behind by

- *an error of one queue*: its requests get it, and nothing is taken for them;
- *an interrupt*: while something may have been taken, it has ``outcome_known`` False, and a helper
  requeues the items; under an idempotency key the same call returns them;
- *an unknown commit, a fork, a process that dies*: as for one queue.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import instrumentation
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.consumer import Consumer, TakeOnce
from fdbqueue.service.consume.contention import sleep_before_retry
from fdbqueue.service.consume.ring import Walking
from fdbqueue.service.consume.round import TakeRequest
from fdbqueue.service.consume.several_poppers import SeveralGroup
from fdbqueue.service.consume.visits import Served, SeveralRequest, Visit
from fdbqueue.service.consume.waiting import ItemWait, deadline_after
from fdbqueue.service.idempotency import KeyedCall, Responses, SavedResponses, is_replayed
from fdbqueue.service.instrumentation import Operation
from fdbqueue.service.items import Item
from fdbqueue.service.storage.item_keys import End, Loaded
from fdbqueue.service.transactions import run
from fdbqueue.steady import monotonic

T = TypeVar("T")
P = ParamSpec("P")

#: A call sleeps before the third turn, and before each after it.
_SLEEPS_AFTER_TURNS = 2
_WROTE = operator.attrgetter("wrote")


class SeveralResponses:
    """The responses of calls on several queues, in one place for all queues of a catalog.

    A response names the queue that gave. So a key is known whichever of the queues that was, and
    whatever the names of the next call are.

    Args:
        responses: Where they are kept.
        open_queue: Returns what takes from the queue with a name.

    Attributes:
        open_queue: As given.
    """

    def __init__(self, responses: Responses, open_queue: Callable[[str], Consumer]) -> None:
        self._responses = responses
        self.open_queue = open_queue

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
        return self.open_queue(payload[1:stop].decode()).responses.unpacked_items(payload[stop:])

    def save_nothing(self, tr: Transaction, call: KeyedCall) -> None:
        """Save that there were no items."""
        self._responses.save(tr, call, b"\x00")

    def saving(
        self, make: Callable[[Consumer], TakeRequest], call: KeyedCall
    ) -> Callable[[Consumer], TakeRequest]:
        """Return what makes a request to a queue that saves what it takes, too."""

        def made(consumer: Consumer) -> TakeRequest:
            request, name = make(consumer), consumer.name.encode()
            take = request.effect

            def effect(count_change: Any, loaded: Sequence[Loaded]) -> list[Item]:
                items = take(count_change, loaded)
                packed = SavedResponses.packed_items(loaded, items)
                self._responses.save(count_change.tr, call, bytes((len(name),)) + name + packed)
                return items

            request.effect, request.is_copied = effect, True
            return request

        return made


class Listed(NamedTuple):
    """The names of a list of queues, until they are looked up again.

    Attributes:
        names: In the order that was given; empty for families by their index.
        stale_at: When to look them up again, by the monotonic clock.
    """

    names: tuple[str, ...] = ()
    stale_at: float = math.inf


class SeveralTake:
    """One call that takes items from one of several queues.

    Args:
        group: What it shares with other calls of the process.
        listed: Looks up the names of a list of queues.
        verb: ``"pop"`` or ``"lease"``, for observers. They are told of the queue that gave, or of
            the first queue that is named, or pattern, if none did.
        name: What errors call the queues.
        first_name: The first of their names.
        database: Where they are; its transactions may have a time limit.
        end: Which end to take from.
        count: The most items.
        make: Makes the request to one queue.
        responses: The responses of calls with an idempotency key.
        call: The call, if it has one.
    """

    def __init__(
        self,
        group: SeveralGroup,
        listed: Callable[[], Listed],
        verb: str,
        name: str,
        first_name: str,
        database: Database,
        end: End,
        count: int,
        make: Callable[[Consumer], TakeRequest],
        responses: SeveralResponses,
        call: KeyedCall | None = None,
    ) -> None:
        self._group = group
        self._listed = listed
        self._verb = verb
        self._leases = verb == "lease"
        self._name = name
        self._first_name = first_name
        self._database = database
        self._end: End = end
        self._count = count
        self._make = make if call is None else responses.saving(make, call)
        self._responses = responses
        self._call = call
        #: Where it waits, if it may, and for which list.
        self._item_wait: ItemWait | None = None
        self._watched: tuple[str, ...] = ()
        #: The request for which items were taken, while they may not have been returned yet.
        self._taken: SeveralRequest | None = None
        #: Whether something runs that may take items, or has taken some.
        self._is_in_flight = False

    def take(
        self,
        wait: float | None,
        tr: Transaction | None = None,
        waits_while: Callable[[], bool] | None = None,
    ) -> list[Item]:
        """Take items for a thread, as :meth:`Consumer.take` does from one queue."""
        if tr is not None:
            if wait is not None:
                raise InvalidInput(queue=self._name, reason="a transaction cannot wait")
            if waits_while is not None and not waits_while():
                return []
            return [*self._take_in(tr)]
        if wait is None and waits_while is None:
            return [*self._take_now(saves=True)]
        deadline = deadline_after(self._name, wait)
        found = self._wait().until(self._look, deadline, waits_while, self._database)
        if found is None:
            return []
        return [*found[0]] if found else self._take_nothing()

    async def take_in_loop(self, wait: float | None, take_once: TakeOnce) -> list[Item]:
        """Take items for a task, as :meth:`Consumer.take_in_loop` does from one queue."""
        deadline = deadline_after(self._name, wait)

        async def look() -> tuple[list[Item], ...]:
            return await take_once(self._look)

        found = await self._wait().until_in_loop(look, deadline)
        if found:
            return found[0]
        if self._call is None:
            return []
        return (await take_once(lambda: (self._take_nothing(),)))[0]

    def requeue(self, items: list[Item]) -> None:
        """Requeue items that were taken for a task that was cancelled."""
        if self._taken is not None and self._taken.requeue is not None:
            self._taken.requeue(items)

    # One look, by the thread that waits or by one of the pool

    def _look(self) -> tuple[list[Item], ...]:
        """Return the items that were taken, if there is something to return."""
        items = self._take_now(saves=False)
        return (items,) if items or is_replayed(self._call) else ()

    def _take_nothing(self) -> list[Item]:
        """Return no items; under an idempotency key, look again and save that response."""
        return [] if self._call is None else self._take_now(saves=True)

    def _wait(self) -> ItemWait:
        """Return what waits; which queues a list has is not known before the first look."""
        is_known = self._group.ring is not None
        watches = self._group.watches((), to_lease=self._leases) if is_known else ()
        self._item_wait = ItemWait(watches)
        return self._item_wait

    def _look_up(self) -> tuple[str, ...]:
        """Return the names of the list; the next wait is for these."""
        names, stale_at = self._listed()
        if self._item_wait is not None:
            self._item_wait.look_at = stale_at
            if names is not self._watched:
                self._watched = names
                self._item_wait.watches = self._group.watches(names, to_lease=self._leases)
        return names

    def _take_now(self, *, saves: bool) -> list[Item]:
        """Take the items there are, for a thread that may be interrupted."""
        self._taken, self._is_in_flight = None, False
        try:
            for turn in itertools.count():
                if turn >= _SLEEPS_AFTER_TURNS:
                    sleep_before_retry(turn - _SLEEPS_AFTER_TURNS)
                names = () if self._group.ring is not None else self._look_up()
                request = SeveralRequest(self._count, self._make, leases=self._leases, names=names)
                found = self._try(request, saves=saves)
                if isinstance(found, str):
                    found = self._take_from(found, request)
                if found is not None:
                    if found:
                        self._group.last = found[0].queue
                    return found
        except BaseException as error:
            vars(error)["outcome_known"] = not self._is_in_flight
            if self._taken is not None and self._call is None:  # else the same call returns them
                self._group.poppers[self._end].combiner.adopt(self._taken)
            raise
        raise AssertionError  # it counts for ever

    def _try(self, request: SeveralRequest, *, saves: bool) -> list[Item] | str | None:
        """Take items in one transaction, or find the queue that has any.

        Returns:
            The items; or the queue to take them from; or None to try again.
        """
        began = monotonic()
        self._is_in_flight = True
        try:
            if self._call is None:
                submit = self._group.poppers[self._end].combiner.submit
                found: list[Item] | str | None = submit(request, self._database)
            else:
                found = self._take_alone(request, saves=saves)
        except BaseException as error:
            self._is_in_flight = not getattr(error, "outcome_known", False)
            self._report(self._first_name, began, 0, error)
            raise
        if isinstance(found, str):
            self._is_in_flight = False
            return found
        if found and request.source:
            request.result, self._taken = found, request
        self._is_in_flight = bool(found)
        if instrumentation.observers:
            self._report(request.source or self._first_name, began, len(found or ()), None)
        return found

    def _take_from(self, name: str, request: SeveralRequest) -> list[Item] | None:
        """Take items from one of the queues by its own poppers; None if it has none any more."""
        consumer = self._responses.open_queue(name)
        own = self._make(consumer)
        self._is_in_flight = True
        try:
            taken = consumer.take_now(own)
        except BaseException as error:
            self._is_in_flight = not getattr(error, "outcome_known", False)
            raise
        if taken:
            request.requeue, request.result, self._taken = own.requeue, taken[0], request
        self._is_in_flight = bool(taken)
        return taken[0] if taken else None

    def _report(self, queue: str, began: float, count: int, error: BaseException | None) -> None:
        seconds = monotonic() - began
        instrumentation.report(Operation(self._verb, queue, seconds, count, error))

    # By itself, or in the caller's transaction

    def _take_alone(self, request: SeveralRequest, *, saves: bool) -> list[Item] | None:
        """Take items in a transaction of its own, again after each conflict; None to try again."""
        attempts = itertools.count()
        with self._group.walking(request.names, to_lease=self._leases) as walking:

            def attempt(tr: Transaction) -> Served:
                is_first = not next(attempts)
                return self._attempt(tr, walking, request, saves, owns=True, replaces_rows=is_first)

            served = run(self._database, attempt, wrote=_WROTE)
        for name, expired in served.expired:
            expiry.log(name, expired)
        return _result(served)

    def _take_in(self, tr: Transaction) -> list[Item]:
        """Take items in the caller's transaction."""
        names = self._look_up()
        request = SeveralRequest(self._count, self._make, leases=self._leases, names=names)
        with self._group.walking(names, to_lease=self._leases) as walking:
            served = self._attempt(tr, walking, request, True, owns=False, replaces_rows=False)
        items = _result(served) or []
        if items:
            self._group.last = items[0].queue
        return items

    def _attempt(
        self,
        tr: Transaction,
        walking: Walking,
        request: SeveralRequest,
        saves: bool,
        *,
        owns: bool,
        replaces_rows: bool,
    ) -> Served:
        """Take items; under an idempotency key, save them, or return the saved response.

        Args:
            tr: The transaction.
            walking: Its walks.
            request: The request.
            saves: Whether to save that there were no items, too.
            owns: Whether the transaction is this call's own: then it ends where another is to go
                on, and helps other processes.
            replaces_rows: Whether it replaces the index rows of members with nothing to give.
        """
        group, call = self._group, self._call
        if call is not None:
            recalled = self._responses.recall(tr, call)
            if recalled is not None:
                return Served([(request, recalled)])
        walk = walking.begin(tr)
        visit = Visit(group.consumer, tr, walk, self._end, owns=owns, replaces_rows=replaces_rows)
        served = visit.serve([request])
        if not owns and not served.gave:
            group.depend(tr)
        if call is not None and _result(served) == [] and saves:
            self._responses.save_nothing(tr, call)
            served.wrote = True
        return served


def _result(served: Served) -> list[Item] | None:
    """Return the items of the only request, None if it is to be tried again."""
    for _, items in served.results:
        if isinstance(items, Exception):
            try:
                raise items
            finally:
                del items, served  # an error that its own frames refer to keeps them
        assert isinstance(items, list)
        return items
    return None
