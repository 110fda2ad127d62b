"""Take items for the threads of this process, alone or together, at one end of a queue.

Each end has a combiner of its own, because what conflicts at one end need not conflict at the
other: every push behind the last item changes what is last.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Sequence
from typing import Any

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.service.combiner import CombinedBatch, Combiner
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.head import Order
from fdbqueue.service.consume.requests import RoundResult, TakeRequest
from fdbqueue.service.consume.round import Gather, Round, TakeUp
from fdbqueue.service.consume.staging import Staging
from fdbqueue.service.consume.taker import Taker
from fdbqueue.service.items import Item
from fdbqueue.service.operations import OperationState
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
    """Take items at one end of a queue for the threads of this process, for their combiner.

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
        self._extra = 0  # how many items to read for late requests and other processes
        self._staged_until = 0.0

    # The combiner's work

    def alone(self, operation: TakeRequest) -> bool:
        """Take items for one popper in its own thread, unless other processes interfere."""
        if time.monotonic() < self._staged_until:
            return False
        operation.state = OperationState.IN_FLIGHT
        try:
            result = self._try(
                operation.database, [operation], lambda: ([operation], 1), may_undo=False
            )
        except BaseException as error:
            if getattr(error, "outcome_known", False):
                operation.state = OperationState.WAITING
            raise
        for _, items in [] if result is None else result.results:
            operation.conclude(items)
            operation.state = OperationState.DONE
            return True
        operation.state = OperationState.WAITING
        return False

    def together(self, batch: CombinedBatch) -> None:
        """Take items for the requests in line, or ask other processes to."""
        if time.monotonic() >= self._staged_until:
            early = batch.waiting()
            if not early:
                return

            def gather() -> tuple[Sequence[TakeRequest], int]:
                return _gathered(batch, early)

            result = self._try(self._database, early, gather, take_up=batch.take_up)
            if result is not None:
                batch.finish(result.results)
                return
            batch.let_go()
        if self._staging.take(batch):
            self._staged_until = time.monotonic() + _STAGED_SECONDS
        else:
            self._staged_until = 0.0

    def undo(self, operation: TakeRequest) -> None:
        """Requeue the items of a thread that has gone.

        Not under an idempotency key: there the same call returns them.
        """
        if operation.call is not None:
            return
        try:
            operation.requeue(operation.result)
        except Exception:
            facts = {"queue": self._taker.store.queue, "items": _ids(operation.result)}
            logger.exception("items of an interrupted thread were not requeued", extra=facts)

    # Rounds

    def _try(
        self,
        database: Database,
        early: Sequence[TakeRequest],
        gather: Gather,
        **options: Any,
    ) -> RoundResult | None:
        """Take items in a round, again after a conflict.

        Returns:
            Its result; None after two conflicts in a row with poppers of other processes.
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
        """Take items in one transaction.

        Args:
            database: Where.
            early: The requests in line when it begins.
            gather: Returns the requests in line once the head has been read.
            own: The help request of the early ones.
            order: What the transaction depends on.
            seen: Gets how many items had ever been taken when it began.
            take_up: Takes up the requests that are served.
            may_undo: Whether taken items may be requeued later.

        Raises:
            Conflict: It conflicted.
        """

        def serve(tr: Transaction) -> RoundResult:
            one = Round(self._taker, tr, self._end, early, order, self._extra)
            result = one.serve(gather, take_up=take_up, own=own, may_undo=may_undo)
            if seen is not None:
                seen.append(one.taken)
            if result.wrote:
                self._staging.remove_served(tr)
            return result

        result = run(database, serve, wrote=lambda result: result.wrote, retries_conflicts=False)
        if result.wrote:
            self._staging.served = None
        if result.expired is not None:
            expiry.log(self._taker.store.queue, result.expired)
        self._extra = max(result.late + result.asked, self._extra * 3 // 4)
        return result


def _gathered(
    batch: CombinedBatch, early: Sequence[TakeRequest]
) -> tuple[Sequence[TakeRequest], int]:
    """Return the requests in line, the early ones first, and how many are early."""
    waiting = dict.fromkeys(batch.waiting())
    prompt = [one for one in early if one in waiting]
    return list(dict.fromkeys([*prompt, *waiting])), len(prompt)


def _ids(items: Sequence[Item]) -> list[str | None]:
    return [item.id for item in items]


def _pause(number: int) -> float:
    longest: float = min(_FIRST_PAUSE_SECONDS * 2**number, _MAX_PAUSE_SECONDS)
    return longest * random.random()
