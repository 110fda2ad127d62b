"""Requeue what has expired: leases, delays and handoffs.

The next popper, by its clock, requeues them, each item at its own place, before it takes any: a
bounded number, the first to expire. This take may pass over the rest.
"""

from __future__ import annotations

import itertools
import operator
import random
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from fdbqueue.engines.protocols import SnapshotTransaction, Transaction
from fdbqueue.logs import get_logger
from fdbqueue.service.clock import now_us
from fdbqueue.service.sizes import SENT_BY_CLEAR, SENT_BY_READ, SENT_BY_SET
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.handoffs import (
    HelpRequest,
    begin_handoff,
    parse_handoff,
    remove_pieces,
    remove_request,
)
from fdbqueue.service.storage.item_keys import Row
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import Due, Hidden, Kind, State

logger = get_logger(__name__)

#: The most leased and delayed items that one transaction requeues.
MAX_EXPIRED = 100
#: How many a transaction takes out that no other follows, if those have all died; and then how
#: often it looks whether one of as many comes back.
_MORE, _LOOKS = 1_000, 10
#: The most bytes that it sends to requeue items. A single item or handoff may be larger: it was
#: bounded when it was written, so it fits into a transaction.
_MAX_SENT_BYTES = 2_000_000
#: Requeuing a leased item clears three keys, sets up to four, and reads two, as leasing one does
#: (its row and its failure, and its age or its attempts with their mark); requeuing a row of a
#: handoff sets its key.
LEASE_KEYS_SENT = 3 * SENT_BY_CLEAR + 4 * SENT_BY_SET + 2 * SENT_BY_READ
ROW_KEYS_SENT = SENT_BY_SET
_READS_AT_ONCE = 25
#: What is said of a lease that nothing else ended.
LEASE_EXPIRED = "its lease expired"
#: What is said of one that was given back at somebody else's word.
GIVEN_BACK = "it was given back"

_STATES = {Kind.LEASE: State.LEASED, Kind.DELAY: State.DELAYED}


class Expired(NamedTuple):
    """An item whose lease or delay has expired, and its attempts from now on."""

    hidden: Hidden
    attempts: int


class ExpiredHandoff(NamedTuple):
    """An expired help request or handoff: its rows, and its key in the table DUE."""

    name: bytes
    rows: list[Row]
    due: Due


class AllExpired(NamedTuple):
    """What has expired: items, handoffs, and keys without an item.

    ``is_cut`` says that there is more than one transaction requeues.
    """

    items: list[Expired]
    handoffs: list[ExpiredHandoff]
    stale: list[bytes]
    is_cut: bool = False


class ExpiredCounts(NamedTuple):
    """How many leases expired, how many of their items died, how many handoffs were requeued."""

    leases: int = 0
    dead: int = 0
    handoffs: int = 0

    def plus(self, other: ExpiredCounts) -> ExpiredCounts:
        """Return the sums."""
        return ExpiredCounts(*map(operator.add, self, other))


class TakenOut(NamedTuple):
    """What was taken out of the tables of what expires.

    Attributes:
        rows: What comes back; the caller writes it.
        counts: How many.
        is_cut: Whether there is more.
    """

    rows: list[Row]
    counts: ExpiredCounts
    is_cut: bool


class _Budget:
    """The bytes that may still be sent; the first request is always granted."""

    def __init__(self, store: ItemStore) -> None:
        self._key_bytes = store.keys.size_bytes
        self._sent = 0
        self.is_spent = False

    def spend(self, values: int, keys: int) -> bool:
        sent = values + keys * self._key_bytes
        self.is_spent = self.is_spent or (self._sent > 0 and self._sent + sent > _MAX_SENT_BYTES)
        if not self.is_spent:
            self._sent += sent
        return not self.is_spent


def examine(
    store: ItemStore, tr: Transaction, dues: Sequence[Due], requests: Sequence[HelpRequest] = ()
) -> AllExpired:
    """Read what has expired; the transaction depends on it.

    The reads of 25 items are sent before the first is awaited.

    Args:
        store: The queue's items.
        tr: The transaction.
        dues: The leases, delays and handoffs that have expired.
        requests: The help requests that have expired, handed over or not.
    """
    found = AllExpired([], [], [])
    budget = _Budget(store)
    _examine_handoffs(store, tr, dues, requests, found, budget)
    _examine_items(store, tr, [due for due in dues if due.kind is not Kind.HANDOFF], found, budget)
    return found._replace(is_cut=budget.is_spent)


