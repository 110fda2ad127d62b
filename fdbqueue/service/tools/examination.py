"""Examine queues, and clean up what clients that died have left.

Of one queue: count it item by item, find undecodable and overdue items, and requeue what has
expired. Of a database: remove the receipts of clients that no longer
write.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service.bulk.recount import write_row
from fdbqueue.service.bulk.remove import remove_idle
from fdbqueue.service.bulk.reshape import count_strays
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.head import QueueState, begin_state, parse_state
from fdbqueue.service.consume.prospect import Look
from fdbqueue.service.items import Item, Priority, Undecodable
from fdbqueue.service.queues import Queue
from fdbqueue.service.storage.counts import Counts
from fdbqueue.service.storage.item_keys import bounds
from fdbqueue.service.storage.store import STATES
from fdbqueue.service.storage.tables import Kind
from fdbqueue.service.storage.whereabouts import handed_over
from fdbqueue.service.transactions import (
    MIN_SWEPT_SECONDS,
    VERSIONS_PER_SECOND,
    receipt_version,
    receipts_of,
    run,
)
from fdbqueue.steady import monotonic

#: Overdue items are counted up to this number.
MAX_OVERDUE = 10_000
#: And items in other shards up to this.
MAX_STRAYS = 100
_KEPT_IDS = 1_000
_SWEPT_AT_ONCE = 1_000
#: Receipts are given up once they are so old.
STALE_SECONDS = 86_400


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
        handoffs: Expired handoffs, left by processes that died.
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
            deadline: When to stop, by the monotonic clock.
        """
        before = self._runner.read(None, self._fingerprint)
        census = Census()
        for state in ("ready", *STATES):
            for item in self._queue.iterate(state=state):
                census.add(item)
                if monotonic() > deadline:
                    census.is_whole = False
                    return census
        self._runner.read(None, functools.partial(self._add_handed, census=census))
        census.is_exact = self._runner.read(None, self._fingerprint) == before
        return census

    def format_here(self) -> str:
        """Return the settings that this process has for the queue, in words."""
        return str(self._store.format)

    def stored_format(self) -> str | None:
        """Return the settings that the queue is written under, in words; None if it has none yet.

        Raises:
            FormatMismatch: They are not those of this process.
        """
        return self._runner.read(None, self._store.format.stored)

    def strays(self) -> int:
        """Count ready items that lie where the settings here do not look, up to 100 or so."""
        count = functools.partial(count_strays, store=self._store, most=MAX_STRAYS)
        return self._runner.read(None, count)

    def overdue(self) -> Overdue:
        """Count what is overdue, up to 10,000."""
        return self._runner.read(None, self._overdue)

    def requeue_expired(self) -> int:
        """Requeue what has expired, as the next popper would, at most 100 items a transaction.

        Returns:
            How many items, handoffs and keys were handled.
        """
        total = 0
        while done := run(self._database, self._requeue, wrote=bool):
            total += done
        return total

    def remove_idle(self, seconds: float) -> bool:
        """Remove all that an empty queue stores, if it was idle so long; tell whether it was."""
        remove = functools.partial(remove_idle, taker=self._taker, seconds=seconds)
        return run(self._database, remove, wrote=bool)

    def is_indexed(self) -> bool | None:
        """Tell whether takes from the queue's family find it; None if it is in no family."""
        member = self._tables.member
        if member is None:
            return None

        def look(tr: Transaction) -> bool:
            found, now = Look(tr, self._taker, of_index=True).settle(), now_us()
            return all(
                member.is_noted(
                    tr.snapshot, found.prospect(to_lease=to_lease), now, to_lease=to_lease
                )
                for to_lease in (False, True)
            )

        return run(self._database, look, read_only=True)

    def write_index(self) -> None:
        """Let takes from the queue's family find it."""
        write_row(self._database, self._taker)

    def _fingerprint(self, tr: Transaction) -> tuple[bytes, bytes]:
        """Return the stored counts, which change with every item that enters, leaves or moves."""
        reads = tr.snapshot[self._tables.ready_taken_wakes], tr.snapshot[self._tables.hidden]
        ready, hidden = (bytes(value) if value.present() else b"" for value in reads)
        return ready, hidden

    def _add_handed(self, tr: Transaction, census: Census) -> None:
        """Count the items in handoffs as ready, as the counts do."""
        for row in handed_over(tr, self._store):
            census.found["ready"] += 1
            position = self._store.position(row.place)
            census.levels[None if position is None else position.priority] += 1

    def _overdue(self, tr: Transaction) -> Overdue:
        now = now_us()
        begin, _ = self._tables.dues
        stop = self._tables.present(now)[1]
        kinds: Counter[Kind] = Counter()
        held: set[bytes] = set()
        for row in tr.snapshot.get_range(begin, stop, limit=MAX_OVERDUE):
            entry = self._tables.parse_due(bytes(row.key))
            if entry is not None:
                kinds[entry.kind] += 1
                held.add(entry.rest)
        expired = [one for one in self._state(tr, now).expired if one.name not in held]
        return Overdue(
            leases=kinds[Kind.LEASE],
            delays=kinds[Kind.DELAY],
            handoffs=kinds[Kind.HANDOFF],
            requests=len(expired),
        )

    def _state(self, tr: Transaction, now: int) -> QueueState:
        """Return the state of the queue, as a pop would read it."""
        rows = begin_state(self._store, tr, now)
        return parse_state(self._store, tr, now, rows, at_random=self._taker.choices > 0)

    def _requeue(self, tr: Transaction) -> int:
        """Requeue some of what has expired, and return how many items, handoffs and keys."""
        state = self._state(tr, now_us())
        count_change = self._store.count_change(tr)
        self._store.format.depend(tr)
        found = expiry.examine(self._store, tr, state.dues, state.expired)
        rows = expiry.take_out_expired(self._store, count_change, found, self._taker.max_attempts)
        self._store.requeue_rows(count_change, rows)
        count_change.write()
        return len(found.items) + len(found.handoffs) + len(found.stale)


