"""What a transaction reads of a queue to take items: its state, and the rows at one end.

The *state* is one read of a range: counts, a pause, the format, help requests, what has expired.
The *rows* are read by a snapshot; the transaction depends on the keys that decide which are the
first (:class:`Order`). So a push after them conflicts only with a take that found too few.

With shards a transaction draws some heads, takes their best rows, and depends on those alone. If
these are too few, it reads all shards. An item is taken out of turn, but not far (decision 0025).
After a conflict it leaves the first runs of each shard to others: a *slot* (:mod:`contention`).
"""

from __future__ import annotations

import enum
import random
from collections import deque
from collections.abc import Container, Iterable
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.consume import expiry
from fdbqueue.service.consume.expiry import LEASE_KEYS_SENT, ROW_KEYS_SENT
from fdbqueue.service.sizes import CHUNK_BYTES, MAX_RETURNED_BYTES, MAX_SENT_BYTES, SENT_BY_CLEAR
from fdbqueue.service.storage.counts import ready_and_taken
from fdbqueue.service.storage.handoffs import HelpRequest, read_request
from fdbqueue.service.storage.item_keys import EVERY_PLACE, LONGEST_RANDOM, End, Row
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import Due

#: One range read returns the counts, the help requests and what has expired; requests beyond
#: these wait for the next popper.
_ROOM_FOR_REQUESTS = 200
_STATE_ROWS = 4 + _ROOM_FOR_REQUESTS + expiry.MAX_EXPIRED
#: The most items that a transaction takes for the threads of this process; the first request may be
#: larger.
ROUND_ITEMS = 1_000
#: In a queue with shards, one window has about so many rows of each at most, if it has all shards
#: or fewer: so many rows are not far out of order either.
_FROM_EACH = 8

#: Popping an item clears up to three keys: its row and two of its age, its attempts (with its
#: failures) and its chunks.
_POP_KEYS_SENT = 3 * SENT_BY_CLEAR


class Order(enum.Enum):
    """What a transaction depends on, besides the rows that it takes.

    STRICT: the rows are the first when it commits; when it found too few, there are no more.
    AS_SEEN: at the min end, no item can have slipped in before the rows, but there may be more
        behind them. At the max end, and in a queue with shards, only the rows themselves are
        checked; newer items may lie beyond them.
    """

    STRICT = enum.auto()
    AS_SEEN = enum.auto()


class TransactionBudget:
    """The items that a transaction has taken so far, and how many more fit.

    Args:
        key_bytes: The approximate length of an item's key.
    """

    def __init__(self, key_bytes: int) -> None:
        self.places: set[bytes] = set()
        self._key_bytes = key_bytes
        self._size = 0
        self._written = 0
        #: Whether the transaction has taken all that it should: 5,000,000 stored bytes, or what it
        #: requeues leaves no room. Then nobody is told that the queue is empty.
        self.is_full = False

    def add(
        self, row: Row, size_bytes: int, *, leased: bool, kept: bool, facts_bytes: int = 0
    ) -> bool:
        """Take a row if it fits, and tell whether it does.

        Args:
            row: The row.
            size_bytes: The length of its value, all chunks of it.
            leased: Whether it is written to the table of leases.
            kept: Whether the transaction writes a copy of its value.
            facts_bytes: How many bytes it writes with the facts of the lease.
        """
        keys = (LEASE_KEYS_SENT if leased else _POP_KEYS_SENT) * self._key_bytes
        if len(row.place) > LONGEST_RANDOM:  # it may have a unique key, which is freed, too
            keys *= 2
        written = keys + len(row.value) + size_bytes * kept + facts_bytes
        if self.places and self._written + written > MAX_SENT_BYTES:
            self.is_full = True
            return False
        self.places.add(row.place)
        self._size += size_bytes
        self._written += written
        self.is_full = self._size >= MAX_RETURNED_BYTES
        return True

    def reserve_ends(self, size_bytes: int) -> bool:
        """Count what ends leases, if that fits; tell whether it does."""
        if self._written + size_bytes > MAX_SENT_BYTES:
            return False
        self._written += size_bytes
        return True

    def reserve(self, rows: Iterable[Row]) -> None:
        """Count rows that the transaction requeues, because it writes them, too."""
        for row in rows:
            self._size += len(row.value)
            self._written += len(row.value) + ROW_KEYS_SENT * self._key_bytes
        self.is_full = self.is_full or self._written > MAX_SENT_BYTES


