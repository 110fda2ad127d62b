"""Read the state of a queue, and pop or lease the rows that a round has taken."""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import CorruptItem, FdbQueueError
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.leases import Leases
from fdbqueue.service.consume.requests import Portion, QueueState, Result, RoundResult, TakeRequest
from fdbqueue.service.idempotency import SavedResponses
from fdbqueue.service.items import Item
from fdbqueue.service.storage.counts import CountChange, ready_and_taken
from fdbqueue.service.storage.handoffs import (
    Handoff,
    HelpRequest,
    read_request,
    remove_pieces,
    remove_request,
)
from fdbqueue.service.storage.reader import End, Loaded, Row
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import Due

#: One range read returns the counts, the help requests and what has expired; requests beyond
#: these wait for the next popper.
_MAX_REQUESTS = 200
_STATE_ROWS = 3 + _MAX_REQUESTS + expiry.MAX_EXPIRED


class Taker:
    """Take items of one queue.

    Args:
        store: Its items.
        responses: The saved responses of calls with an idempotency key.
        leases: Its leases.
        relaxed: Whether any of the first items will do.
        max_attempts: How many failed leases make an item dead; None for no limit.
    """

    def __init__(
        self,
        store: ItemStore,
        responses: SavedResponses,
        leases: Leases,
        *,
        relaxed: bool,
        max_attempts: int | None,
    ) -> None:
        self.store = store
        self.responses = responses
        self.leases = leases
        self.max_attempts = max_attempts
        self.relaxed = relaxed

    # What a popper must know

    def begin_state(self, tr: Transaction, now: int) -> Any:
        """Begin to read the state of the queue."""
        begin, stop = self.store.tables.present(now)
        return tr.snapshot.get_range(begin, stop, limit=_STATE_ROWS)

    def parse_state(self, tr: Transaction, now: int, rows: Any) -> QueueState:
        """Return what the rows of the state say."""
        tables = self.store.tables
        taken, retried, paused, requests, dues = 0, False, False, [], []
        count = 0
        for row in rows:
            count += 1
            if row.key == tables.ready:
                taken = ready_and_taken(row.value)[1]
            elif row.key == tables.retried:
                retried = True
            elif row.key == tables.paused:
                paused = True
            elif tables.is_request(row.key):
                request = read_request(tables, row.key, row.value)
                if request is not None:
                    requests.append(request)
            else:
                entry = tables.parse_due(row.key)
                if entry is not None:
                    dues.append(entry)
        if count == _STATE_ROWS and not dues:  # the help requests left no room for it
            dues = list(self._due(tr, now, expiry.MAX_EXPIRED))
        chosen = expiry.chosen(dues, self.relaxed)
        is_open, handed, expired = _by_age(tr, requests)
        more_due = len(dues) > len(chosen) or count == _STATE_ROWS
        awaits = any(not request.lease_us for request in handed)
        return QueueState(taken, retried, paused, is_open, expired, awaits, chosen, more_due)

    def begin_look(self, tr: Transaction, end: End) -> Callable[[], bool]:
        """Begin to read whether there may be items to take; call the returned function for it.

        There may be where something has expired, too. The transaction depends on nothing.
        """
        now = now_us()
        state = self.begin_state(tr, now)
        head = self.store.reader.rows(tr.snapshot, *self.store.keys.bounds(), 1, end)

        def look() -> bool:
            is_empty = not any(True for _ in head)
            found = self.parse_state(tr, now, state)
            has_items = not is_empty or bool(found.dues or found.expired)
            return has_items and not found.is_paused

        return look

    def all_due(self, tr: Transaction, now: int) -> Iterator[Due]:
        """Yield everything that has expired by the clock, the oldest first."""
        return self._due(tr, now, 0)

    def _due(self, tr: Transaction, now: int, limit: int) -> Iterator[Due]:
        begin, stop = self.store.tables.due_bounds()[0], self.store.tables.present(now)[1]
        for row in tr.snapshot.get_range(begin, stop, limit=limit):
            entry = self.store.tables.parse_due(row.key)
            if entry is not None:
                yield entry

    # Before anything is taken: saved responses, and leases that end in the same transaction

    def begin_reads(self, tr: Transaction, batch: Iterable[TakeRequest]) -> dict[TakeRequest, Any]:
        """Begin to read the saved responses of requests, and the leases that they end.

        Of several requests with the same key, or the same lease, only for the first.

        Returns:
            The requests whose reads were begun, each with the read of its saved response.
        """
        names: set[bytes] = set()
        reads = {}
        for one in batch:
            if is_plain(one):
                continue
            own = set() if one.acknowledges is None else {*one.acknowledges.places}
            if one.call is not None:
                own.add(one.call.name)
            if own & names:
                continue
            names |= own
            reads[one] = None if one.call is None else self.responses.begin_recall(tr, one.call)
            if one.acknowledges is not None:
                one.acknowledges.begin_reads(tr)
        return reads

    def concluded(self, reads: dict[TakeRequest, Any]) -> dict[TakeRequest, list[Item] | Exception]:
        """Return the requests for which nothing is taken, each with its result.

        That is the saved response of a call that was made before, or the error where leases
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
        return [one for one in batch if (one in reads or is_plain(one)) and one not in concluded]

    # What becomes of rows

    def collect(
        self, tr: Transaction, batch: Sequence[TakeRequest], request: HelpRequest, handoff: Handoff
    ) -> RoundResult:
        """Deliver the items of a handoff to the requests of this process, and remove it.

        Items of a request whose thread has gone, or whose call was made meanwhile, go to the
        next request; the rest is requeued.
        """
        count_change = self.store.count_change()
        reads = self.begin_reads(tr, batch)
        remove_request(tr, self.store.tables, request.name)
        remove_pieces(tr, self.store.tables, request.name)
        concluded = self.concluded(reads)
        portions: list[Portion] = []
        start = 0
        for one in self.remaining(batch, reads, concluded):
            portions.append((one, handoff.rows[start : start + one.count]))
            start += one.count
        self.store.requeue_rows(tr, handoff.rows[start:])
        portions = [(one, rows) for one, rows in portions if rows or handoff.empty]
        results, _ = self.deliver(tr, count_change, portions, retried=handoff.retried)
        count_change.write(tr)
        return RoundResult([*concluded.items(), *results], wrote=True, is_helped=True)

    def deliver(
        self,
        tr: Transaction,
        count_change: CountChange,
        portions: Sequence[Portion],
        *,
        retried: bool,
    ) -> tuple[list[Result], bool]:
        """Apply the effect of each request to its rows, up to the first row that is corrupt.

        That row is requeued, with all rows of its request and of the requests behind it. A
        request without rows gets the error too, because the queue is not empty.

        Returns:
            The results, and whether a row was corrupt.
        """
        corrupt: CorruptItem | None = None
        results: list[Result] = []
        for request, rows in portions:
            result = self._outcome(tr, count_change, request, rows, corrupt, retried)
            if isinstance(result, CorruptItem):
                corrupt = result
            results.append((request, result))
        if corrupt is not None:
            results = [(request, result or copy.copy(corrupt)) for request, result in results]
        for request, outcome in results:
            if request.acknowledges is not None and not isinstance(outcome, Exception):
                request.acknowledges.apply(tr, count_change)
        return results, corrupt is not None

    def sound(self, tr: Transaction, rows: list[Row], *, retried: bool) -> list[Loaded]:
        """Return the items before the first that is corrupt; requeue the other rows."""
        loaded = self.store.reader.load(tr, rows, retried=retried)
        for index, one in enumerate(loaded):
            if isinstance(one.item, CorruptItem):
                self.store.requeue_rows(tr, rows[index:])
                return loaded[:index]
        return loaded

    def _outcome(
        self,
        tr: Transaction,
        count_change: CountChange,
        request: TakeRequest,
        rows: Sequence[Row],
        corrupt: CorruptItem | None,
        retried: bool,
    ) -> list[Item] | CorruptItem:
        if not rows:
            return []
        if corrupt is None:
            loaded = self.store.reader.load(tr, rows, retried=retried)
            errors = [one.item for one in loaded if isinstance(one.item, CorruptItem)]
            if not errors:
                items = request.effect(tr, count_change, loaded)
                if request.call is not None:
                    self.responses.save_items(tr, request.call, loaded, items)
                return items
            corrupt = errors[0]
        self.store.requeue_rows(tr, rows)
        return copy.copy(corrupt)


def is_plain(request: TakeRequest) -> bool:
    """Tell whether a request needs no reads of its own: no key, and no leases to end."""
    return request.call is None and request.acknowledges is None


def _by_age(
    tr: Transaction, requests: list[HelpRequest]
) -> tuple[list[HelpRequest], list[HelpRequest], list[HelpRequest]]:
    """Return the open requests, the oldest first, those handed over, and the expired ones."""
    if not requests:
        return [], [], []
    version = tr.get_read_version().wait()
    requests.sort(key=lambda request: (request.version, request.name))
    expired = [one for one in requests if one.is_expired(version)]
    live = [one for one in requests if not one.is_expired(version)]
    handed = [one for one in live if one.is_handed]
    return [one for one in live if not one.is_handed], handed, expired
