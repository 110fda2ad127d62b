"""Take items for the threads of this process, alone or together.

All queue objects of one queue on one database share a :class:`ProcessGroup`: a combiner for each
end, because what conflicts at one need not at the other, and one for writes.
"""

from __future__ import annotations

import functools
import operator
import os
import weakref
from collections.abc import Sequence
from typing import Any

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.locks import RLock
from fdbqueue.logs import get_logger
from fdbqueue.service.combiner import CombinedBatch, Combiner
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.contention import Contention, Race
from fdbqueue.service.consume.help.asking import Asking
from fdbqueue.service.consume.prospect import begin_prospect
from fdbqueue.service.consume.round import Requeue, Round, RoundResult, Taker, TakeRequest
from fdbqueue.service.consume.waiting import ItemWatch
from fdbqueue.service.items import Item
from fdbqueue.service.storage.counts import taken_at
from fdbqueue.service.storage.handoffs import HelpRequest
from fdbqueue.service.storage.item_keys import End
from fdbqueue.service.transactions import Conflict, run, unlimited
from fdbqueue.service.writes import SharedWrites
from fdbqueue.steady import monotonic

logger = get_logger(__name__)

#: Without a call of Python code, because each pop reads it.
_WROTE = operator.attrgetter("wrote")
_COUNT = operator.attrgetter("count")


