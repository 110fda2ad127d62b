"""When a queue has something to take: now, from a moment on, or never; and what says so sooner.

One look answers waiters, takes from lists, ``recount`` and ``queue_doctor``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume.allowance import Allowance
from fdbqueue.service.consume.head import begin_state, parse_state
from fdbqueue.service.consume.round import Taker
from fdbqueue.service.storage.family_index import BY_LEASES, NEVER, NOW, Prospect
from fdbqueue.service.storage.tables import Due

#: How many of the next moments are looked at for the end of a lease; delays end among them.
_NEXT_MOMENTS = 100
#: How many queues' reads are under way at the same time.
READ_AT_ONCE = 25


class Look:
    """What one transaction reads of a queue to say when it has something to take.

    The reads begin when it is made, all at once; :meth:`settle` waits for them, before anything
    else is called. They are bounded, and the transaction depends on none of them, but for the row
    of stored limits.

    Args:
        tr: The transaction.
        taker: Takes the queue's items.
        of_index: Whether to say what the rows in the index of its family are to say: there a pause
            of the family is passed over.
    """

    def __init__(self, tr: Transaction, taker: Taker, *, of_index: bool = False) -> None:
        store, tables = taker.store, taker.store.tables
        self._store = store
        self._tr = tr
        self._now = now_us()
        self._member = None if of_index else tables.member
        # without what expires by the clock: dues has the first of it, whenever that is
        self._rows = begin_state(store, tr, 0)
        self._pause: Any = None if self._member is None else tr.snapshot[self._member.paused]
        self._head = tr.snapshot.get_range(*store.keys.bounds, limit=1)
        self._read_dues = begin_dues(tr, taker)
        limits = taker.limits
        self._allowance = None if limits is None else limits.begin(tr, tables, self._now)
        self._paused_by: bytes | None = None
        self._dues: list[Due] = []
        self._is_ready = False

    def settle(self) -> Look:
        """Wait for what was read.

        Raises:
            FormatMismatch: The queue was written under other settings.
        """
        state = parse_state(self._store, self._tr, 0, self._rows, at_random=False)
        if state.is_paused:
            self._paused_by = self._store.tables.paused
        elif self._member is not None and self._pause.present():
            self._paused_by = self._member.paused
        self._dues = self._read_dues()
        self._is_ready = any(True for _ in self._head)
        if self._allowance is not None:
            self._allowance.settle()
        return self

    def prospect(self, *, to_lease: bool) -> Prospect:
        """Return when there is something to pop, or to lease, and what to watch until then."""
        tables = self._store.tables
        if self._paused_by is not None:
            return NEVER._replace(watch=(self._paused_by,))
        found = prospect_of(
            self._allowance,
            self._dues,
            self._now,
            is_ready=self._is_ready,
            to_lease=to_lease,
        )
        if found.hold is None:
            return found._replace(watch=(tables.ready_taken_wakes,))
        # at the rate there is nothing to see but a pause
        is_by_leases = found.hold.limit == BY_LEASES
        return found._replace(watch=(tables.hidden if is_by_leases else tables.paused,))

    def held_until(self, *, to_lease: bool) -> int | None:
        """Return until when limits keep back what is ready, in microseconds.

        Not later than now if they do not. None if there are no limits, or is nothing ready, or the
        queue is paused.
        """
        if self._allowance is None or self._paused_by is not None or not self._is_ready:
            return None
        holds = self._allowance.holds(self._dues, to_lease=to_lease)
        return max([one.moment or 0 for one in holds], default=self._now)


def begin_prospect(tr: Transaction, taker: Taker, *, to_lease: bool) -> Callable[[], Prospect]:
    """Begin to read when a queue has something; call the returned function for the result."""
    look = Look(tr, taker)
    return lambda: look.settle().prospect(to_lease=to_lease)


def begin_dues(tr: Transaction, taker: Taker) -> Callable[[], list[Due]]:
    """Begin to read what expires next by the clock; call the returned function for the result.

    Of a queue whose leases may be limited so much that the end of one is among it.
    """
    tables, limits = taker.store.tables, taker.limits
    has_leases = limits is not None and limits.levels.leased is not None
    rows = tr.snapshot.get_range(*tables.dues, limit=_NEXT_MOMENTS if has_leases else 1)
    return lambda: [*filter(None, [tables.parse_due(bytes(row.key)) for row in rows])]


def prospect_of(
    allowance: Allowance | None,
    dues: Sequence[Due],
    now: int,
    *,
    is_ready: bool,
    to_lease: bool,
) -> Prospect:
    """Return when a queue that is not paused has something to take.

    Args:
        allowance: What its limits allow; None if it has none.
        dues: What expires next by the clock.
        now: The present, in microseconds.
        is_ready: Whether it has ready items.
        to_lease: Whether it is to be leased.
    """
    first = dues[0].moment if dues else None
    if is_ready or (first is not None and first <= now):
        holds = [] if allowance is None else allowance.holds(dues, to_lease=to_lease)
        return holds[0] if holds else NOW
    return Prospect(first)
