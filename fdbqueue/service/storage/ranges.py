"""Find the ranges that keys belong to, such as the names of a catalog, by few reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import SnapshotTransaction

#: How many gaps between known ranges are halved in one round, in the order of their keys.
_GAPS_AT_ONCE = 64
#: How many bytes after the common prefix of two keys are halved.
_HALVED_BYTES = 8
#: A range of keys, its last key excluded.
KeyRange = tuple[bytes, bytes]


class _Gap(NamedTuple):
    """A range of keys that may hold more ranges; its last key is excluded."""

    begin: bytes
    end: bytes


def ranges_of(
    tr: SnapshotTransaction, begin: bytes, end: bytes, range_of: Callable[[bytes], KeyRange]
) -> Iterator[KeyRange]:
    """Yield the ranges that the keys between two belong to, in order.

    FoundationDB cannot list prefixes: each costs a read that skips to the next, and one after the
    other that is a round trip for each. Here the gaps between the known ranges are halved, and all
    reads of a round are sent before the first is awaited.

    Args:
        tr: The transaction, or its snapshot.
        begin: Where to start.
        end: Where to stop, this key excluded.
        range_of: Returns the range that a key belongs to.
    """
    gaps = [_Gap(begin, end)]
    known: list[KeyRange] = []
    while gaps:
        halved, gaps = gaps[:_GAPS_AT_ONCE], gaps[_GAPS_AT_ONCE:]
        found, rest = _look(tr, halved, range_of)
        gaps = rest + gaps
        known = sorted({*known, *found})
        reached = gaps[0].begin if gaps else end
        while known and known[0][0] < reached:
            yield known.pop(0)


def _look(
    tr: SnapshotTransaction, gaps: list[_Gap], range_of: Callable[[bytes], KeyRange]
) -> tuple[list[KeyRange], list[_Gap]]:
    """Read from the middle of each gap in both directions; return the ranges and the new gaps."""
    reads = []
    for gap in gaps:
        middle = _middle(gap)
        below = tr.get_range(gap.begin, middle, limit=1, reverse=True)
        above = tr.get_range(middle, gap.end, limit=1)
        reads.append((gap, below, above))
    found: list[KeyRange] = []
    rest: list[_Gap] = []
    for gap, below, above in reads:
        lower, upper = (_range(rows, range_of) for rows in (below, above))
        found += [one for one in (lower, upper) if one is not None]
        if lower is not None and gap.begin < lower[0]:
            rest.append(_Gap(gap.begin, lower[0]))
        if upper is not None and upper[1] < gap.end:
            rest.append(_Gap(upper[1], gap.end))
    return found, rest


def _range(rows: Any, range_of: Callable[[bytes], KeyRange]) -> KeyRange | None:
    for row in rows:
        return range_of(bytes(row.key))
    return None


def _middle(gap: _Gap) -> bytes:
    """Return a key in the middle of a gap, or its beginning when no key is in between."""
    shared = next(
        (n for n, (a, b) in enumerate(zip(gap.begin, gap.end, strict=False)) if a != b),
        min(len(gap.begin), len(gap.end)),
    )
    low, high = (_number(key[shared : shared + _HALVED_BYTES]) for key in gap)
    middle = gap.begin[:shared] + ((low + high) // 2).to_bytes(_HALVED_BYTES, "big")
    return middle if gap.begin < middle < gap.end else gap.begin


def _number(key: bytes) -> int:
    return int.from_bytes(key.ljust(_HALVED_BYTES, b"\0"), "big")
