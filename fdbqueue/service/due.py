"""What has fallen due: leases and claims that ran out, delays that are over.

There is no daemon: whoever consumes next does it, a bounded number in a transaction.
"""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fdbqueue.service.claims import answer_claim, ask_claim, remove_claim
from fdbqueue.service.clock import now_us
from fdbqueue.service.counters import Tally
from fdbqueue.service.keyspace import Due, State
from fdbqueue.service.keyspace.meta import Kind
from fdbqueue.service.reading import Row
from fdbqueue.service.stock import Hidden, Stock

logger = logging.getLogger(__name__)

#: One transaction promotes no more than this.
MAX_PROMOTED = 100
_MAX_PROMOTED_BYTES = 1_000_000
_ASKED_AT_ONCE = 25

_STATES = {Kind.LEASE: State.LEASED, Kind.DELAY: State.DELAYED}


class Fallen(NamedTuple):
    """A hidden item whose time has come, and the attempts it has then."""

    hidden: Hidden
    attempts: int


class Found(NamedTuple):
    """What has fallen due: hidden items, claims, and keys that stand for nothing.

    ``is_cut`` says that there may be more: it is too much for one transaction.
    """

    fallen: list[Fallen]
    claims: list[tuple[int, bytes, list[Row]]]
    stale: list[bytes]
    is_cut: bool = False


class Settled(NamedTuple):
    """How many leases ran out, how many of their items died, and how many claims went back."""

    leases: int
    dead: int
    claims: int


def examine(stock: Stock, tr: Any, dues: Sequence[Due]) -> Found:
    """Read what has fallen due; the transaction then depends on it.

    Some at a time are asked for before any is waited for. Stops after about 1,000,000
    bytes, or the claim that has more.
    """
    found = Found([], [], [])
    size = 0
    hidden = iter([due for due in dues if due.kind is not Kind.CLAIM])
    while size < _MAX_PROMOTED_BYTES and (some := list(itertools.islice(hidden, _ASKED_AT_ONCE))):
        asked = [stock.ask(tr, _STATES[due.kind], due.rest) for due in some]
        for due, answer in zip(some, asked, strict=True):
            item = stock.answer(_STATES[due.kind], due.rest, answer)
            if item is None or item.until != due.moment:
                found.stale.append(stock.meta.due(*due))
                continue
            size += len(item.row.value)
            ran_out = item.state is State.LEASED
            found.fallen.append(Fallen(item, item.attempts + ran_out))
    for moment, _, name in [due for due in dues if due.kind is Kind.CLAIM]:
        if size >= _MAX_PROMOTED_BYTES:
            break
        claim = answer_claim(ask_claim(tr, stock.meta, name))
        rows = [] if claim is None else [*claim.rows[0], *claim.rows[1]]
        size += sum([len(row.value) for row in rows])
        found.claims.append((moment, name, rows))
    return found._replace(is_cut=size >= _MAX_PROMOTED_BYTES)


def settle(
    stock: Stock, tr: Any, tally: Tally, found: Found, max_attempts: int | None
) -> list[Row]:
    """Do what is due, and return the rows that are to be put back."""
    rows = []
    for key in found.stale:
        tr.clear(key)
    for hidden, attempts in found.fallen:
        row = release(stock, tr, tally, hidden, attempts, max_attempts, "its lease ran out")
        if row is not None:
            rows.append(row)
    for moment, name, claimed in found.claims:
        remove_claim(tr, stock.meta, moment, name)
        rows += claimed
    return rows


def settled(found: Found, max_attempts: int | None) -> Settled:
    """Return what :func:`settle` does that somebody may have to know."""
    leases = [one for one in found.fallen if one.hidden.state is State.LEASED]
    dead = sum([dies(hidden, attempts, max_attempts) for hidden, attempts in leases])
    return Settled(len(leases), dead, sum([bool(rows) for _, _, rows in found.claims]))


def tell(queue: str, done: Settled) -> None:
    """Log what was settled, once that is committed."""
    if done.leases:
        facts = {"queue": queue, "leases": done.leases, "dead": done.dead}
        logger.warning("leases ran out", extra=facts)
    if done.claims:
        facts = {"queue": queue, "claims": done.claims}
        logger.warning("what somebody took and never collected was put back", extra=facts)


def dies(hidden: Hidden, attempts: int, max_attempts: int | None) -> bool:
    """Tell whether a lease given up after so many attempts was the last."""
    is_leased = hidden.state is State.LEASED
    return is_leased and max_attempts is not None and attempts >= max_attempts


def release(
    stock: Stock,
    tr: Any,
    tally: Tally,
    hidden: Hidden,
    attempts: int,
    max_attempts: int | None,
    reason: str,
) -> Row | None:
    """Take an item out of hiding: to the dead letters when it was given up too often.

    Returns:
        The row to put back, None when it is dead.
    """
    stock.reveal(tr, tally, hidden)
    if dies(hidden, attempts, max_attempts):
        dead = hidden._replace(
            state=State.DEAD,
            row=stock.with_attempts(hidden.row, attempts) or hidden.row,
            attempts=attempts,
            until=now_us(),
            mark=reason.encode(errors="replace"),
        )
        stock.hide(tr, tally, dead)
        return None
    row = stock.returned(tr, hidden, attempts)
    stock.count_back(tr, tally, hidden)
    return row


def preview(
    stock: Stock, tr: Any, dues: Sequence[Due], max_attempts: int | None
) -> tuple[list[Row], dict[bytes, int]]:
    """Return the rows that :func:`settle` would put back, and their attempts."""
    found = examine(stock, tr, dues)
    rows = [row for _, _, claimed in found.claims for row in claimed]
    attempts = {}
    for hidden, tried in found.fallen:
        if not dies(hidden, tried, max_attempts):
            rows.append(hidden.row)
            attempts[hidden.row.place] = tried
    return rows, attempts


def chosen(dues: Iterable[Due], relaxed: bool) -> list[Due]:
    """Return the entries that one transaction looks at.

    In a relaxed queue several consumers work at once: each takes some at random.
    """
    found = list(dues)
    if relaxed and len(found) > MAX_PROMOTED // 4:
        return random.sample(found, MAX_PROMOTED // 4)
    return found[:MAX_PROMOTED]
