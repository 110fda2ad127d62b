"""Limits of a queue: how many items are leased at a time, or taken in a time.

What decides is stored in the queue, read by the transaction that takes, and verified by its commit.

- ``max_leased``: who leases, or collects leases from a handoff, reads the count by a snapshot read,
  and adds a read and a write conflict on one key, ``LEASING``: of two, one sees what the other has
  leased, or runs again. The end of a lease never conflicts: at worst the count is too high.
- ``rate``: a row has the tokens, one for each item, and when they were counted; without it the
  bucket is full. A take depends on the row, and writes it; without a whole token it leaves it. A
  wrong clock gains a burst at most, and keeps others back for a minute at most.
- *Stored limits*, a row that the pusher writes, stand in place of the setting, and every take
  depends on it. If it cannot be read, one item is leased at a time.

Processes with different limits go as far as the highest.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import MAX_AHEAD_US
from fdbqueue.service.options import ALLOWED, QueueOptions, Rate, parse_rate
from fdbqueue.service.storage.counts import leased_in
from fdbqueue.service.storage.family_index import (
    BY_LEASES,
    BY_RATE,
    STORED,
    Hold,
    Levels,
    Prospect,
)
from fdbqueue.service.storage.tables import Due, Kind, TableKeys

#: The parts of a token that are counted.
_TOKEN = 1_000_000
#: The tokens left, and the moment at which they were counted.
_ROW = struct.Struct(">QQ")
#: When to look again if the count says that items are leased, and none is: it is wrong.
_SOON_US = 5_000_000


class TakeLimits(NamedTuple):
    """The limits of a queue.

    Attributes:
        max_leased: At most this many items are leased; None for no limit.
        rate: How many items are taken in a time; None for no limit.
        burst: With a rate, how many may be taken at once.
        stored_at: The key of a row that has these limits in place of the setting; None for none.
    """

    max_leased: int | None
    rate: Rate | None
    burst: int
    stored_at: bytes | None = None

    @classmethod
    def of(cls, options: QueueOptions) -> TakeLimits | None:
        """Return the limits among a queue's options, None if it has none."""
        rate = parse_rate(options.rate)
        if options.max_leased is None and rate is None:
            return None
        return cls(options.max_leased, rate, options.burst or 0)

    @property
    def levels(self) -> Levels:
        """How far they go, for the index of a family."""
        if self.stored_at is not None:
            return STORED
        return Levels.of(self.max_leased, self.rate)

    @property
    def most(self) -> float:
        """The most items that one transaction can take."""
        return float("inf") if self.rate is None else self.burst

    @classmethod
    def at(cls, key: bytes) -> TakeLimits:
        """Return the limits that a row has; what they are is read with each take."""
        return cls(1, None, 0, key)

    def begin(
        self, tr: Transaction, tables: TableKeys, now: int, *, is_paid: bool = False
    ) -> Allowance:
        """Begin to read what a transaction may still take of a queue.

        Args:
            tr: The transaction.
            tables: The keys of the queue's tables.
            now: The moment, in microseconds.
            is_paid: Whether the tokens of what it takes have been spent already.
        """
        return Allowance(self, tr, tables, now, is_paid=is_paid)


@functools.lru_cache(maxsize=1_000)
def unpacked_limits(row: bytes, key: bytes) -> TakeLimits:
    """Return the limits that a row has; one item at a time if it has none that are valid."""
    try:
        found = json.loads(row)
        given = {name: found.get(name) for name in ("max_leased", "rate", "burst")}
    except (AttributeError, ValueError):
        return TakeLimits.at(key)
    if any(value not in ALLOWED[name] for name, value in given.items()):
        return TakeLimits.at(key)
    rate = parse_rate(given["rate"])
    burst = 0 if rate is None else given["burst"] or rate.burst
    return TakeLimits(given["max_leased"], rate, burst, key)


