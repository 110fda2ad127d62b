"""Requests and claims: how one popper takes items for another.

A request says how many items its owner wants from each end. Whoever takes items next moves
so many off the ready ones into a claim under the owner's name, whole: places and values. The
owner collects the claim in a transaction of its own. A claim that its owner has not collected
in time goes back to where its items were.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import fdb.tuple

from fdbqueue.service import tuples
from fdbqueue.service.keyspace import MetaKeys
from fdbqueue.service.keyspace.meta import CLAIM_NAME_BYTES, Kind
from fdbqueue.service.reading import Row

#: A claim is cut into pieces that FoundationDB takes as values.
_PIECE_BYTES = 90_000

_MOST = 2**62
_LENGTHS = struct.Struct(">II")


class Request(NamedTuple):
    """What a popper asks others to take for it.

    Attributes:
        name: Tells it from all others.
        moment: When it was made, in microseconds.
        deadline: When its claim goes back.
        wanted: How many items from the min end and from the max end.
    """

    name: bytes
    moment: int
    deadline: int
    wanted: tuple[int, int]


class Claim(NamedTuple):
    """What was taken for a request.

    Attributes:
        rows: The rows from the min end, and from the max end.
        empty: Whether the queue held no more at that moment.
        retried: Whether attempts may be in rows of their own.
    """

    rows: tuple[list[Row], list[Row]]
    empty: bool
    retried: bool


def write_request(tr: Any, meta: MetaKeys, request: Request) -> None:
    """Ask for items."""
    facts = (request.deadline, *request.wanted)
    tr[meta.request(request.moment, request.name)] = fdb.tuple.pack(facts)


def read_request(meta: MetaKeys, key: bytes, value: bytes) -> Request | None:
    """Return the request of a row, None where it is none."""
    try:
        moment, name = meta.parse_request(key)
        deadline, lowest, highest = tuples.unpack(value)
    except ValueError:
        return None
    numbers = (moment, deadline, lowest, highest)
    if not isinstance(name, bytes) or len(name) != CLAIM_NAME_BYTES:
        return None
    if not all(isinstance(number, int) and 0 <= number < _MOST for number in numbers):
        return None
    return Request(name, moment, deadline, (lowest, highest))


def remove_request(tr: Any, meta: MetaKeys, request: Request) -> None:
    """Remove a request, unless somebody else does at the same time."""
    key = meta.request(request.moment, request.name)
    tr.add_read_conflict_key(key)
    tr.clear(key)


def write_claim(tr: Any, meta: MetaKeys, request: Request, claim: Claim) -> None:
    """Hand a request's owner what was taken for it, in place of the request.

    Until its deadline; then whoever consumes puts it back.
    """
    remove_request(tr, meta, request)
    write_pieces(tr, meta, request.name, claim)
    tr[meta.due(request.deadline, Kind.CLAIM, request.name)] = b""


def write_pieces(tr: Any, meta: MetaKeys, name: bytes, claim: Claim) -> None:
    """Write what a claim holds, in as many pieces as that takes."""
    data = _packed(claim)
    for piece, start in enumerate(range(0, len(data), _PIECE_BYTES)):
        tr[meta.claim(name, piece)] = data[start : start + _PIECE_BYTES]


def remove_claim(tr: Any, meta: MetaKeys, deadline: int, name: bytes) -> None:
    """Remove a claim; what becomes of its items is the caller's."""
    tr.clear_range(*meta.claim_bounds(name))
    tr.clear(meta.due(deadline, Kind.CLAIM, name))


def ask_claim(tr: Any, meta: MetaKeys, name: bytes) -> Any:
    """Ask for a claim, without waiting for it; the transaction depends on it."""
    return tr.get_range(*meta.claim_bounds(name))


def answer_claim(asked: Any) -> Claim | None:
    """Return the claim that was asked for, None where there is none."""
    data = b"".join([row.value for row in asked])
    return _unpacked(data) if data else None


def _packed(claim: Claim) -> bytes:
    parts = [bytes((claim.empty, claim.retried))]
    for rows in claim.rows:
        parts.append(len(rows).to_bytes(4, "big"))
        for place, value in rows:
            parts += (_LENGTHS.pack(len(place), len(value)), place, value)
    return b"".join(parts)


def _unpacked(data: bytes) -> Claim:
    at = 2
    found: list[list[Row]] = []
    for _ in range(2):
        rows = []
        count = int.from_bytes(data[at : at + 4], "big")
        at += 4
        for _ in range(count):
            place_size, value_size = _LENGTHS.unpack_from(data, at)
            start = at + _LENGTHS.size
            middle = start + place_size
            at = middle + value_size
            rows.append(Row(data[start:middle], data[middle:at]))
        found.append(rows)
    return Claim((found[0], found[1]), bool(data[0]), bool(data[1]))
