"""Hidden items, those that are leased, delayed or dead, and what is stored of them."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import NamedTuple

from fdbqueue.service.items import Failure, Item, moment
from fdbqueue.service.storage.reader import Row
from fdbqueue.service.storage.tables import State

#: How users call the states.
STATE_NAMES = {State.LEASED: "leased", State.DELAYED: "delayed", State.DEAD: "dead"}
#: ``until``, ``attempts``, and ``pushed_at`` or -1; the mark follows, and the worker behind the
#: mark of a lease.
_FACTS = struct.Struct(">QIq")
#: The length of the mark of a lease, its secret.
MARK_BYTES = 8


class Hidden(NamedTuple):
    """A leased, delayed or dead item.

    Attributes:
        state: Which table it is in.
        row: Its place and its stored value.
        until: When the lease or the delay expires, or when it died; in microseconds.
        attempts: How many leases of it were given up or expired.
        pushed_at: When it was pushed, in microseconds, or None.
        mark: The lease's secret, or the reason why it is dead in UTF-8.
        worker: The name of the worker that holds the lease, in UTF-8; empty where it gave none.
    """

    state: State
    row: Row
    until: int
    attempts: int
    pushed_at: int | None
    mark: bytes = b""
    worker: bytes = b""


def packed_facts(hidden: Hidden) -> bytes:
    """Return what is stored of a hidden item besides its value."""
    pushed_at = -1 if hidden.pushed_at is None else hidden.pushed_at
    facts = _FACTS.pack(hidden.until, hidden.attempts, pushed_at) + hidden.mark
    return facts + hidden.worker if hidden.state is State.LEASED else facts


def unpacked_facts(state: State, row: Row, facts: bytes) -> Hidden:
    """Return the hidden item of a row and of its :func:`packed_facts`."""
    until, attempts, pushed_at = _FACTS.unpack_from(facts)
    mark, worker = facts[_FACTS.size :], b""
    if state is State.LEASED:
        mark, worker = mark[:MARK_BYTES], mark[MARK_BYTES:]
    return Hidden(state, row, until, attempts, None if pushed_at < 0 else pushed_at, mark, worker)


def described(item: Item, hidden: Hidden, failures: tuple[Failure, ...]) -> Item:
    """Return the item of a hidden row, with what is stored besides its value."""
    dead = hidden.state is State.DEAD
    return replace(
        item,
        state=STATE_NAMES[hidden.state],
        attempts=hidden.attempts,
        until=None if dead else moment(hidden.until),
        reason=hidden.mark.decode(errors="replace") if dead else None,
        died_at=moment(hidden.until) if dead else None,
        worker=hidden.worker.decode(errors="replace") or None,
        failures=failures,
    )
