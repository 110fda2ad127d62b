"""Take items from one of several queues: of a list, or members of families by their index.

1. *A list*: **find** the first queue that may give (:mod:`finding`), in one transaction that takes
   nothing. **Take** from it as a call on it does; if it gives nothing, find again.
   *Families*: :mod:`several_poppers`.
2. **None** is returned if all queues had nothing, at one moment.
3. **Wait** (:mod:`waiting`) at the watches of all queues; for families at the keys WAKE, of which
   every writer of a row changes one, and until the first row LATER.

In a caller's transaction, and under an idempotency key, one transaction looks and takes; of a list
it depends on what it has found empty. A response has one place for all queues of a catalog: of two
calls under a key only one takes items.

What is left behind, besides what a take from one queue leaves, by

- *an error of one queue*: nothing of the others. A member of another format is set aside for a
  minute;
- *an interrupt*: the circle may miss some names once; a forked child begins anywhere;
- *a pause of a member*: no row once it was looked at; resuming writes it. Of a paused family the
  rows stay;
- *a clock far ahead*: rows of moments that are too late, at which others look at once;
- *a writer that does not know the catalog*: no row, until ``recount``.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import instrumentation
from fdbqueue.service.combiner import Combiner, SharedOperation
from fdbqueue.service.consume.consumer import Consumer, TakeOnce, take_in
from fdbqueue.service.consume.contention import sleep_before_retry
from fdbqueue.service.consume.finding import FindRequest, SeveralGroup
from fdbqueue.service.consume.ring import Walking
from fdbqueue.service.consume.round import Requeue, TakeRequest
from fdbqueue.service.consume.visits import Served, SeveralRequest, Visit
from fdbqueue.service.consume.waiting import ItemWait, deadline_after
from fdbqueue.service.idempotency import KeyedCall, Responses, SavedResponses, is_replayed
from fdbqueue.service.instrumentation import Operation
from fdbqueue.service.items import Item
from fdbqueue.service.storage.item_keys import End, Loaded
from fdbqueue.service.transactions import run
from fdbqueue.steady import monotonic

#: A call sleeps before the third turn, and before each after it.
_SLEEPS_AFTER_TURNS = 2


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

            def save(tr: Transaction, loaded: Sequence[Loaded], items: Sequence[Item]) -> None:
                packed = SavedResponses.packed_items(loaded, items)
                self._responses.save(tr, call, bytes((len(name),)) + name + packed)

            request.save, request.is_copied = save, True
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
        verb: ``"pop"`` or ``"lease"``, for observers. They are told of each queue that is asked,
            or of the first queue that is named, or pattern, if none may have something.
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
        #: Requeues what was taken last.
        self._requeue: Requeue | None = None
        #: Whether something runs that may take items, or has taken some.
        self._is_in_flight = False
        #: What was done and not returned yet, and which combiner undoes it.
        self._taken: tuple[Combiner, SharedOperation] | None = None

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
        if self._requeue is not None:
            self._requeue(items)

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
        if self._group.ring is not None:
            return ()
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
                found = self._take_once_more(saves=saves)
                if found:
                    self._group.last = found[0].queue
                if found is not None:
                    return found
        except BaseException as error:
            vars(error).setdefault("outcome_known", not self._is_in_flight)
            if self._taken is not None:
                combiner, operation = self._taken
                combiner.adopt(operation)
            raise
        raise AssertionError  # it counts for ever

    def _take_once_more(self, *, saves: bool) -> list[Item] | None:
        """Take items of the queue that comes next; None to try again."""
        began = monotonic()
        found: list[Item] | str | None
        try:
            if self._call is not None:
                found = self._take_under_key(saves=saves)
            elif self._group.ring is None:
                found = self._find()
            else:
                request = SeveralRequest(self._count, self._make, leases=self._leases)
                self._is_in_flight = True
                combiner = self._group.poppers[self._end].combiner
                found = combiner.submit(request, self._database)
                if isinstance(found, list) and found:
                    self._taken, self._requeue = (combiner, request), request.requeue
                else:
                    self._is_in_flight = False
        except BaseException as error:
            self._report(self._first_name, began, 0, error)
            raise
        if isinstance(found, str) and found:
            return self._take_from(found)
        items = [] if isinstance(found, str) else found  # no copy: these can be requeued
        if items is not None:
            queue = items[0].queue if items else self._first_name
            self._report(queue, began, len(items), None)
        return items

    def _find(self) -> str:
        """Find a queue of the list that may have something, empty if there is none."""
        try:
            request = FindRequest(self._look_up(), leases=self._leases)
            found: str = self._group.finder.combiner.submit(request, self._database)
            return found
        except BaseException as error:
            vars(error)["outcome_known"] = True  # nothing was taken
            raise

    def _take_from(self, name: str) -> list[Item] | None:
        """Take items from one of the queues, as a call on it does; None if it has none any more."""
        consumer = self._group.consumer(name)
        own = self._make(consumer)
        self._requeue = own.requeue
        self._is_in_flight = True
        for items in consumer.take_now(own):
            self._taken = consumer.group.poppers[self._end].combiner, own
            return items
        self._is_in_flight = False
        return None

    def _report(self, queue: str, began: float, count: int, error: BaseException | None) -> None:
        if instrumentation.observers:
            seconds = monotonic() - began
            instrumentation.report(Operation(self._verb, queue, seconds, count, error))

    # In one transaction: under an idempotency key, or the caller's

    def _take_under_key(self, *, saves: bool) -> list[Item] | None:
        """Take items, and save them, or return the saved response; None to go on in another.

        Args:
            saves: Whether to save that there were no items, too.
        """
        names, attempts = self._look_up(), itertools.count()
        self._is_in_flight = True
        with self._walking() as walking:
            items, _ = run(
                self._database,
                lambda tr: self._take_once(
                    tr, walking, names, saves=saves, owns=True, replaces_rows=not next(attempts)
                ),
                wrote=operator.itemgetter(1),
            )
        self._is_in_flight = bool(items)
        return items

    def _take_in(self, tr: Transaction) -> list[Item]:
        """Take items in the caller's transaction."""
        group, names = self._group, self._look_up()
        with self._walking() as walking:
            items, is_new = self._take_once(tr, walking, names)
        if items:
            group.last = items[0].queue
        elif is_new:
            group.depend(tr)
        return items or []

    def _take_once(
        self,
        tr: Transaction,
        walking: Walking | None,
        names: Sequence[str],
        *,
        saves: bool = True,
        owns: bool = False,
        replaces_rows: bool = False,
    ) -> tuple[list[Item] | None, bool]:
        """Take items in a transaction, or return the response that was saved under the call's key.

        Args:
            tr: The transaction.
            walking: Its walks; None for a list.
            names: The names of the list.
            saves: Whether to save that there were no items, too.
            owns: Whether the transaction is this call's own: then it ends where another is to go
                on.
            replaces_rows: Whether it replaces the rows of members that have nothing.

        Returns:
            The items, None to go on in another transaction; and whether they are not of a response.
        """
        group, call = self._group, self._call
        if call is not None:
            recalled = self._responses.recall(tr, call)
            if recalled is not None:
                return recalled, False
        items: list[Item] | None = []
        if group.ring is not None and walking is not None:
            request = SeveralRequest(self._count, self._make, leases=self._leases)
            visit = Visit(
                group.consumer,
                group.ring,
                tr,
                walking.begin(tr),
                self._end,
                owns=owns,
                replaces_rows=replaces_rows,
            )
            items = _result(visit.serve([request]))
        else:
            for name in group.in_order(names):
                consumer = group.consumer(name)
                if items := take_in(consumer.taker, tr, self._make(consumer))[0]:
                    break
        if call is not None and items == [] and saves:
            self._responses.save_nothing(tr, call)
        return items, True

    def _walking(self) -> contextlib.AbstractContextManager[Walking | None]:
        """Return the walks of a transaction's attempts; of a list there are none."""
        ring = self._group.ring
        return contextlib.nullcontext() if ring is None else Walking(ring, to_lease=self._leases)


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
