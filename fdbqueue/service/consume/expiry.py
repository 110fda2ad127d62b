"""Expiry: put back what has expired, a bounded number of items in a transaction.

Leases, delays and batches expire by the clock; help requests and handoffs by the database's
versions. There is no daemon: the next popper does it, in the transaction in which it takes
items. An item comes back to its own place. Until then it is not ready, so no pop passes it
over. What one transaction puts back is bounded by the bytes that it sends for it.
"""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import now_us
from fdbqueue.service.limits import SENT_BY_CLEAR, SENT_BY_READ, SENT_BY_SET
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.handoffs import (
    HelpRequest,
    ask_handoff,
    parse_handoff,
    remove_pieces,
    remove_request,
)
from fdbqueue.service.storage.reader import Row
from fdbqueue.service.storage.store import Hidden, ItemStore
from fdbqueue.service.storage.tables import Due, Kind, State

logger = logging.getLogger(__name__)

#: One transaction puts back no more leased and delayed items than this.
MAX_EXPIRED = 100
#: Nor does it send more bytes for it, but for one item, or one handoff: by what it was
#: bounded when it was written, that fits into a transaction.
_MAX_SENT_BYTES = 2_000_000
#: Requeuing a leased item clears three keys, sets up to four, and reads two, as leasing one does;
#: requeuing a row of a handoff sets its key.
LEASE_KEYS_SENT = 3 * SENT_BY_CLEAR + 4 * SENT_BY_SET + 2 * SENT_BY_READ
ROW_KEYS_SENT = SENT_BY_SET
_ASKED_AT_ONCE = 25

_STATES = {Kind.LEASE: State.LEASED, Kind.DELAY: State.DELAYED}


class Expired(NamedTuple):
    """A hidden item whose time is over, and the attempts it has then."""

    hidden: Hidden
    attempts: int


class ExpiredBatch(NamedTuple):
    """A handoff, or a batch, whose time is over: its rows, and the keys that go with it."""

    name: bytes
    rows: list[Row]
    due: Due | None


class Found(NamedTuple):
    """What has expired: hidden items, handoffs, and keys that stand for nothing.

    ``is_cut`` says that there may be more: it is too much for one transaction.
    """

    items: list[Expired]
    batches: list[ExpiredBatch]
    stale: list[bytes]
    is_cut: bool = False


class ExpiredCounts(NamedTuple):
    """How many leases expired, how many of their items died, how many handoffs went back."""

    leases: int
    dead: int
    handoffs: int


class _Budget:
    """The bytes that may yet be sent; the first that are asked for are always granted."""

    def __init__(self, store: ItemStore) -> None:
        self._key_bytes = store.keys.size_bytes
        self._sent = 0
        self.is_over = False

    def spend(self, values: int, keys: int) -> bool:
        sent = values + keys * self._key_bytes
        self.is_over = self.is_over or (self._sent > 0 and self._sent + sent > _MAX_SENT_BYTES)
        if not self.is_over:
            self._sent += sent
        return not self.is_over


def examine(
    store: ItemStore, tr: Transaction, dues: Sequence[Due], requests: Sequence[HelpRequest] = ()
) -> Found:
    """Read what has expired; the transaction then depends on it.

    Some at a time are asked for before any is waited for.

    Args:
        store: The queue's items.
        tr: The transaction.
        dues: What has expired by the clock.
        requests: The help requests that have expired, handed over or not.
    """
    found = Found([], [], [])
    budget = _Budget(store)
    _examine_batches(store, tr, dues, requests, found, budget)
    _examine_items(store, tr, [due for due in dues if due.kind is not Kind.BATCH], found, budget)
    return found._replace(is_cut=budget.is_over)


def _examine_batches(
    store: ItemStore,
    tr: Transaction,
    dues: Sequence[Due],
    requests: Sequence[HelpRequest],
    found: Found,
    budget: _Budget,
) -> None:
    batches: list[tuple[bytes, Due | None]] = [
        *((request.name, None) for request in requests),
        *((due.rest, due) for due in dues if due.kind is Kind.BATCH),
    ]
    while batches and not budget.is_over:
        some, batches = batches[:_ASKED_AT_ONCE], batches[_ASKED_AT_ONCE:]
        asked = [ask_handoff(tr, store.tables, name) for name, _ in some]
        for (name, due), pieces in zip(some, asked, strict=True):
            handoff = parse_handoff(pieces)
            rows = [] if handoff is None else handoff.rows
            values = sum([len(row.value) for row in rows])
            if not budget.spend(values, ROW_KEYS_SENT * len(rows)):
                return
            found.batches.append(ExpiredBatch(name, rows, due))


