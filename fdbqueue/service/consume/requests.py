"""Requests to take items, the state of the queue, and the result of a round."""

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
from fdbqueue.service.storage.handoffs import HelpRequest, Mark
from fdbqueue.service.storage.reader import End, Loaded, Row
from fdbqueue.service.storage.tables import Due

#: The most items that a round takes for the threads of this process, and the most for other
#: processes; the first request of each may be larger.
ROUND_ITEMS = 1_000

#: Pops or leases items that were taken, and returns them. Called with the transaction, its
#: ``CountChange``, and the items, none of them corrupt.
Effect = Callable[[Transaction, CountChange, Sequence[Loaded]], list[Item]]
#: Requeues the items that an effect returned, in transactions of its own.
Requeue = Callable[[Any], None]


class Contended(Exception):
    """Other processes take items too, and must not serve this request; nothing was done."""


class Acknowledgement(Protocol):
    """Leases that end in the transaction that takes the next items: all of them, or none.

    Attributes:
        places: Where they are.
        marks: The place and the mark of each.
        is_shareable: Whether another process can end them, given their marks.
    """

    places: frozenset[bytes]
    marks: tuple[Mark, ...]
    is_shareable: bool

    def begin_reads(self, tr: Transaction) -> None:
        """Begin to read the leases."""

    def check(self) -> FdbQueueError | None:
        """Take what was read; return why the leases cannot end, None where they can."""

    def apply(self, tr: Transaction, count_change: CountChange) -> None:
        """End the leases, once :meth:`check` has found that they can end."""


class TakeRequest(SharedOperation):
    """A request of one thread: take items from one end, and pop or lease them.

    Attributes:
        end: Which end.
        count: The most items.
        effect: Pops or leases them.
        call: The call that has an idempotency key, None where there is none.
        lease_us: For how many microseconds it leases them; 0 where it does not.
        worker: The name of the worker that leases them, in UTF-8; empty for none.
        acknowledges: Leases that end in the same transaction; None where none do, or they have.
        requeue: Requeues them, if the thread no longer waits.
    """

    __slots__ = (
        "acknowledges",
        "call",
        "count",
        "effect",
        "end",
        "lease_us",
        "requeue",
        "worker",
    )

    def __init__(
        self,
        end: End,
        count: int,
        effect: Effect,
        call: Call | None = None,
        *,
        requeue: Requeue,
        lease_us: int = 0,
        worker: bytes = b"",
        acknowledges: Acknowledgement | None = None,
    ) -> None:
        self.end = end
        self.count = count
        self.effect = effect
        self.call = call
        self.requeue = requeue
        self.lease_us = lease_us
        self.worker = worker
        self.acknowledges = acknowledges


#: A request, and the rows that were taken for it.
Portion = tuple[TakeRequest, list[Row]]
#: A request, and its items or its error.
Result = tuple[TakeRequest, list[Item] | Exception]


class QueueState(NamedTuple):
    """The state of a queue, which a round reads besides the items.

    Attributes:
        taken: How many items were ever taken off the ready ones: it tells whether others pop.
        retried: Whether attempts may be in rows of their own.
        is_paused: Whether nothing is to be taken or requeued.
        requests: The open help requests, the oldest first.
        expired: The help requests that have expired, handed over or not.
        awaits: Whether there is a handoff that was not collected yet, and has not expired.
        dues: The leases, delays and batches that have expired.
        more_due: Whether there may be more of these.
    """

    taken: int
    retried: bool
    is_paused: bool
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
        late: How many items the late requests wanted, which joined after it had begun.
        asked: How many items the help requests of other processes wanted.
        expired: How much had expired and was requeued, None where nothing had.
        is_helped: Whether this process's help request was served, or is gone; then a round takes
            nothing.
    """

    results: list[Result] = field(default_factory=list)
    wrote: bool = False
    late: int = 0
    asked: int = 0
    expired: ExpiredCounts | None = None
    is_helped: bool = False