def _examine_handoffs(
    store: ItemStore,
    tr: Transaction,
    dues: Sequence[Due],
    requests: Sequence[HelpRequest],
    found: AllExpired,
    budget: _Budget,
) -> None:
    found_dues = [*(request.due for request in requests), *dues]
    rest = [*{due.rest: due for due in found_dues if due.kind is Kind.HANDOFF}.items()]
    while rest and not budget.is_spent:
        some, rest = rest[:_READS_AT_ONCE], rest[_READS_AT_ONCE:]
        reads = [begin_handoff(tr, store.tables, name) for name, _ in some]
        for (name, due), pieces in zip(some, reads, strict=True):
            handoff = parse_handoff(pieces)
            rows = [] if handoff is None else handoff.rows
            values = sum([len(row.value) for row in rows])
            if not budget.spend(values, ROW_KEYS_SENT * len(rows)):
                return
            found.handoffs.append(ExpiredHandoff(name, rows, due))


def _examine_items(
    store: ItemStore, tr: Transaction, dues: Sequence[Due], found: AllExpired, budget: _Budget
) -> None:
    rest = iter(dues)
    while not budget.is_spent and (some := list(itertools.islice(rest, _READS_AT_ONCE))):
        reads = [store.begin_read(tr, _STATES[due.kind], due.rest) for due in some]
        for due, read in zip(some, reads, strict=True):
            item = store.parse(_STATES[due.kind], due.rest, read)
            if item is None or item.until != due.moment:
                found.stale.append(store.tables.due(*due))
                continue
            if not budget.spend(len(item.row.value), LEASE_KEYS_SENT):
                return
            is_leased = item.state is State.LEASED
            found.items.append(Expired(item, item.attempts + is_leased))


def take_out_expired(
    store: ItemStore, count_change: CountChange, found: AllExpired, max_attempts: int | None
) -> list[Row]:
    """Take what has expired out of its tables; return the rows, which the caller writes."""
    tr = count_change.tr
    rows = []
    for key in found.stale:
        tr.clear(key)
    for hidden, attempts in found.items:
        if hidden.state is State.LEASED:
            note_failure(store, tr, hidden, attempts, LEASE_EXPIRED)
        row = take_out_or_bury(store, count_change, hidden, attempts, max_attempts, LEASE_EXPIRED)
        if row is not None:
            rows.append(row)
    for handoff in found.handoffs:
        remove_pieces(tr, store.tables, handoff.name)
        remove_request(tr, store.tables, handoff.name)
        tr.clear(store.tables.due(*handoff.due))
        rows += handoff.rows
    return rows


def take_out(
    store: ItemStore,
    count_change: CountChange,
    dues: Sequence[Due],
    requests: Sequence[HelpRequest],
    max_attempts: int | None,
) -> TakenOut:
    """Take out what has expired, as far as one transaction requeues it."""
    found = examine(store, count_change.tr, dues, requests)
    rows = take_out_expired(store, count_change, found, max_attempts)
    return TakenOut(rows, counted(found, max_attempts), found.is_cut)


def take_out_more(
    store: ItemStore,
    count_change: CountChange,
    now: int,
    ending: Sequence[Container[bytes]],
    max_attempts: int | None,
) -> TakenOut:
    """Go on after :func:`take_out`, if nothing came back, in a transaction that no other follows.

    It takes out 1,000 more. If these all die, too, it takes out only what comes back of the next,
    10,000 at most. Of those that die it depends on nothing: whoever lets one of them come back
    after all writes its row.

    Args:
        store: The queue's items.
        count_change: What the transaction changes in the counts.
        now: The present, in microseconds.
        ending: The places of the leases that end in this transaction.
        max_attempts: How many failed leases make an item dead; None for no limit.
    """
    counts, after = ExpiredCounts(), None
    for number in range(1 + _LOOKS):
        page = all_due(store, count_change.tr, now, _MORE, after)
        dues = [due for due in page if not any(due.rest in one for one in ending)]
        if number:
            dead = dying(store, count_change.tr.snapshot, dues, max_attempts)
            dues = [due for due in dues if due not in dead]
        found = take_out(store, count_change, dues, (), max_attempts)
        counts = counts.plus(found.counts)
        if found.rows or len(page) < _MORE:
            return TakenOut(found.rows, counts, False)
        after = after if found.is_cut else page[-1]
    return TakenOut([], counts, True)


