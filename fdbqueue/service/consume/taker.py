"""Take requests, and what becomes of the rows that a round takes for them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import CorruptItem, FdbQueueError
from fdbqueue.service.combiner import SharedOperation
from fdbqueue.service.consume.acks import Ack
from fdbqueue.service.consume.allowance import TakeLimits
from fdbqueue.service.consume.leases import Leases
from fdbqueue.service.idempotency import KeyedCall, SavedResponses
from fdbqueue.service.items import Item
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.handoffs import LeaseKey, packed_lease_keys
from fdbqueue.service.storage.item_keys import End, Loaded, Row
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.writes import SharedTransaction

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
            if one.call is None and one.acknowledges is None:
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

    def remaining(
        self,
        batch: Iterable[TakeRequest],
        reads: Container[TakeRequest],
        concluded: Container[TakeRequest],
    ) -> list[TakeRequest]:
        """Return the other requests, but for those whose reads were not begun."""
        found = []
        for one in batch:  # a comprehension would be one more call of each pop
            is_ready = one in reads or (one.call is None and one.acknowledges is None)
            if is_ready and one not in concluded:
                found.append(one)
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
