"""Examine a queue: count it item by item, find undecodable and overdue items, requeue them."""

from __future__ import annotations

import functools
import time
from collections import Counter
from dataclasses import dataclass, field

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume import expiry
from fdbqueue.service.items import Item, Priority, Undecodable
from fdbqueue.service.queues import Queue
from fdbqueue.service.storage.counts import Counts
from fdbqueue.service.storage.handoffs import all_handoffs, read_hold
from fdbqueue.service.storage.store import STATES
from fdbqueue.service.storage.tables import JobKeys, Kind
from fdbqueue.service.transactions import run

#: Overdue items are counted up to this number.
MAX_OVERDUE = 10_000
_KEPT_IDS = 1_000
_HOLDS_AT_ONCE = 1_000


@dataclass
class Census:
    """The number of items in a queue, counted one by one.

    Attributes:
        found: How many items are in each state.
        levels: How many ready items have each priority.
        undecodable: How many ready items cannot be decoded.
        ids: The ids of the first of those.
        is_whole: Whether all items were counted before the deadline.
        is_exact: Whether the queue did not change meanwhile.
    """

    found: Counter[str] = field(default_factory=Counter)
    levels: Counter[Priority | None] = field(default_factory=Counter)
    undecodable: int = 0
    ids: list[str] = field(default_factory=list)
    is_whole: bool = True
    is_exact: bool = False

    @property
    def counts(self) -> Counts:
        """The number of items in each state."""
        return Counts(*(self.found[state] for state in ("ready", *STATES)))

    def add(self, item: Item) -> None:
        """Count an item."""
        self.found[item.state] += 1
        if item.state != "ready":
            return
        self.levels[item.priority] += 1
        if isinstance(item.value, Undecodable):
            self.undecodable += 1
            if len(self.ids) < _KEPT_IDS:
                self.ids.append(item.id)


@dataclass(frozen=True)
class Overdue:
    """The number of things that have expired and wait for the next popper.

    Attributes:
        leases: Expired leases.
        delays: Expired delays.
        handoffs: Expired handoffs and batches, left by processes that died.
        requests: Expired help requests, left by processes that died.
    """

    leases: int
    delays: int
    handoffs: int
    requests: int

    @property
    def total(self) -> int:
        """The number of all of them."""
        return self.leases + self.delays + self.handoffs + self.requests


class Examiner:
    """Examine a queue, and clean up what dead processes left in it.

    Args:
        queue: The queue.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._database = queue.database
        self._runner = queue.parts.runner
        self._store = queue.parts.store
        self._tables = queue.parts.store.tables
        self._taker = queue.parts.taker

    def census(self, deadline: float) -> Census:
        """Count the items one by one, in as many transactions as that takes.

        Args:
            deadline: When to stop, by :func:`time.monotonic`.
        """
        before = self._runner.read(None, self._fingerprint)
        census = Census()
        for state in ("ready", *STATES):
            for item in self._queue.iterate(state=state):
                census.add(item)
                if time.monotonic() > deadline:
                    census.is_whole = False
                    return census
        self._runner.read(None, functools.partial(self._add_handed, census=census))
        census.is_exact = self._runner.read(None, self._fingerprint) == before
        return census

    def overdue(self) -> Overdue:
        """Count what is overdue, up to 10,000."""
        return self._runner.read(None, self._overdue)

    def requeue_expired(self) -> int:
        """Requeue what has expired, as the next popper would, at most 100 items a transaction.

        Returns:
            How many items, batches and keys were handled.
        """
        total = 0
        while done := run(self._database, self._requeue, wrote=bool):
            total += done
        return total

    def stale_holds(self, *, forget: bool = False) -> int:
        """Count the records of drains whose batch was requeued.

        Args:
            forget: Whether to remove these records.
        """
        begin, stop = JobKeys(self._tables).batches()
        total = 0
        while True:
            look = functools.partial(self._stale_holds, begin=begin, stop=stop, forget=forget)
            found, last = run(self._database, look, wrote=lambda page: forget and bool(page[0]))
            total += found
            if last is None:
                return total
            begin = last + b"\x00"

    def _fingerprint(self, tr: Transaction) -> tuple[bytes, bytes]:
        """Return the stored counts, which change with every item that enters, leaves or moves."""
        reads = tr.snapshot[self._tables.ready], tr.snapshot[self._tables.hidden]
        ready, hidden = (bytes(value) if value.present() else b"" for value in reads)
        return ready, hidden

    def _add_handed(self, tr: Transaction, census: Census) -> None:
        """Count the items in handoffs and batches as ready, as the counts do."""
        for _, handoff in all_handoffs(tr, self._tables):
            for row in handoff.rows:
                census.found["ready"] += 1
                position = self._store.position(row.place)
                census.levels[None if position is None else position.priority] += 1

    def _overdue(self, tr: Transaction) -> Overdue:
        now = now_us()
        begin, _ = self._tables.due_bounds()
        stop = self._tables.present(now)[1]
        kinds: Counter[Kind] = Counter()
        for row in tr.snapshot.get_range(begin, stop, limit=MAX_OVERDUE):
            entry = self._tables.parse_due(bytes(row.key))
            if entry is not None:
                kinds[entry.kind] += 1
        expired = self._taker.parse_state(tr, now, self._taker.begin_state(tr, now)).expired
        handed = sum(request.is_handed for request in expired)
        return Overdue(
            leases=kinds[Kind.LEASE],
            delays=kinds[Kind.DELAY],
            handoffs=kinds[Kind.BATCH] + handed,
            requests=len(expired) - handed,
        )

    def _requeue(self, tr: Transaction) -> int:
        """Requeue some of what has expired, and return how many items, batches and keys."""
        now = now_us()
        state = self._taker.parse_state(tr, now, self._taker.begin_state(tr, now))
        count_change = self._store.count_change()
        found = expiry.examine(self._store, tr, state.dues, state.expired)
        self._store.requeue_rows(
            tr, expiry.apply(self._store, tr, count_change, found, self._taker.max_attempts)
        )
        count_change.write(tr)
        return len(found.items) + len(found.batches) + len(found.stale)

    def _stale_holds(
        self, tr: Transaction, *, begin: bytes, stop: bytes, forget: bool
    ) -> tuple[int, bytes | None]:
        """Count stale records on one page, and return the last key read; None at the end."""
        rows = list(tr.snapshot.get_range(begin, stop, limit=_HOLDS_AT_ONCE))
        holds = [read_hold(b"", bytes(row.value)) for row in rows]
        reads = [None if hold is None else tr[self._tables.handoff(hold.name, 0)] for hold in holds]
        stale = [
            row.key
            for row, batch in zip(rows, reads, strict=True)
            if batch is None or not batch.present()
        ]
        for key in stale if forget else []:
            tr.add_read_conflict_key(key)
            tr.clear(key)
        return len(stale), bytes(rows[-1].key) if len(rows) == _HOLDS_AT_ONCE else None
