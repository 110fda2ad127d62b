"""When a queue has something to take: now, from a moment on, or never; and what holds it back.

This decides what the rows of a member say in the index of its family. Takes correct them by it
(:mod:`fdbqueue.service.consume.visits`), and ``queue_doctor`` compares them with it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume.allowance import Allowance
from fdbqueue.service.consume.round import Taker
from fdbqueue.service.storage.families import Prospect
from fdbqueue.service.storage.handoffs import read_request

#: When a queue is looked at again from which other processes have yet to collect.
_COLLECTED_US = 1_000_000
#: The most help requests that are read.
_REQUESTS = 200
NEVER = Prospect(None)


def prospect_of(
    allowance: Allowance | None,
    dues: Iterable[int],
    now: int,
    *,
    is_ready: bool,
    awaits_others: bool,
    to_lease: bool,
) -> Prospect:
    """Return when a queue that is not paused has something to take.

    Args:
        allowance: What its limits allow; None if it has none.
        dues: When the first of what expires by the clock does; empty for nothing.
        now: The present, in microseconds.
        is_ready: Whether it has ready items.
        awaits_others: Whether other processes have asked for help, or have yet to collect.
        to_lease: Whether it is to be leased.
    """
    first = min(dues, default=None)
    if is_ready:
        return Prospect(0) if allowance is None else allowance.prospect(first, to_lease=to_lease)
    soon = now + _COLLECTED_US
    if awaits_others and (first is None or soon < first):
        return Prospect(soon, now)
    return Prospect(first)


def prospects(tr: Transaction, taker: Taker) -> tuple[Prospect, Prospect]:
    """Read when a queue has something to pop, and to lease, by snapshot reads.

    A queue that is paused by itself has nothing, and one that is paused with its family what it
    has once that is resumed.
    """
    store, now = taker.store, now_us()
    tables = store.tables
    paused = tr.snapshot[tables.paused]
    head = tr.snapshot.get_range(*store.keys.bounds, limit=1)
    asked = tr.snapshot.get_range(*tables.requests, limit=_REQUESTS)
    first = tr.snapshot.get_range(*tables.dues, limit=1)
    allowance = None if taker.limits is None else taker.limits.begin(tr, tables, now)
    if paused.present():
        return NEVER, NEVER
    if allowance is not None:
        allowance.settle()
    dues = [tables.parse_due(bytes(row.key)) for row in first]
    requests = [read_request(tables, bytes(row.key), bytes(row.value)) for row in asked]
    find = functools.partial(
        prospect_of,
        allowance,
        [due.moment for due in dues if due is not None],
        now,
        is_ready=any(True for _ in head),
        # leases that were handed over end by themselves, and their row stays a while
        awaits_others=any(not (one.is_handed and one.lease_us) for one in filter(None, requests)),
    )
    return find(to_lease=False), find(to_lease=True)
