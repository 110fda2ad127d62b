"""The poppers of one queue in this process, at each of its ends.

Each end has a combiner of its own, because what conflicts at one end need not at the other:
every push behind the last item changes what is last.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.combiner import Combiner, State
from fdbqueue.service.consume.head import Order
from fdbqueue.service.consume.requests import RoundResult, TakeRequest
from fdbqueue.service.consume.round import Gather, Round, TakeUp
from fdbqueue.service.consume.staging import Staging
from fdbqueue.service.consume.taker import Taker
from fdbqueue.service.consume.wakeups import ItemWatch
from fdbqueue.service.items import Item
from fdbqueue.service.storage.handoffs import HelpRequest
from fdbqueue.service.storage.reader import End
from fdbqueue.service.transactions import Conflict, run

logger = logging.getLogger(__name__)

#: After this many conflicts in a row a popper asks for help, if others take items at its end
#: too; otherwise pushes were in its way, and it takes what it has seen.
_CONFLICTS = 2
#: For how long a process that had to ask for help asks again without trying first.
_STAGED_SECONDS = 0.25
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.001, 0.05


class EndPoppers:
    """The poppers at one end of a queue in this process: what their combiner does.

    Args:
        database: Anything with ``create_transaction()``, without a time limit.
        taker: Takes the queue's items.
        end: Which end.
        handoff_timeout_seconds: For how long a help request of this process holds, and
            after it the handoff.
    """

    def __init__(
        self, database: Database, taker: Taker, end: End, handoff_timeout_seconds: float
    ) -> None:
        self._database = database
        self._taker = taker
        self._end: End = end
        self._staging = Staging(database, taker, end, handoff_timeout_seconds, self._round)
        self.combiner = Combiner(self)
        self.forget()

    def forget(self) -> None:
        """Start anew, in a forked process."""
        self.combiner.forget()
        self._staging.forget()
        self._extra = 0  # how many more are wanted than those who waited at first want
        self._staged_until = 0.0

    # The combiner's work

    def alone(self, operation: TakeRequest) -> bool:
        """Take for one popper in its own thread; not so where processes are in the way."""
        if time.monotonic() < self._staged_until:
            return False
        operation.state = State.IN_FLIGHT
        try:
            result = self._try(
                operation.database, [operation], lambda: ([operation], 1), may_undo=False
            )
        except BaseException as error:
            if getattr(error, "outcome_known", False):
                operation.state = State.WAITING
            raise
        for _, items in [] if result is None else result.results:
            operation.conclude(items)
            operation.state = State.DONE
            return True
        operation.state = State.WAITING
        return False

    def together(self) -> None:
        """Take for those in line, or ask other processes to."""
        combiner = self.combiner
        if time.monotonic() >= self._staged_until:
            early = combiner.waiting()
            if not early:
                return
            result = self._try(
                self._database, early, lambda: self._gather(early), take_up=combiner.take_up
            )
            if result is not None:
                combiner.finish(result.results)
                return
            combiner.let_go()
        if self._staging.take(combiner):
            self._staged_until = time.monotonic() + _STAGED_SECONDS
        else:
            self._staged_until = 0.0

    def undo(self, operation: TakeRequest) -> None:
        """Put back what a thread had taken that has gone; its call's key returns the same."""
        if operation.call is not None:
            return
        try:
            operation.requeue(operation.result)
        except Exception:
            facts = {"queue": self._taker.store.queue, "items": _ids(operation.result)}
            logger.exception("what an interrupted thread had taken was not put back", extra=facts)

    # Rounds

    def _gather(self, early: Sequence[TakeRequest]) -> tuple[Sequence[TakeRequest], int]:
        """Return those who wait now, and how many, the first, waited early."""
        waiting = dict.fromkeys(self.combiner.waiting())
        prompt = [one for one in early if one in waiting]
        return list(dict.fromkeys([*prompt, *waiting])), len(prompt)

    def _try(
        self,
        database: Database,
        early: Sequence[TakeRequest],
        gather: Gather,
        **options: Any,
    ) -> RoundResult | None:
        """Take items in a round, again after a conflict.

        Returns:
            What it did; None where other processes take at this end, too, and have been
            faster time and again.
        """
        seen: list[int] = []
        conflicts = 0
        while True:
            if conflicts > _CONFLICTS:
                time.sleep(_pause(conflicts - _CONFLICTS))
            order = Order.STRICT if conflicts < _CONFLICTS else Order.AS_SEEN
            try:
                return self._round(database, early, gather, order=order, seen=seen, **options)
            except Conflict:
                conflicts += 1
                others_take = len(set(seen[-2:])) > 1
                if conflicts >= _CONFLICTS and others_take and not self._taker.relaxed:
                    self._staged_until = time.monotonic() + _STAGED_SECONDS
                    return None

    def _round(
        self,
        database: Database,
        early: Sequence[TakeRequest],
        gather: Gather,
        *,
        own: HelpRequest | None = None,
        order: Order = Order.STRICT,
        seen: list[int] | None = None,
        take_up: TakeUp = list,
        may_undo: bool = True,
    ) -> RoundResult:
        """Take items once.

        Args:
            database: Where.
            early: Those who wait already.
            gather: Returns those who wait once the head has been read.
            own: The help request under which the early ones wait.
            order: What the transaction depends on.
            seen: Gets how many items had ever been taken when it began.
            take_up: Takes up those that are served.
            may_undo: Whether threads may leave what is taken for them.

        Raises:
            Conflict: It conflicted.
        """

        def serve(tr: Transaction) -> RoundResult:
            one = Round(self._taker, tr, self._end, order)
            result = one.serve(
                early, gather, take_up=take_up, extra=self._extra, own=own, may_undo=may_undo
            )
            if seen is not None:
                seen.append(one.taken)
            return result

        result = run(database, serve, wrote=lambda result: result.wrote, retries_conflicts=False)
        if result.expired is not None:
            expiry.log(self._taker.store.queue, result.expired)
        self._extra = max(result.late + result.asked, self._extra * 3 // 4)
        return result


class PopperGroup:
    """All poppers of one queue in this process.

    Args:
        database: Anything with ``create_transaction()``, without a time limit.
        taker: Takes the queue's items.
        handoff_timeout_seconds: For how long items that another process has taken for this
            one are kept for it.
    """

    def __init__(self, database: Database, taker: Taker, handoff_timeout_seconds: float) -> None:
        self._ends: dict[End, EndPoppers] = {
            "min": EndPoppers(database, taker, "min", handoff_timeout_seconds),
            "max": EndPoppers(database, taker, "max", handoff_timeout_seconds),
        }
        #: Wakes those who wait for items.
        self.watch = ItemWatch(database, taker.store)
        _groups.add(self)

    def take(self, request: TakeRequest, database: Database) -> list[Item]:
        """Take items, together with all others in this process who want some now.

        What is raised has an attribute ``outcome_known``: True where nothing was taken.

        Args:
            request: What to take.
            database: Where; its transactions may have a time limit, as long as the thread
                takes by itself.

        Raises:
            CorruptItem: One of them cannot be decoded; all stay where they are.
            DeadlineExceeded: The time was over first; nothing was taken.
            OutcomeUnknown: It is not known whether they were taken.
        """
        items: list[Item] = self._ends[request.end].combiner.submit(request, database)
        return items

    def in_line(self, end: End) -> int:
        """Return how many threads of this process wait in line at an end."""
        return self._ends[end].combiner.in_line

    def is_busy(self, end: End) -> bool:
        """Tell whether a thread of this process takes items at an end right now."""
        return self._ends[end].combiner.is_busy

    def forget(self) -> None:
        """Start anew, in a forked process."""
        for poppers in self._ends.values():
            poppers.forget()
        self.watch.forget()


def _ids(items: Sequence[Item]) -> list[str | None]:
    return [item.id for item in items]


def patient(database: Database) -> Any:
    """Return the database that a database with a time limit is over, or the database itself."""
    return getattr(database, "patient", database)


def _pause(number: int) -> float:
    longest: float = min(_FIRST_PAUSE_SECONDS * 2**number, _MAX_PAUSE_SECONDS)
    return longest * random.random()


_groups: weakref.WeakSet[PopperGroup] = weakref.WeakSet()
_shared: weakref.WeakKeyDictionary[Any, weakref.WeakValueDictionary[Any, PopperGroup]] = (
    weakref.WeakKeyDictionary()
)
_sharing = threading.Lock()


def group(
    database: Database, taker: Taker, handoff_timeout_seconds: float, key: Any
) -> PopperGroup:
    """Return the poppers of a queue in this process, the same for all its queue objects."""
    database = patient(database)
    with _sharing:
        try:
            groups = _shared.setdefault(database, weakref.WeakValueDictionary())
            found = groups.get(key)
        except TypeError:  # a database without weak references, or a codec without a hash
            return PopperGroup(database, taker, handoff_timeout_seconds)
        if found is None:
            found = groups[key] = PopperGroup(database, taker, handoff_timeout_seconds)
        return found


def _forget_all() -> None:
    global _sharing  # noqa: PLW0603  # a thread may have held it in the other process
    _sharing = threading.Lock()
    for one in list(_groups):
        one.forget()


os.register_at_fork(after_in_child=_forget_all)
