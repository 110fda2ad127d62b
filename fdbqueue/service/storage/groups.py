"""Find the first elements of the keys in a range, many at a time.

FoundationDB cannot list prefixes: each name costs a read that skips to the next, and one after
the other that is a round trip for each name. Here the gaps between the known names are halved,
and all reads of a round are sent before the first is awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import SnapshotTransaction

#: How many gaps are halved in one round, in the order of their keys.
_GAPS_AT_ONCE = 64
#: How many bytes after the common prefix of two keys are halved.
_HALVED_BYTES = 8

Group = tuple[bytes, bytes]


class _Gap(NamedTuple):
    """A range of keys that may hold more groups; its last key is excluded."""

    begin: bytes
    end: bytes


def groups(
    tr: SnapshotTransaction, begin: bytes, end: bytes, group_of: Callable[[bytes], Group]
) -> Iterator[Group]:
    """Yield the groups of the keys in a range, in order; each is a range of keys.

    Args:
        tr: The transaction, or its snapshot.
        begin: Where to start.
        end: Where to stop, this key excluded.
        group_of: Returns the range of the group that a key belongs to.
    """
    gaps = [_Gap(begin, end)]
    known: list[Group] = []
    while gaps:
        halved, gaps = gaps[:_GAPS_AT_ONCE], gaps[_GAPS_AT_ONCE:]
        found, rest = _look(tr, halved, group_of)
        gaps = rest + gaps
        known = sorted({*known, *found})
        reached = gaps[0].begin if gaps else end
        while known and known[0][0] < reached:
            yield known.pop(0)


def _look(
    tr: SnapshotTransaction, gaps: list[_Gap], group_of: Callable[[bytes], Group]
) -> tuple[list[Group], list[_Gap]]:
    """Read from the middle of each gap in both directions; return the groups and the new gaps."""
    reads = []
    for gap in gaps:
        middle = _middle(gap)
        below = tr.get_range(gap.begin, middle, limit=1, reverse=True)
        above = tr.get_range(middle, gap.end, limit=1)
        reads.append((gap, below, above))
    found: list[Group] = []
    rest: list[_Gap] = []
    for gap, below, above in reads:
        lower, upper = (_group(rows, group_of) for rows in (below, above))
        found += [group for group in (lower, upper) if group is not None]
        if lower is not None and gap.begin < lower[0]:
            rest.append(_Gap(gap.begin, lower[0]))
        if upper is not None and upper[1] < gap.end:
            rest.append(_Gap(upper[1], gap.end))
    return found, rest


def _group(rows: Any, group_of: Callable[[bytes], Group]) -> Group | None:
    for row in rows:
        return group_of(bytes(row.key))
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
