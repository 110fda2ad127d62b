"""The rows of help between processes (:mod:`fdbqueue.service.consume.help`)."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import Transaction
from fdbqueue.service.storage.item_keys import ENDS, End, Row
from fdbqueue.service.storage.tables import HANDOFF_NAME_BYTES, Due, Kind, TableKeys

#: The length of a piece; FoundationDB allows values of 100,000 bytes.
_PIECE_BYTES = 90_000

_LENGTHS = struct.Struct(">II")
_STAMP_BYTES = 10
#: Flags, which end, how many items, and when it expires.
_FACTS = struct.Struct(">BBIQ")
#: For leases: how long they last, whether the queue is empty, whether help was refused. The
#: places and secrets of leases follow: those that end, or once it is handed over, the new ones.
_LEASE_FACTS = struct.Struct(">Q??")
#: The flags: it is handed over; the name of the worker stands before the lease keys.
_HANDED, _NAMED = 1, 2
_NAME_LENGTH = struct.Struct(">H")
#: The lengths of a place and of a secret.
_KEY_LENGTHS = struct.Struct(">HB")
#: The most bytes of the lease keys in one row; FoundationDB allows values of 100,000 bytes.
MAX_LEASE_KEYS_BYTES = 90_000

#: What a lease is known by: its place and its secret.
LeaseKey = tuple[bytes, bytes]


class HelpRequest(NamedTuple):
    """A request of one process that others take items for it.

    Attributes:
        name: Its random name.
        end: The end of the queue to take from.
        wanted: How many items to take.
        until: When it expires, and its handoff, in microseconds.
        version: The version at which it was asked; 0 before that.
        is_handed: Whether another process has served it.
        lease_us: How long the items are to be leased, in microseconds; 0 for a handoff.
        lease_keys: For leases, :func:`packed_lease_keys`: of those that are to end where it is
            served; once it is handed over, of the new ones in the order of their items.
        empty: Whether the queue held no more at that moment.
        refused: Whether nothing was done, because a lease that was to end is not held any more,
            or an item cannot be decoded; the asking process finds that out by itself.
        worker: For leases, the name of the worker that asks, in UTF-8; empty for none.
    """

    name: bytes
    end: End
    wanted: int
    until: int
    version: int = 0
    is_handed: bool = False
    lease_us: int = 0
    lease_keys: bytes = b""
    empty: bool = False
    refused: bool = False
    worker: bytes = b""

    @property
    def due(self) -> Due:
        """The row that says when its handoff expires."""
        return Due(self.until, Kind.HANDOFF, self.name)


class Handoff(NamedTuple):
    """The items that were taken for a request.

    Attributes:
        rows: Their rows, in the order in which they were taken.
        empty: Whether the queue held no more at that moment.
        retried: Whether attempts may be stored in rows of their own.
    """

    rows: list[Row]
    empty: bool
    retried: bool


def write_request(tr: Transaction, tables: TableKeys, request: HelpRequest) -> None:
    """Write the row of a request that is asked; its version is the commit's."""
    row = bytes(_STAMP_BYTES) + _facts(request) + bytes(4)
    tr.set_versionstamped_value(tables.request(request.name), row)


def _facts(request: HelpRequest) -> bytes:
    flags = _HANDED * request.is_handed + _NAMED * bool(request.worker)
    facts = _FACTS.pack(flags, ENDS.index(request.end), request.wanted, request.until)
    if request.lease_us:
        facts += _LEASE_FACTS.pack(request.lease_us, request.empty, request.refused)
        if request.worker:
            facts += _NAME_LENGTH.pack(len(request.worker)) + request.worker
        facts += request.lease_keys
    return facts


def read_request(tables: TableKeys, key: bytes, value: bytes) -> HelpRequest | None:
    """Return the request of a row, None when the row has another format."""
    name = tables.request_name(key)
    if len(name) != HANDOFF_NAME_BYTES or len(value) < _STAMP_BYTES + _FACTS.size:
        return None
    flags, end, wanted, until = _FACTS.unpack_from(value, _STAMP_BYTES)
    if flags > _HANDED + _NAMED or end > 1:
        return None
    version = int.from_bytes(value[:8], "big")
    facts = name, ENDS[end], wanted, until, version, bool(flags & _HANDED)
    at = _STAMP_BYTES + _FACTS.size
    if len(value) == at:
        return HelpRequest(*facts)
    if len(value) < at + _LEASE_FACTS.size:
        return None
    lease_us, empty, refused = _LEASE_FACTS.unpack_from(value, at)
    keys, worker = value[at + _LEASE_FACTS.size :], b""
    if flags & _NAMED:
        if len(keys) < _NAME_LENGTH.size:
            return None
        stop = _NAME_LENGTH.size + _NAME_LENGTH.unpack_from(keys)[0]
        worker, keys = keys[_NAME_LENGTH.size : stop], keys[stop:]
    return HelpRequest(*facts, lease_us, keys, empty, refused, worker)


