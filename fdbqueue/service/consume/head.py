"""The rows at one end of a queue, for one transaction to take.

They are read by snapshot reads, a window at a time. The transaction then depends on exactly the
keys that decide which rows are the first, so pushes behind them never conflict.
"""

from __future__ import annotations

import enum
import random
from collections import deque
from collections.abc import Iterable
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.consume.expiry import LEASE_KEYS_SENT, ROW_KEYS_SENT
from fdbqueue.service.limits import MAX_RETURNED_BYTES, MAX_SENT_BYTES, SENT_BY_CLEAR
from fdbqueue.service.storage.item_keys import LONGEST_RANDOM, ItemKeys
from fdbqueue.service.storage.reader import End, ItemReader, Row

#: The most items that a transaction takes for the threads of this process, and the most for other
#: processes; the first request of each may be larger.
ROUND_ITEMS = 1_000
#: A relaxed queue takes at random from at least this many items at the head.
RELAXED_ITEMS = 100

#: Popping an item clears up to three keys: its row and two of its age, its attempts (with its
#: failures) and its chunks.
_POP_KEYS_SENT = 3 * SENT_BY_CLEAR


class Order(enum.Enum):
    """What a transaction depends on, besides the rows that it takes.

    STRICT: the rows are the first when it commits; when it found too few, there are no more.
    AS_SEEN: at the min end, no item can have slipped in before the rows, but there may be more
        behind them. At the max end, only the rows themselves are checked; newer items may lie
        beyond them.
    RELAXED: nothing else; the rows are some of the first, at random.
    """

    STRICT = enum.auto()
    AS_SEEN = enum.auto()
    RELAXED = enum.auto()


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
        #: Whether the transaction has taken all that it should: 5,000,000 stored bytes.
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


class Head:
    """The rows at one end, in order, including those that the transaction requeues.

    Args:
        tr: The transaction.
        keys: The keys of the ready items.
        reader: Reads the ready items.
        end: Which end.
        limit: How many rows to read at first; more are read when they are needed.
        budget: What the transaction has taken already.
        order: What the transaction depends on.
    """

    def __init__(
        self,
        tr: Transaction,
        keys: ItemKeys,
        reader: ItemReader,
        end: End,
        limit: int,
        budget: TransactionBudget,
        order: Order = Order.STRICT,
    ) -> None:
        self._tr = tr
        self._keys = keys
        self._reader = reader
        self._end: End = end
        #: How many rows are taken side by side, in a relaxed queue.
        self._run = limit
        self._limit = max(RELAXED_ITEMS, 2 * limit) if order is Order.RELAXED else limit
        self._budget = budget
        self._order = order
        #: Whether the transaction depends on everything before the rows it takes.
        self._in_order = order is Order.STRICT or (order is Order.AS_SEEN and end == "min")
        self._begin, self._stop = keys.bounds()
        #: The range that was not read yet, and the read of its next rows that is under way.
        self._rest = self._begin, self._stop
        self._next_rows: Any = reader.rows(tr.snapshot, *self._rest, self._limit, end)
        self._window: deque[Row] = deque()
        self._returned: deque[Row] = deque()
        self._exhausted = False
        self._taken: list[bytes] = []
        self._ran_dry = False

    def add(self, rows: list[Row]) -> None:
        """Add rows that the transaction requeues, at their places."""
        self._returned.extend(sorted(rows, reverse=self._end == "max"))

    def close(self, key: bytes) -> None:
        """Have no rows to take, and depend on nothing but the key that says so."""
        self._window.clear()
        self._exhausted = True
        self._begin, self._stop = key, key + b"\x00"

    def preload(self) -> None:
        """Wait for the read that is under way."""
        if not self._window and not self._exhausted:
            self._read()

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
            row = self._next()
            if row is None:
                self._ran_dry = True
                break
            size = self._reader.size_of(row)
            if not self._budget.add(row, size, leased=leased, kept=kept, facts_bytes=facts_bytes):
                break
            self._taken.append(row.place)
            rows.append(row)
        return rows

    def depend(self) -> None:
        """Add the read conflicts that the order demands for the rows taken."""
        if self._ran_dry and self._order is not Order.AS_SEEN:
            self._tr.add_read_conflict_range(self._begin, self._stop)
        elif not self._in_order:
            for place in self._taken:
                self._tr.add_read_conflict_key(self._keys.key(place))
        elif self._taken:
            last = self._keys.key(self._taken[-1])
            if self._end == "min":
                self._tr.add_read_conflict_range(self._begin, last + b"\x00")
            else:
                self._tr.add_read_conflict_range(last, self._stop)

    def finish(self) -> None:
        """Clear the rows taken since the last call, after :meth:`depend`.

        It clears them as one range only when the transaction depends on that whole range,
        because another transaction may have pushed an item there.
        """
        self.depend()
        if not self._in_order:
            for place in self._taken:
                self._tr.clear(self._keys.key(place))
        elif len(self._taken) == 1:
            self._tr.clear(self._keys.key(self._taken[0]))
        elif self._taken:
            first, last = sorted(self._keys.key(self._taken[at]) for at in (0, -1))
            self._tr.clear_range(first, last + b"\x00")
        self._taken = []

    def _next(self) -> Row | None:
        while True:
            self.preload()
            source = self._nearest() if self._returned else self._window
            if not source:
                return None
            row = source.popleft()
            if row.place not in self._budget.places:
                return row

    def _nearest(self) -> deque[Row]:
        """Return the source of the next row: the rows in the database, or the requeued ones."""
        if not self._window:
            return self._returned
        in_order = self._window[0].place < self._returned[0].place
        return self._window if in_order is (self._end == "min") else self._returned

    def _read(self) -> None:
        rows, self._next_rows = self._next_rows, None
        if rows is None:
            rows = self._reader.rows(self._tr.snapshot, *self._rest, self._limit, self._end)
        count = 0
        key = b""
        size = 0
        for row in rows:
            key = row.key
            self._window.append(Row(self._keys.place_of(key), row.value))
            count += 1
            size += self._reader.size_of(self._window[-1])
            if size >= MAX_RETURNED_BYTES:
                break
        if self._order is Order.RELAXED:
            # Poppers that take runs conflict far less than poppers that pick rows.
            self._window.rotate(self._run * random.randrange(1 + len(self._window) // self._run))
        if count < self._limit and size < MAX_RETURNED_BYTES:
            self._exhausted = True
            return
        self._rest = (key + b"\x00", self._stop) if self._end == "min" else (self._begin, key)
