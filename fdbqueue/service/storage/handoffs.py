"""Help requests and handoffs: how one process takes items for another.

A help request is one row: which end, how many items, and for how long it holds. The process
that takes items next moves as many off the ready ones into a handoff under the request's name,
whole: places and values; the row then says that it is handed over. The asker collects the
handoff in a transaction of its own, which removes both.

The row holds the versionstamp of the commit that wrote it, so its age is told in the
database's versions and by no clock: about a million are a second. Versions may jump ahead,
when a cluster recovers. Then a request or a handoff expires early, which is harmless: the
items go back to their places, and the asker asks again.

A batch, leased under one token, is stored in the same pieces; it expires by the clock, as
every lease does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import fdb.tuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service import tuples
from fdbqueue.service.storage.reader import ENDS, End, Row
from fdbqueue.service.storage.tables import HANDOFF_NAME_BYTES, TableKeys

#: The pieces are cut to what FoundationDB takes as values.
_PIECE_BYTES = 90_000

_LENGTHS = struct.Struct(">II")
_STAMP_BYTES = 10
#: Whether it is handed over, which end, how many items, and for how many versions it holds.
_FACTS = struct.Struct(">BBIQ")


class HelpRequest(NamedTuple):
    """What a process asks others to take for it.

    Attributes:
        name: Tells it from all others.
        end: Which end of the queue.
        wanted: How many items.
        timeout_us: For how many versions the request holds, and after it the handoff.
        version: The version that wrote the row; 0 before that.
        is_handed: Whether the items are in a handoff.
    """

    name: bytes
    end: End
    wanted: int
    timeout_us: int
    version: int = 0
    is_handed: bool = False

    def left(self, version: int) -> int:
        """Return for how many versions it still holds at a read version."""
        return self.version + self.timeout_us - version

    def is_expired(self, version: int) -> bool:
        """Tell whether its time is over at a read version, or it is of another database."""
        return self.left(version) < 0 or self.version > version


class Handoff(NamedTuple):
    """What was taken for a request, or is held as a batch.

    Attributes:
        rows: The rows, in the order in which they were taken.
        empty: Whether the queue held no more at that moment.
        retried: Whether attempts may be in rows of their own.
    """

    rows: list[Row]
    empty: bool
    retried: bool


def write_request(tr: Transaction, tables: TableKeys, request: HelpRequest) -> None:
    """Write the row of a request; its version is that of the commit."""
    facts = _FACTS.pack(
        request.is_handed, ENDS.index(request.end), request.wanted, request.timeout_us
    )
    row = bytes(_STAMP_BYTES) + facts + bytes(4)
    tr.set_versionstamped_value(tables.request(request.name), row)


def read_request(tables: TableKeys, key: bytes, value: bytes) -> HelpRequest | None:
    """Return the request of a row, None where the row is of another form."""
    name = tables.request_name(key)
    if len(name) != HANDOFF_NAME_BYTES or len(value) != _STAMP_BYTES + _FACTS.size:
        return None
    is_handed, end, wanted, timeout_us = _FACTS.unpack_from(value, _STAMP_BYTES)
    if is_handed > 1 or end > 1:
        return None
    version = int.from_bytes(value[:8], "big")
    return HelpRequest(name, ENDS[end], wanted, timeout_us, version, bool(is_handed))


def remove_request(tr: Transaction, tables: TableKeys, name: bytes) -> None:
    """Remove a request; of two who remove or answer it, one has to try again."""
    key = tables.request(name)
    tr.add_read_conflict_key(key)
    tr.clear(key)


def hand_over(tr: Transaction, tables: TableKeys, request: HelpRequest, handoff: Handoff) -> None:
    """Answer a request with what was taken for it."""
    tr.add_read_conflict_key(tables.request(request.name))
    write_request(tr, tables, request._replace(is_handed=True))
    write_pieces(tr, tables, request.name, handoff)


def write_pieces(tr: Transaction, tables: TableKeys, name: bytes, handoff: Handoff) -> None:
    """Write what a handoff or a batch holds, in as many pieces as that takes."""
    data = _packed(handoff)
    for piece, start in enumerate(range(0, len(data), _PIECE_BYTES)):
        tr[tables.handoff(name, piece)] = data[start : start + _PIECE_BYTES]


def remove_pieces(tr: Transaction, tables: TableKeys, name: bytes) -> None:
    """Remove what a handoff or a batch holds; what becomes of its items is the caller's."""
    tr.clear_range(*tables.handoff_bounds(name))


def ask_handoff(tr: Transaction, tables: TableKeys, name: bytes) -> Any:
    """Ask for a handoff or a batch, without waiting for it; the transaction depends on it."""
    return tr.get_range(*tables.handoff_bounds(name))


def parse_handoff(asked: Any) -> Handoff | None:
    """Return the handoff that was asked for, None where there is none."""
    data = b"".join([row.value for row in asked])
    return _unpacked(data) if data else None


def all_handoffs(tr: Transaction, tables: TableKeys) -> Iterator[tuple[bytes, Handoff]]:
    """Yield the names of all handoffs and batches, and what they hold; by snapshot reads."""
    pieces: dict[bytes, list[Any]] = {}
    for row in tr.snapshot.get_range(*tables.handoffs()):
        pieces.setdefault(tables.handoff_name(row.key), []).append(row)
    for name, rows in pieces.items():
        handoff = parse_handoff(rows)
        if handoff is not None:
            yield name, handoff


def _packed(handoff: Handoff) -> bytes:
    parts = [bytes((handoff.empty, handoff.retried)), len(handoff.rows).to_bytes(4, "big")]
    for place, value in handoff.rows:
        parts += (_LENGTHS.pack(len(place), len(value)), place, value)
    parts.append(bytes(4))  # of the other end: what was stored before had rows of both
    return b"".join(parts)


def _unpacked(data: bytes) -> Handoff:
    at = 2
    rows = []
    for _ in range(2):
        count = int.from_bytes(data[at : at + 4], "big")
        at += 4
        for _ in range(count):
            place_size, value_size = _LENGTHS.unpack_from(data, at)
            start = at + _LENGTHS.size
            middle = start + place_size
            at = middle + value_size
            rows.append(Row(data[start:middle], data[middle:at]))
    return Handoff(rows, bool(data[0]), bool(data[1]))


class Hold(NamedTuple):
    """Which batch an owner holds, and until when, in microseconds."""

    owner: bytes
    name: bytes
    deadline: int

    def packed(self) -> bytes:
        """Return what is stored under the owner."""
        return fdb.tuple.pack((self.name, self.deadline))


def read_hold(owner: bytes, stored: bytes) -> Hold | None:
    """Return what is stored under an owner, None where that is no hold."""
    try:
        name, deadline = tuples.unpack(stored)
    except ValueError:
        return None
    if not isinstance(name, bytes) or not isinstance(deadline, int):
        return None
    return Hold(owner, name, deadline) if len(name) == HANDOFF_NAME_BYTES else None