def remove_request(tr: Transaction, tables: TableKeys, name: bytes) -> None:
    """Remove a request; of two transactions that remove it or hand it over, one conflicts."""
    key = tables.request(name)
    tr.add_read_conflict_key(key)
    tr.clear(key)


def remove_handoff(tr: Transaction, tables: TableKeys, request: HelpRequest) -> None:
    """Remove a request with its handoff; the caller decides what happens to the items."""
    remove_request(tr, tables, request.name)
    remove_pieces(tr, tables, request.name)
    tr.clear(tables.due(*request.due))


def hand_over(tr: Transaction, tables: TableKeys, request: HelpRequest, handoff: Handoff) -> None:
    """Write the handoff of a request."""
    answer(tr, tables, request)
    write_pieces(tr, tables, request.name, handoff)
    if handoff.rows:
        tr[tables.due(*request.due)] = b""


def answer(tr: Transaction, tables: TableKeys, request: HelpRequest) -> None:
    """Write that a request is served; of two transactions that serve it, one conflicts."""
    key = tables.request(request.name)
    tr.add_read_conflict_key(key)
    stamp = request.version.to_bytes(8, "big").ljust(_STAMP_BYTES, b"\x00")
    tr[key] = stamp + _facts(request._replace(is_handed=True))


def write_pieces(tr: Transaction, tables: TableKeys, name: bytes, handoff: Handoff) -> None:
    """Write the pieces of a handoff."""
    data = _packed(handoff)
    for piece, start in enumerate(range(0, len(data), _PIECE_BYTES)):
        tr[tables.handoff(name, piece)] = data[start : start + _PIECE_BYTES]


def remove_pieces(tr: Transaction, tables: TableKeys, name: bytes) -> None:
    """Remove the pieces of a handoff; the caller decides what happens to its items."""
    tr.clear_range(*tables.handoff_bounds(name))


def begin_handoff(tr: Transaction, tables: TableKeys, name: bytes) -> Any:
    """Begin to read a handoff; the transaction depends on it."""
    return tr.get_range(*tables.handoff_bounds(name))


def parse_handoff(pieces: Any) -> Handoff | None:
    """Return the handoff that :func:`begin_handoff` began to read, None when there is none."""
    data = b"".join([row.value for row in pieces])
    return _unpacked(data) if data else None


def all_handoffs(tr: Transaction, tables: TableKeys) -> Iterator[tuple[bytes, Handoff]]:
    """Yield all handoffs with their names, by snapshot reads."""
    pieces = iter(tr.snapshot.get_range(*tables.handoffs))
    for name, rows in itertools.groupby(pieces, lambda row: tables.handoff_name(row.key)):
        handoff = parse_handoff(rows)
        if handoff is not None:
            yield name, handoff


def packed_lease_keys(keys: Iterable[LeaseKey]) -> bytes:
    """Return leases as the row of a request names them."""
    return b"".join(
        [_KEY_LENGTHS.pack(len(place), len(secret)) + place + secret for place, secret in keys]
    )


def unpacked_lease_keys(data: bytes) -> list[LeaseKey] | None:
    """Return the leases that a row names, None when it has another format."""
    found: list[LeaseKey] = []
    at = 0
    while at < len(data):
        if at + _KEY_LENGTHS.size > len(data):
            return None
        place_size, secret_size = _KEY_LENGTHS.unpack_from(data, at)
        start = at + _KEY_LENGTHS.size
        middle = start + place_size
        at = middle + secret_size
        found.append((data[start:middle], data[middle:at]))
    return found if at == len(data) else None


def _packed(handoff: Handoff) -> bytes:
    parts = [bytes((handoff.empty, handoff.retried)), len(handoff.rows).to_bytes(4, "big")]
    for place, value in handoff.rows:
        parts += (_LENGTHS.pack(len(place), len(value)), place, value)
    return b"".join(parts)


def _unpacked(data: bytes) -> Handoff:
    rows, at = [], 6
    for _ in range(int.from_bytes(data[2:at], "big")):
        place_size, value_size = _LENGTHS.unpack_from(data, at)
        start = at + _LENGTHS.size
        middle = start + place_size
        at = middle + value_size
        rows.append(Row(data[start:middle], data[middle:at]))
    return Handoff(rows, bool(data[0]), bool(data[1]))