class Allowance:
    """What one transaction may still take of a queue that has limits.

    Its reads begin when it is made; :meth:`settle` waits for them, before anything else is called.

    Args:
        limits: The queue's limits.
        tr: The transaction; by itself it depends on nothing.
        tables: The keys of the queue's tables.
        now: The moment, in microseconds.
        is_paid: Whether the tokens of what it takes have been spent already.
    """

    def __init__(
        self,
        limits: TakeLimits,
        tr: Transaction,
        tables: TableKeys,
        now: int,
        *,
        is_paid: bool = False,
    ) -> None:
        self._limits = limits
        self._is_paid = is_paid
        self._tr = tr
        self._tables = tables
        self._now = now
        snapshot = tr.snapshot
        row_at = limits.stored_at
        self._row = None if row_at is None else snapshot[row_at]
        self._hidden = None if limits.max_leased is None else snapshot[tables.hidden]
        has_rate = limits.rate is not None or row_at is not None
        self._stored = snapshot[tables.tokens] if has_rate and not is_paid else None
        self._tokens = self._counted_at = 0  # as they are stored from now on, but for what is taken
        self._left = self._room = float("inf")
        self._leases = False
        #: The tokens and the moment as they are stored: unlike those above, which are rounded,
        #: they say the same moment of the next token whenever it is worked out.
        self._row_says: tuple[int, int] = (_TOKEN, 0)
        #: Whether there is no token in the row, which a wrong clock has written.
        self._counts_again = False

    def settle(self, leased: int = 0) -> Allowance:
        """Wait for what was read.

        Args:
            leased: How many more leases there are by what the transaction has not written yet;
                below zero for those that have ended.
        """
        if self._limits.stored_at is not None:
            self._tr.add_read_conflict_key(self._limits.stored_at)
            self._limits = unpacked_limits(_bytes(self._row), self._limits.stored_at)
        if self._is_paid:
            self._limits = self._limits._replace(rate=None)
        if self._limits.max_leased is not None:
            self._room = self._limits.max_leased - leased - leased_in(_bytes(self._hidden))
        rate, full = self._limits.rate, self._limits.burst * _TOKEN
        if rate is not None:
            row = _bytes(self._stored)
            self._tokens, self._counted_at = _counted(row, full, rate, self._now)
            self._left = self._tokens // _TOKEN
            self._counts_again = self._left < 1 and _is_wrong(row, self._now)
            if len(row) == _ROW.size and not self._counts_again:
                self._row_says = _ROW.unpack(row)
        return self

    def grant(self, count: int, *, leases: bool, ends: int = 0, early: bool = True) -> int:
        """Return how many of the items that a request wants may be taken.

        Args:
            count: How many it wants.
            leases: Whether they will be leased.
            ends: How many leases end with the request, whatever is taken for it.
            early: Whether it was made before the transaction read. The room of one that was not is
                not known: its thread may have ended a lease since, which was counted here.
        """
        if leases and not early and self._limits.max_leased is not None:
            return 0
        self._room += ends
        allowed = min(count, self._left, self._room) if leases else min(count, self._left)
        return max(0, int(allowed))

    def note(self, count: int, *, leases: bool) -> None:
        """Note how many items are taken for a request, before the next is asked about."""
        self._left -= count
        if leases:
            self._room -= count
            self._leases = self._leases or count > 0

    @property
    def is_full(self) -> bool:
        """Whether a queue without a row of tokens may give as many as this one."""
        return self._limits.rate is None or self._tokens >= self._limits.burst * _TOKEN

    def is_spent(self, *, leases: bool) -> bool:
        """Tell whether nothing more may be taken, or leased."""
        return self._left < 1 or (leases and self._room < 1)

    def write(self, took: int) -> bool:
        """Spend the tokens of the items that were taken, and depend on what decided it.

        Returns:
            Whether it wrote the row of tokens.
        """
        if self._leases and self._limits.max_leased is not None:
            self._tr.add_read_conflict_key(self._tables.leasing)
            self._tr.add_write_conflict_key(self._tables.leasing)
        if self._limits.rate is None or not (took or self._counts_again):
            return False
        self._tr.add_read_conflict_key(self._tables.tokens)
        left = max(0, self._tokens - took * _TOKEN)
        self._tr[self._tables.tokens] = _ROW.pack(left, self._counted_at)
        self._counts_again = False
        return True

    def give_back(self, count: int) -> None:
        """Give back the tokens of items that were leased, and are requeued before anything began.

        So does a worker with those of tasks that had expired: what is in a value is the tasks' own,
        so it is not known here before they are leased.

        The transaction depends on the row as one that takes does.
        """
        if self._limits.rate is not None:
            full = self._limits.burst * _TOKEN
            self._tr.add_read_conflict_key(self._tables.tokens)
            left = min(full, self._tokens + count * _TOKEN)
            self._tr[self._tables.tokens] = _ROW.pack(left, self._counted_at)

    # When it may be more

    def holds(self, dues: Sequence[Due], *, to_lease: bool) -> list[Prospect]:
        """Return from when on each limit may give again that keeps back all that is ready.

        The rate first; ``max_leased`` keeps back from those who lease alone. For the index of a
        family the first is enough: the other is met after it. The rate keeps nothing back before a
        take has written from when on its tokens count.

        Args:
            dues: What expires next by the clock: as many as may be looked at for the end of a
                lease. One may end before it expires.
            to_lease: Whether it is to be leased.
        """
        found = []
        (most, per_day), rate = self._limits.levels, self._limits.rate
        if rate is not None and per_day is not None and self._left < 1 and not self._counts_again:
            moment, pause = self._next_token(rate), rate.period_us // rate.items
            found.append(Prospect(moment, moment - pause, Hold(BY_RATE, per_day)))
        if to_lease and most is not None and self._room < 1:
            hold = Hold(BY_LEASES, most)
            ends = [due.moment for due in dues if due.kind is Kind.LEASE]
            if ends or dues:  # if none is among so many, it is after these
                found.append(Prospect(ends[0] if ends else dues[-1].moment, None, hold))
            else:  # the count is wrong
                found.append(Prospect(self._now + _SOON_US, self._now, hold))
        return found

    def _next_token(self, rate: Rate) -> int:
        """Return when there is a token."""
        tokens, counted_at = self._row_says
        if tokens >= _TOKEN:  # there was one, which is taken here
            tokens, counted_at = self._tokens % _TOKEN, self._counted_at
        missing = (_TOKEN - tokens) * rate.period_us
        return counted_at - -missing // (rate.items * _TOKEN)


def _counted(row: bytes, full: int, rate: Rate, now: int) -> tuple[int, int]:
    """Return the tokens at a moment, in millionths, and the moment that is stored with them.

    A clock that is behind the row's moment adds nothing. One that is ahead gains a burst at most;
    then others get nothing new until theirs come to that moment. If that is more than a minute
    away, the clock was wrong, and the tokens count from now on: a take that finds none writes the
    row with its own moment, so that the next one need not begin again.
    """
    if len(row) != _ROW.size:
        return full, now
    tokens, counted_at = _ROW.unpack(row)
    if _is_wrong(row, now):
        counted_at = now
    elif counted_at < now:
        tokens += (now - counted_at) * rate.items * _TOKEN // rate.period_us
        counted_at = now
    return min(tokens, full), counted_at


def _is_wrong(row: bytes, now: int) -> bool:
    """Tell whether the clock that wrote the row is more than a minute ahead."""
    return len(row) == _ROW.size and _ROW.unpack(row)[1] > now + MAX_AHEAD_US


def _bytes(value: Any) -> bytes:
    return bytes(value) if value.present() else b""