class Head:
    """The rows at one end, in order, including rows that the transaction requeues.

    Args:
        tr: The transaction.
        store: The queue's items.
        end: Which end.
        limit: How many rows to read at first; more are read when they are needed.
        budget: What the transaction has taken already.
        order: What the transaction depends on.
        choices: How many shards to choose from; 0 for the first rows of all.
        slot: How many runs of rows of each shard to leave to others.
    """

    def __init__(
        self,
        tr: Transaction,
        store: ItemStore,
        end: End,
        limit: int,
        budget: TransactionBudget,
        order: Order = Order.STRICT,
        choices: int = 0,
        slot: int = 0,
    ) -> None:
        self._tr = tr
        self._store = store
        self._keys = keys = store.keys
        self._end: End = end
        self._limit = limit
        self._budget = budget
        self._order = order
        #: Whether the transaction depends on everything before the rows it takes.
        self._in_order = not choices and (order is Order.STRICT or end == "min")
        #: What it depends on if there are no more rows.
        self._bounds = keys.bounds
        #: The places that were not read yet, and the read of the next rows that is under way.
        self._rest = EVERY_PLACE
        #: Whether the next rows are of some shards, not of all that was not read yet.
        self._is_choice = choices > 0
        self._next_rows: Any
        if choices:
            choices = min(keys.shards, max(choices, -(-limit // _FROM_EACH)))
            shards = random.sample(range(keys.shards), choices)
            self._next_rows = keys.begin_heads(tr.snapshot, shards, limit, end, slot)
        else:
            self._next_rows = keys.begin_ready(tr.snapshot, *self._rest, limit, end)
        self._window: deque[Row] = deque()
        self._added: list[Row] = []
        self._returned: deque[Row] = deque()
        #: Whether there are no rows that were not read.
        self.is_exhausted = False
        self._taken: list[bytes] = []
        self._ran_dry = False

    def add(self, rows: list[Row]) -> None:
        """Add rows that the transaction requeues, at their places."""
        self._budget.reserve(rows)
        self._added += rows
        self._returned.extend(sorted(rows, reverse=self._end == "max"))

    def left(self) -> list[Row]:
        """Return the rows that were added and not taken."""
        return [row for row in self._added if row.place not in self._budget.places]

    @property
    def has_rows(self) -> bool:
        """Whether there are rows that were read and not taken."""
        return bool(self._window or self._returned)

    def close(self, key: bytes) -> None:
        """Have no rows to take, and depend on nothing but the key that says so."""
        self._window.clear()
        self.is_exhausted = True
        self._bounds = key, key + b"\x00"

    def preload(self) -> int:
        """Wait for the read that is under way; return how many rows it has."""
        while not self._window and not self.is_exhausted:
            self._read()
        return len(self._window)

    def take(
        self, count: int, *, leased: bool = False, kept: bool = False, facts_bytes: int = 0
    ) -> list[Row]:
        """Return the next rows; fewer when there are no more, or the transaction is full.

        Args:
            count: How many.
            leased: Whether they will be leased.
            kept: Whether the transaction writes a copy of their values.
            facts_bytes: How many bytes it writes with the facts of each lease.
        """
        rows: list[Row] = []
        while len(rows) < count and not self._budget.is_full:
            if not self._window:
                self.preload()
            source = self._nearest() if self._returned else self._window
            if not source:
                self._ran_dry = True
                break
            row = source.popleft()
            if row.place in self._budget.places:
                continue
            size = len(row.value)
            if size >= CHUNK_BYTES:
                size = self._store.size_of(row)
            if not self._budget.add(row, size, leased=leased, kept=kept, facts_bytes=facts_bytes):
                break
            self._taken.append(row.place)
            rows.append(row)
        return rows

    def depend(self) -> None:
        """Add the read conflicts that the order demands for the rows taken."""
        if self._ran_dry and self._order is not Order.AS_SEEN:
            self._tr.add_read_conflict_range(*self._bounds)
        elif not self._in_order:
            for place in self._taken:
                self._tr.add_read_conflict_key(self._keys.key(place))
        elif self._taken:
            last, (first, stop) = self._taken[-1], EVERY_PLACE
            before = (first, last + b"\x00") if self._end == "min" else (last, stop)
            for begin, end in self._keys.ranges(*before):
                self._tr.add_read_conflict_range(begin, end)

    def finish(self) -> None:
        """Clear the rows taken since the last call, after :meth:`depend`.

        It clears them as one range only if the transaction depends on that whole range, because
        another transaction may have pushed an item there.
        """
        self.depend()
        if not self._in_order or self._keys.shards:
            for place in self._taken:
                self._tr.clear(self._keys.key(place))
        elif len(self._taken) == 1:
            self._tr.clear(self._keys.key(self._taken[0]))
        elif self._taken:
            first, last = sorted(self._keys.key(self._taken[at]) for at in (0, -1))
            self._tr.clear_range(first, last + b"\x00")
        self._taken = []

    def _nearest(self) -> deque[Row]:
        """Return the source of the next row: the rows in the database, or the requeued ones."""
        if not self._window:
            return self._returned
        in_order = self._window[0].place < self._returned[0].place
        return self._window if in_order is (self._end == "min") else self._returned

    def _read(self) -> None:
        rows, self._next_rows = self._next_rows, None
        is_choice, self._is_choice = self._is_choice, False
        if rows is None:
            rest = self._rest
            rows = self._keys.begin_ready(self._tr.snapshot, *rest, self._limit, self._end)
        count = 0
        place = b""
        size = 0
        for row in rows:
            place = self._keys.place_of(row.key)
            found = Row(place, row.value)
            self._window.append(found)
            count += 1
            length = len(found.value)
            size += length if length < CHUNK_BYTES else self._store.size_of(found)
            if size >= MAX_RETURNED_BYTES:
                break
        if is_choice:
            return
        if count < self._limit and size < MAX_RETURNED_BYTES:
            self.is_exhausted = True
            return
        begin, stop = self._rest
        self._rest = (place + b"\x00", stop) if self._end == "min" else (begin, place)


class QueueState(NamedTuple):
    """The state of a queue, as a transaction sees it.

    Attributes:
        taken: How many items were ever taken off the ready ones: it tells whether others pop.
        retried: Whether attempts may be in rows of their own.
        is_paused: Whether nothing is to be taken or requeued.
        requests: The open help requests, the oldest first.
        expired: The help requests that have expired, handed over or not.
        dues: The leases, delays and handoffs that have expired.
        more_due: Whether there may be more of these.
    """

    taken: int
    retried: bool
    is_paused: bool
    requests: list[HelpRequest]
    expired: list[HelpRequest]
    dues: list[Due]
    more_due: bool

    def has_open(self, own: HelpRequest) -> bool:
        """Tell whether this process's help request is still to be served."""
        expired = [one for one in self.expired if not one.is_handed]
        return any(one.name == own.name for one in (*self.requests, *expired))

    def without_leases(self, ending: Container[bytes]) -> QueueState:
        """Return the state without the leases that end here: they do not expire as well."""
        return self._replace(dues=[due for due in self.dues if due.rest not in ending])


def begin_state(store: ItemStore, tr: Transaction, now: int) -> Any:
    """Begin to read the state of the queue."""
    begin, stop = store.tables.present(now)
    return tr.snapshot.get_range(begin, stop, limit=_STATE_ROWS)


def parse_state(
    store: ItemStore, tr: Transaction, now: int, rows: Any, *, at_random: bool
) -> QueueState:
    """Return what the rows of the state say.

    Args:
        store: The queue's items.
        tr: The transaction.
        now: The present, in microseconds.
        rows: What :func:`begin_state` returned.
        at_random: Whether to choose what expires at random, because several poppers commit at once.

    Raises:
        FormatMismatch: The queue was written under other settings.
    """
    tables, known = store.tables, store.format.known_key
    taken, retried, paused = 0, False, False
    requests: list[HelpRequest] = []
    others: list[bytes] = []
    count = 0
    for row in rows:
        count += 1
        if row.key == tables.ready_taken_wakes:
            taken = ready_and_taken(row.value)[1]
        elif row.key == known:
            pass
        elif row.key == tables.retried:
            retried = True
        elif row.key == tables.paused:
            paused = True
        elif tables.is_request(row.key):
            request = read_request(tables, row.key, row.value)
            if request is not None:
                requests.append(request)
        elif row.key.startswith(tables.format):
            store.format.check_key(tr, row.key)
        else:
            others.append(row.key)
    dues = [*filter(None, map(tables.parse_due, others))]
    is_cut = count == _STATE_ROWS
    if is_cut and not dues:  # the help requests left no room for it
        dues = expiry.all_due(store, tr, now, expiry.MAX_EXPIRED)
    chosen = expiry.chosen(dues, at_random=at_random) if dues else dues
    more_due = is_cut or len(dues) > len(chosen)
    is_open, expired = _by_age(now, requests) if requests else ([], [])
    return QueueState(taken, retried, paused, is_open, expired, chosen, more_due)


def _by_age(now: int, requests: list[HelpRequest]) -> tuple[list[HelpRequest], list[HelpRequest]]:
    """Return the open requests, the oldest first, and the expired ones."""
    requests.sort(key=lambda request: (request.version, request.name))
    is_open = [one for one in requests if one.until > now and not one.is_handed]
    return is_open, [one for one in requests if one.until <= now]