class EndPoppers:
    """Take items at one end of a queue for the threads of this process, for their combiner.

    Args:
        database: Anything with ``create_transaction()``, without a time limit.
        taker: Takes the queue's items.
        end: Which end.
    """

    def __init__(self, database: Database, taker: Taker, end: End) -> None:
        self._database = database
        self._taker = taker
        self._end: End = end
        self._contention = Contention(database, taker.choices)
        self._asking = Asking(database, taker, end, self._contention, self._take)
        self.combiner = Combiner(self)
        self.restart_after_fork()

    def restart_after_fork(self) -> None:
        """Start again in a forked process."""
        self.combiner.restart_after_fork()
        self._asking.restart_after_fork()
        self._contention.restart_after_fork()
        self._extra = 0  # how many items to read for late requests and other processes

    # The combiner's work

    def alone(self, operation: TakeRequest) -> bool:
        """Take items for one popper in its own thread, unless other processes interfere."""
        if monotonic() < self._contention.helped_until:
            return False
        result = self._take(operation.database, [operation])
        for _, items in () if result is None else result.results:
            operation.conclude(items)
            return True
        return False

    def together(self, batch: CombinedBatch) -> None:
        """Take items for the requests in line, or ask other processes to."""
        if monotonic() >= self._contention.helped_until:
            early = batch.waiting()
            if not early:
                return
            result = self._take(self._database, early, batch)
            if result is not None:
                batch.finish(result.results)
                return
        began = monotonic()
        is_given = self._asking.take(batch)
        self._contention.note_help(monotonic() - began, is_given=is_given)

    def undo(self, operation: TakeRequest) -> None:
        """Requeue the items of a thread that has gone.

        Not under an idempotency key: there the same call returns them.
        """
        if operation.call is None:
            requeue_or_log(self._taker.store.home, operation.requeue, operation.result)

    # Rounds

    def _take(
        self,
        database: Database,
        early: Sequence[TakeRequest],
        batch: CombinedBatch | None = None,
        own: HelpRequest | None = None,
        race: Race | None = None,
    ) -> RoundResult | None:
        """Take items in a round, and again after a conflict.

        Args:
            database: Where.
            early: The requests in line when it begins.
            batch: Whose they are; None for the only request of a thread that is alone.
            own: Their help request, if they have one.
            race: Decides what follows a conflict; None for a race that the first one begins.

        Returns:
            Its result; None if the race does not go on after a conflict.
        """
        seen: list[int] = []  # how many items had ever been taken when each round began
        contention = self._contention

        def serve(tr: Transaction) -> RoundResult:
            if monotonic() < contention.reserved_until:
                contention.reserve(tr)
            order = contention.order if race is None else race.order
            one = Round(self._taker, tr, self._end, early, order, self._extra, contention.slot)
            result = one.serve(batch, own=own)
            seen.append(one.taken)
            if result.wrote and self._asking.served is not None:
                self._asking.remove_served(tr)
            return result

        while True:
            try:
                result = run(database, serve, wrote=_WROTE, retries_conflicts=False)
                break
            except Conflict:
                # nothing was done, unless another process ends the leases that the request names
                if batch is not None and (own is None or not own.lease_keys):
                    batch.let_go()
                wanted = sum(map(_COUNT, early)) + self._extra
                others = len({taken_at(self._end, taken) for taken in seen[-2:]}) > 1
                race = race or Race(contention)
                if not race.goes_on(others=others, wanted=wanted):
                    return None
        if race is not None:
            race.win()
        self._note(result)
        return result

    def _note(self, result: RoundResult) -> None:
        """Note what a round did, for the next one."""
        if result.wrote:
            self._asking.served = None
        if result.expired is not None:
            expiry.log(self._taker.store.home, result.expired)
        if self._contention.slot:
            self._contention.try_nearer()
        self._extra = max(result.late + result.asked, self._extra * 3 // 4)


def requeue_or_log(queue: str, requeue: Requeue, items: list[Item]) -> None:
    """Requeue the items of a thread that has gone; if that fails, log the rest."""
    try:
        requeue(items)
    except Exception:
        facts = {"queue": queue, "items": [item.id for item in items]}
        logger.exception("items of an interrupted thread were not requeued", extra=facts)


class _Ends(dict[End, EndPoppers]):
    """The poppers at each end, made once somebody takes items there.

    A take from a family opens many queues, and seldom needs the poppers of one.
    """

    def __init__(self, database: Database, taker: Taker) -> None:
        super().__init__()
        self._made_of = database, taker

    def __missing__(self, end: End) -> EndPoppers:
        return self.setdefault(end, EndPoppers(*self._made_of, end))  # one for all threads


class ProcessGroup:
    """The poppers at each end of one queue, its writes and its watch, for this process.

    Args:
        database: Anything with ``create_transaction()``, without a time limit.
        taker: Takes the queue's items.

    Attributes:
        poppers: What takes items at each end, and its combiner.
        writes: Combines pushes, acks, nacks and extends.
        watch: Wakes threads and tasks that wait for items.
        lease_watch: Wakes those that wait to lease some; the same, unless leases are limited.
    """

    def __init__(self, database: Database, taker: Taker) -> None:
        self.poppers: dict[End, EndPoppers] = _Ends(database, taker)
        self.writes = SharedWrites(database, taker.store)
        look = functools.partial(begin_prospect, taker=taker)
        watch = functools.partial(ItemWatch, database, is_told=taker.store.codec.keeps_metadata)
        self.watch = self.lease_watch = watch(functools.partial(look, to_lease=False))
        if taker.limits is not None and taker.limits.max_leased is not None:
            self.lease_watch = watch(functools.partial(look, to_lease=True))
        restarts_after_fork(self)

    def restart_after_fork(self) -> None:
        """Start again in a forked process."""
        for poppers in self.poppers.values():
            poppers.restart_after_fork()
        self.writes.combiner.restart_after_fork()
        self.watch.restart_after_fork()
        self.lease_watch.restart_after_fork()


#: What threads of a process share; a forked child has none of these threads.
_restarted: weakref.WeakSet[Any] = weakref.WeakSet()
_shared: weakref.WeakKeyDictionary[Any, weakref.WeakValueDictionary[Any, ProcessGroup]] = (
    weakref.WeakKeyDictionary()
)
_sharing = RLock()


def shared_group(database: Database, taker: Taker, key: Any) -> ProcessGroup:
    """Return the process's group for a queue, the same for all its queue objects."""
    database = unlimited(database)
    with _sharing:
        try:
            groups = _shared.get(database)
            if groups is None:
                groups = _shared[database] = weakref.WeakValueDictionary()
            found = groups.get(key)
        except TypeError:  # a database without weak references, or a codec without a hash
            return ProcessGroup(database, taker)
        if found is None:
            found = groups[key] = ProcessGroup(database, taker)
        return found


def restarts_after_fork(shared: Any) -> None:
    """Let an object start again in each forked process: threads that held its locks are gone."""
    _restarted.add(shared)


def _restart_all() -> None:
    global _sharing  # noqa: PLW0603  # a thread may have held it in the other process
    _sharing = RLock()
    for one in list(_restarted):
        one.restart_after_fork()


os.register_at_fork(after_in_child=_restart_all)
