"""What is stored of an item while it is hidden (leased, delayed or dead), and of its failures.

Dead letters of one reason are a group, named by the first line of the reason. Their counts are
stored, so another rule of naming needs a recount of every queue.

The last three failures of an item are kept. A lease that is given up or expires writes one without
a read, over the one of three attempts before. All go when the item leaves the queue for good or is
redriven.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.clock import now_us
from fdbqueue.service.items import Failure, Item, moment
from fdbqueue.service.storage.rows import Row
from fdbqueue.service.storage.tables import FAILURES_KEPT, State, TableKeys

#: How users call the states.
STATE_NAMES = {State.LEASED: "leased", State.DELAYED: "delayed", State.DEAD: "dead"}
#: ``until``, ``attempts``, and ``pushed_at`` or -1. Behind them a lease has its secret, the name of
#: its worker, a byte 0, which no name has, and when it began; and a dead letter its reason.
_FACTS = struct.Struct(">QIq")
_BEGAN = struct.Struct(">cQ")
#: The length of the secret of a lease.
SECRET_BYTES = 8
#: The attempt, when it failed, and the length of the worker's name; the name and the reason
#: follow, both in UTF-8.
_FAILURE = struct.Struct(">IQH")
#: About the most bytes that the failures of one item take, reasons of ASCII characters assumed.
FAILURES_BYTES = FAILURES_KEPT * 1_250
#: The longest name of a group of dead letters.
_MAX_GROUP_CHARACTERS = 200


class Hidden(NamedTuple):
    """A leased, delayed or dead item.

    Attributes:
        state: Which table it is in.
        row: Its place and its stored value.
        until: When the lease or the delay expires, or when it died; in microseconds.
        attempts: How many leases of it were given up or expired.
        pushed_at: When it was pushed, in microseconds, or None.
        secret: What only the holder of a lease knows, as part of its token.
        reason: Why it is dead, in UTF-8.
        worker: The name of the worker that holds the lease, in UTF-8; empty if it gave none.
        began: When the lease began, in microseconds; None if that was not stored.
    """

    state: State
    row: Row
    until: int
    attempts: int
    pushed_at: int | None
    secret: bytes = b""
    worker: bytes = b""
    reason: bytes = b""
    began: int | None = None


def packed_facts(hidden: Hidden) -> bytes:
    """Return what is stored of a hidden item besides its value."""
    pushed_at = -1 if hidden.pushed_at is None else hidden.pushed_at
    facts = _FACTS.pack(hidden.until, hidden.attempts, pushed_at)
    if hidden.state is State.LEASED:
        began = b"" if hidden.began is None else _BEGAN.pack(b"\0", hidden.began)
        return facts + hidden.secret + hidden.worker + began
    return facts + hidden.reason


def unpacked_facts(state: State, row: Row, facts: bytes) -> Hidden:
    """Return the hidden item of a row and of its :func:`packed_facts`."""
    until, attempts, pushed_at = _FACTS.unpack_from(facts)
    rest, known_push = facts[_FACTS.size :], None if pushed_at < 0 else pushed_at
    if state is not State.LEASED:
        return Hidden(state, row, until, attempts, known_push, reason=rest)
    secret, (worker, _, began) = rest[:SECRET_BYTES], rest[SECRET_BYTES:].partition(b"\0")
    since = int.from_bytes(began, "big") if began else None
    return Hidden(state, row, until, attempts, known_push, secret, worker, began=since)


def described(item: Item, hidden: Hidden, failures: tuple[Failure, ...]) -> Item:
    """Return the item of a hidden row, with what is stored besides its value."""
    dead = hidden.state is State.DEAD
    return replace(
        item,
        state=STATE_NAMES[hidden.state],
        attempts=hidden.attempts,
        until=None if dead else moment(hidden.until),
        reason=hidden.reason.decode(errors="replace") if dead else None,
        died_at=moment(hidden.until) if dead else None,
        worker=hidden.worker.decode(errors="replace") or None,
        failures=failures,
        leased_at=None if hidden.began is None else moment(hidden.began),
    )


def group_of(reason: bytes) -> bytes:
    """Return the name of the group of a stored reason, in UTF-8 as the reason."""
    return _group(reason.decode(errors="replace")).encode()


def group_named(reason: str) -> bytes:
    """Return the name of the group that a reason is in, or that it names."""
    return _group(reason).encode(errors="replace")


def _group(reason: str) -> str:
    return reason.strip().partition("\n")[0].rstrip()[:_MAX_GROUP_CHARACTERS].rstrip()


class Failures:
    """Write, read and remove the failures of one queue's items.

    Args:
        tables: The keys of its tables.
    """

    def __init__(self, tables: TableKeys) -> None:
        self._tables = tables

    def note(
        self, tr: Transaction, place: bytes, attempt: int, worker: bytes, reason: bytes
    ) -> None:
        """Write the failure of an attempt, in place of the one of three attempts before."""
        facts = _FAILURE.pack(attempt, now_us(), len(worker))
        tr[self._tables.failure(place, attempt)] = facts + worker + reason

    def remove(self, tr: Transaction, place: bytes) -> None:
        """Remove the failures of an item."""
        tr.clear_range(*self._tables.failures(place))

    def restore(self, tr: Transaction, rows: Iterable[Any]) -> None:
        """Write failures again that were read before they were removed."""
        for row in rows:
            tr[bytes(row.key)] = bytes(row.value)

    def begin_read(self, tr: Transaction, place: bytes) -> Any:
        """Begin to read the failures of an item, for :meth:`parse`; nothing depends on them."""
        return tr.snapshot.get_range(*self._tables.failures(place))

    def parse(self, rows: Iterable[Any]) -> tuple[Failure, ...]:
        """Return the failures that were read, the latest last."""
        found = [_failure(bytes(row.value)) for row in rows]
        return tuple(sorted(found, key=lambda failure: failure.attempt))


def _failure(data: bytes) -> Failure:
    attempt, at, size = _FAILURE.unpack_from(data)
    middle = _FAILURE.size + size
    worker = data[_FAILURE.size : middle].decode(errors="replace")
    return Failure(moment(at), worker or None, data[middle:].decode(errors="replace"), attempt)