def all_due(
    store: ItemStore, tr: Transaction, now: int, limit: int, after: Due | None = None
) -> list[Due]:
    """Return what has expired by the clock, the oldest first, or the oldest after one."""
    begin, stop = store.tables.dues[0], store.tables.present(now)[1]
    if after is not None:
        begin = store.tables.due(*after) + b"\x00"
    rows = tr.snapshot.get_range(begin, stop, limit=limit)
    return [*filter(None, [store.tables.parse_due(row.key) for row in rows])]


def dying(
    store: ItemStore,
    tr: Transaction | SnapshotTransaction,
    dues: Sequence[Due],
    max_attempts: int | None,
) -> set[Due]:
    """Return those of some expired leases and delays whose items die."""
    leases = {due.rest: due for due in dues if due.kind is Kind.LEASE}
    found = zip(leases.values(), store.facts(tr, State.LEASED, [*leases]), strict=True)
    return {due for due, one in found if one and dies(one, one.attempts + 1, max_attempts)}


def counted(found: AllExpired, max_attempts: int | None) -> ExpiredCounts:
    """Count the expired leases and handoffs, for :func:`log`."""
    leases = [one for one in found.items if one.hidden.state is State.LEASED]
    dead = sum([dies(hidden, attempts, max_attempts) for hidden, attempts in leases])
    return ExpiredCounts(len(leases), dead, sum([bool(handoff.rows) for handoff in found.handoffs]))


def log(queue: str, expired: ExpiredCounts) -> None:
    """Log what has expired, after the commit that requeues it."""
    if expired.leases:
        facts = {"queue": queue, "leases": expired.leases, "dead": expired.dead}
        logger.warning("leases expired", extra=facts)
    if expired.handoffs:
        facts = {"queue": queue, "handoffs": expired.handoffs}
        logger.warning("items that were taken and never collected were requeued", extra=facts)


def is_last_attempt(attempts: int, max_attempts: int | None) -> bool:
    """Tell whether an item that failed so often has no attempt left."""
    return max_attempts is not None and attempts >= max_attempts


def dies(hidden: Hidden, attempts: int, max_attempts: int | None) -> bool:
    """Tell whether an item dies, because its lease was the last of its attempts."""
    return hidden.state is State.LEASED and is_last_attempt(attempts, max_attempts)


def note_failure(
    store: ItemStore, tr: Transaction, lease: Hidden, attempt: int, reason: str
) -> None:
    """Write that an attempt failed, and which worker held the lease."""
    at = min(lease.until, now_us()) if reason == LEASE_EXPIRED else now_us()
    store.failures.note(tr, lease, attempt, reason.encode(errors="replace"), at)


def take_out_or_bury(
    store: ItemStore,
    count_change: CountChange,
    hidden: Hidden,
    attempts: int,
    max_attempts: int | None,
    reason: str,
) -> Row | None:
    """Take a hidden item out of its table, or bury it after its last attempt.

    Returns:
        The row, which the caller writes; None if the item is dead.
    """
    store.reveal(count_change, hidden)
    if dies(hidden, attempts, max_attempts):
        dead = hidden._replace(
            state=State.DEAD,
            row=store.with_attempts(hidden.row, attempts) or hidden.row,
            attempts=attempts,
            until=now_us(),
            secret=b"",
            worker=b"",
            reason=reason.encode(errors="replace"),
        )
        store.hide(count_change, dead)
        return None
    row = store.requeued_row(count_change.tr, hidden, attempts)
    store.count_ready(count_change, hidden)
    return row


def preview(
    store: ItemStore,
    tr: Transaction,
    dues: Sequence[Due],
    requests: Sequence[HelpRequest],
    max_attempts: int | None,
) -> tuple[list[Row], dict[bytes, int]]:
    """Return the rows that :func:`take_out_expired` would return, and their attempts."""
    found = examine(store, tr, dues, requests)
    rows = [row for handoff in found.handoffs for row in handoff.rows]
    attempts = {}
    for hidden, tried in found.items:
        if not dies(hidden, tried, max_attempts):
            rows.append(hidden.row)
            attempts[hidden.row.place] = tried
    return rows, attempts


def chosen(dues: Iterable[Due], *, at_random: bool) -> list[Due]:
    """Return the entries that one transaction looks at.

    In a queue with shards several poppers commit at once, so each takes some entries at random.
    """
    found = list(dues)
    if at_random and len(found) > MAX_EXPIRED // 4:
        return random.sample(found, MAX_EXPIRED // 4)
    return found[:MAX_EXPIRED]
