"""Names of queues, and patterns of names: what they may be, which fit, and how they are found."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fdbqueue.engines.protocols import SnapshotTransaction
from fdbqueue.exceptions import InvalidInput

#: What a queue may be called; fits a URL, a file name and a command line as it is.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
#: The same with ``*`` for any characters: a pattern of names.
PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9_.*-]{0,99}")


def check_pattern(name: str) -> None:
    """Check that a text is a pattern of names.

    Raises:
        InvalidInput: It is not.
    """
    if not PATTERN.fullmatch(name):
        raise InvalidInput(name=name, reason="it is not a pattern of names")


def fits_of(patterns: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a function that returns which of the patterns a name fits."""
    tests = [(one, matcher(one)) for one in patterns]
    return lambda name: [one for one, matches in tests if matches(name)]


def matcher(pattern: str) -> Callable[[str], Any]:
    """Return what matches the names that fit a pattern, without a call of Python code."""
    return re.compile(fnmatch.translate(pattern)).match


def is_among(name: str, patterns: Sequence[str], left_out: Sequence[str] = ()) -> bool:
    """Tell whether a name fits one of some patterns, and none of others that are left out."""
    fits = functools.partial(fnmatch.fnmatchcase, name)
    return any(map(fits, patterns)) and not any(map(fits, left_out))


def covers(pattern: str, other: str) -> bool:
    """Tell whether every name that fits the other pattern fits this one, too.

    No literal of a pattern is a ``*``. So those of the other are covered by those of this one.
    """
    return fnmatch.fnmatchcase(other, pattern)


def share_a_name(one: str, other: str) -> bool:
    """Tell whether a text fits two patterns, in which ``*`` stands for any characters."""
    reached = {(0, 0)}
    left = [(0, 0)]
    while left:
        a, b = left.pop()
        if (a, b) == (len(one), len(other)):
            return True
        steps = []
        if one[a : a + 1] == "*":
            steps += [(a + 1, b), (a, b + 1)]
        if other[b : b + 1] == "*":
            steps += [(a, b + 1), (a + 1, b)]
        if one[a : a + 1] == other[b : b + 1]:
            steps.append((a + 1, b + 1))
        new = {step for step in steps if step[0] <= len(one) and step[1] <= len(other)} - reached
        reached |= new
        left.extend(new)
    return False


# Names in the keys of a database

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


class RangeSearch:
    """Finds the ranges that the keys between two belong to, in order, in one transaction or more.

    FoundationDB cannot list prefixes: each costs a read that skips to the next, and one after the
    other that is a round trip for each. Here the gaps between the known ranges are halved, and all
    reads of a round are sent before the first is awaited: about two for each range. They look ahead
    of what is asked for, and what they have found or ruled out is not read again.

    Args:
        begin: Where to start.
        end: Where to stop, this key excluded.
        range_of: Returns the range that a key belongs to.
    """

    def __init__(self, begin: bytes, end: bytes, range_of: Callable[[bytes], KeyRange]) -> None:
        self._gaps = [_Gap(begin, end)] if begin < end else []
        self._known: list[KeyRange] = []
        self._range_of = range_of

    def following(self, tr: SnapshotTransaction, count: int) -> list[KeyRange]:
        """Return the next ranges, ``count`` of them unless there are no more.

        Args:
            tr: The transaction, or its snapshot. Where it fails, another may go on.
            count: The most ranges.
        """
        while self._gaps and (len(self._known) < count or self._gaps[0] < self._known[count - 1]):
            halved, behind = self._gaps[:_GAPS_AT_ONCE], self._gaps[_GAPS_AT_ONCE:]
            found, rest = _look(tr, halved, self._range_of)
            self._known, self._gaps = sorted({*self._known, *found}), rest + behind
        some, self._known = self._known[:count], self._known[count:]
        return some


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
        lower, upper = _range(below, range_of), _range(above, range_of)
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
    """Return a key in the middle of a gap, or its beginning when no key is in between.

    It is as short as can be, so that it is rather before a range than within one, which would be
    found from both sides.
    """
    shared = next(
        (n for n, (a, b) in enumerate(zip(gap.begin, gap.end, strict=False)) if a != b),
        min(len(gap.begin), len(gap.end)),
    )
    low, high = _number(gap.begin[shared:]), _number(gap.end[shared:])
    middle = gap.begin[:shared] + ((low + high) // 2).to_bytes(_HALVED_BYTES, "big")
    lengths = range(shared + 1, len(middle) + 1)
    return next((k for n in lengths if gap.begin < (k := middle[:n]) < gap.end), gap.begin)


def _number(key: bytes) -> int:
    """Return the first bytes of a key as a number."""
    return int.from_bytes(key[:_HALVED_BYTES].ljust(_HALVED_BYTES, b"\0"), "big")
