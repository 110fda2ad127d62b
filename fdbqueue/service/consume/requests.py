"""Requests to take items, what a popper must know of the queue, and what a round did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import FdbQueueError
from fdbqueue.service.consume.expiry import ExpiredCounts
from fdbqueue.service.idempotency import Call
from fdbqueue.service.items import Item
from fdbqueue.service.operations import SharedOperation
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.handoffs import HelpRequest
from fdbqueue.service.storage.reader import End, Loaded, Row
from fdbqueue.service.storage.tables import Due

#: What becomes of items that were taken: popped, or leased. Given the transaction, its
#: account and the items, none of them corrupt.
Effect = Callable[[Transaction, CountChange, Sequence[Loaded]], list[Item]]
#: Puts back what an effect returned, in transactions of its own.
Requeue = Callable[[Any], None]


class Acknowledgement(Protocol):
    """Leases that end in the transaction that takes the next items: all of them, or none.

    Attributes:
        places: Where they are, or the names of batches.
    """

    places: frozenset[bytes]

    def begin_reads(self, tr: Transaction) -> None:
        """Ask for the leases, without waiting for them."""

    def refusal(self) -> FdbQueueError | None:
        """Return why they cannot end, None where they can."""

    def apply(self, tr: Transaction, count_change: CountChange) -> None:
        """End them."""


class TakeRequest(SharedOperation):
    """A request of one thread: some items from one end, and what becomes of them.

    Attributes:
        end: Which end.
        count: The most items.
        effect: What becomes of them.
        call: The call that has an idempotency key, None where there is none.
        leases: Whether they are to be leased.
        acknowledges: Leases that end in the same transaction; None where none do, or they have.
        requeue: Puts them back, where their thread has gone.
    """

    __slots__ = ("acknowledges", "call", "count", "effect", "end", "leases", "requeue")

    def __init__(
        self,
        end: End,
        count: int,
        effect: Effect,
        call: Call | None = None,
        *,
        requeue: Requeue,
        leases: bool = False,
        acknowledges: Acknowledgement | None = None,
    ) -> None:
        self.end = end
        self.count = count
        self.effect = effect
        self.call = call
        self.requeue = requeue
        self.leases = leases
        self.acknowledges = acknowledges


#: A request, and the rows it is to get.
Portion = tuple[TakeRequest, list[Row]]
#: A request, and its items or its error.
Result = tuple[TakeRequest, list[Item] | Exception]


class QueueState(NamedTuple):
    """What a popper must know besides the items.

    Attributes:
        taken: How many items were ever taken off the ready ones: it tells whether others pop.
        retried: Whether attempts may be in rows of their own.
        requests: The open help requests, the oldest first.
        expired: The help requests whose time is over, handed over or not.
        awaits: Whether something was handed over that may yet come back.
        dues: What has fallen due by the clock.
        more_due: Whether there may be more of that.
    """

    taken: int
    retried: bool
    requests: list[HelpRequest]
    expired: list[HelpRequest]
    awaits: bool
    dues: list[Due]
    more_due: bool


@dataclass
class RoundResult:
    """What a round did.

    Attributes:
        results: The requests that were served, each with its items or its error.
        wrote: Whether anything was written.
        late: How many items were wanted by those who came after it had begun.
        asked: How many items the help requests of other processes wanted.
        expired: What had expired and was put back, None where nothing had.
        is_helped: Whether this process's help request was not open any more; then nothing
            was taken.
    """

    results: list[Result] = field(default_factory=list)
    wrote: bool = False
    late: int = 0
    asked: int = 0
    expired: ExpiredCounts | None = None
    is_helped: bool = False