def sweep(database: Database, *, older_than_seconds: float = STALE_SECONDS) -> int:
    """Remove the receipts of clients that have not written for a time.

    Runs in bounded transactions. An idle client loses nothing: its next operation writes a new
    receipt. A call that was cut off from the database for 600 seconds, right after a commit
    with an unknown outcome, and then finds no receipt, raises ``OutcomeUnknown``.

    Args:
        database: Anything with ``create_transaction()``.
        older_than_seconds: Remove the receipts whose last operation is older than this, by
            the database's versions; at least 600.

    Returns:
        How many were removed.

    Raises:
        InvalidInput: The time is too short.
    """
    return _visit_old_receipts(database, older_than_seconds, _clear)


def count_stale(database: Database, *, older_than_seconds: float = STALE_SECONDS) -> int:
    """Return how many receipts :func:`sweep` would remove."""
    return _visit_old_receipts(database, older_than_seconds, lambda *_: None)


def _visit_old_receipts(
    database: Database, older_than_seconds: float, visit: Callable[[Transaction, list[bytes]], None]
) -> int:
    """Visit the keys of old receipts, some in each transaction; return how many."""
    if not MIN_SWEPT_SECONDS <= older_than_seconds < math.inf:
        raise InvalidInput(older_than_seconds=older_than_seconds, least=MIN_SWEPT_SECONDS)
    begin, end = bounds(receipts_of(database))
    age = int(older_than_seconds * VERSIONS_PER_SECOND)

    def visit_some(tr: Transaction, begin: bytes) -> tuple[int, bytes | None]:
        newest = tr.get_read_version().wait() - age
        rows = list(tr.snapshot.get_range(begin, end, limit=_SWEPT_AT_ONCE))
        stale = [row.key for row in rows if receipt_version(bytes(row.value)) < newest]
        visit(tr, stale)
        more = len(rows) == _SWEPT_AT_ONCE
        return len(stale), rows[-1].key + b"\x00" if more else None

    total = 0
    following: bytes | None = begin
    while following is not None:
        count, following = run(database, functools.partial(visit_some, begin=following))
        total += count
    return total


def _clear(tr: Transaction, keys: list[bytes]) -> None:
    for key in keys:
        tr.add_read_conflict_key(key)
        tr.clear(key)