def _examine_items(
    store: ItemStore, tr: Transaction, dues: Sequence[Due], found: Found, budget: _Budget
) -> None:
    rest = iter(dues)
    while not budget.is_over and (some := list(itertools.islice(rest, _ASKED_AT_ONCE))):
        asked = [store.ask(tr, _STATES[due.kind], due.rest) for due in some]
        for due, answer in zip(some, asked, strict=True):
            item = store.parse(_STATES[due.kind], due.rest, answer)
            if item is None or item.until != due.moment:
                found.stale.append(store.tables.due(*due))
                continue
            if not budget.spend(len(item.row.value), LEASE_KEYS_SENT):
                return
            is_leased = item.state is State.LEASED
            found.items.append(Expired(item, item.attempts + is_leased))


def apply(
    store: ItemStore,
    tr: Transaction,
    count_change: CountChange,
    found: Found,
    max_attempts: int | None,
) -> list[Row]:
    """Take what has expired out of its tables, and return the rows that are to be put back."""
    rows = []
    for key in found.stale:
        tr.clear(key)
    for hidden, attempts in found.items:
        row = release(store, tr, count_change, hidden, attempts, max_attempts, "its lease expired")
        if row is not None:
            rows.append(row)
    for batch in found.batches:
        remove_pieces(tr, store.tables, batch.name)
        if batch.due is None:
            remove_request(tr, store.tables, batch.name)
        else:
            tr.clear(store.tables.due(*batch.due))
        rows += batch.rows
    return rows


def counted(found: Found, max_attempts: int | None) -> ExpiredCounts:
    """Return how much of what :func:`apply` does is worth a line in the log."""
    leases = [one for one in found.items if one.hidden.state is State.LEASED]
    dead = sum([dies(hidden, attempts, max_attempts) for hidden, attempts in leases])
    return ExpiredCounts(len(leases), dead, sum([bool(batch.rows) for batch in found.batches]))


def log(queue: str, expired: ExpiredCounts) -> None:
    """Log what was put back, once that is committed."""
    if expired.leases:
        facts = {"queue": queue, "leases": expired.leases, "dead": expired.dead}
        logger.warning("leases expired", extra=facts)
    if expired.handoffs:
        facts = {"queue": queue, "handoffs": expired.handoffs}
        logger.warning("items that were taken and never collected were put back", extra=facts)


def dies(hidden: Hidden, attempts: int, max_attempts: int | None) -> bool:
    """Tell whether a lease that is given up with this number of attempts was the last."""
    is_leased = hidden.state is State.LEASED
    return is_leased and max_attempts is not None and attempts >= max_attempts


def release(
    store: ItemStore,
    tr: Transaction,
    count_change: CountChange,
    hidden: Hidden,
    attempts: int,
    max_attempts: int | None,
    reason: str,
) -> Row | None:
    """Take an item out of hiding: to the dead letters when it was given up too often.

    Returns:
        The row to put back, None when it is dead.
    """
    store.reveal(tr, count_change, hidden)
    if dies(hidden, attempts, max_attempts):
        dead = hidden._replace(
            state=State.DEAD,
            row=store.with_attempts(hidden.row, attempts) or hidden.row,
            attempts=attempts,
            until=now_us(),
            mark=reason.encode(errors="replace"),
        )
        store.hide(tr, count_change, dead)
        return None
    row = store.returned(tr, hidden, attempts)
    store.count_ready(tr, count_change, hidden)
    return row


def preview(
    store: ItemStore,
    tr: Transaction,
    dues: Sequence[Due],
    requests: Sequence[HelpRequest],
    max_attempts: int | None,
) -> tuple[list[Row], dict[bytes, int]]:
    """Return the rows that :func:`apply` would put back, and their attempts."""
    found = examine(store, tr, dues, requests)
    rows = [row for batch in found.batches for row in batch.rows]
    attempts = {}
    for hidden, tried in found.items:
        if not dies(hidden, tried, max_attempts):
            rows.append(hidden.row)
            attempts[hidden.row.place] = tried
    return rows, attempts


def chosen(dues: Iterable[Due], relaxed: bool) -> list[Due]:
    """Return the entries that one transaction looks at.

    In a relaxed queue several consumers work at once: each takes some at random.
    """
    found = list(dues)
    if relaxed and len(found) > MAX_EXPIRED // 4:
        return random.sample(found, MAX_EXPIRED // 4)
    return found[:MAX_EXPIRED]
