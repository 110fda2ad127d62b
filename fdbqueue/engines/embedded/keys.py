"""Keys: what callers may pass as one, selectors of keys, and ranges and sets of ranges of keys."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

Range = tuple[bytes, bytes]

_POINT = 0xFFFFFFFF


def after(key: bytes) -> bytes:
    """Return the first key after ``key``, so that ``[key, after(key))`` holds it alone."""
    return key + b"\x00"


class RangeSet:
    """Hold disjoint, sorted, half-open ranges of keys.

    ``begins[i]`` and ``ends[i]`` bound the i-th range. Ranges that touch are merged.
    """

    __slots__ = ("begins", "ends")

    def __init__(self) -> None:
        self.begins: list[bytes] = []
        self.ends: list[bytes] = []

    @classmethod
    def of(cls, ranges: Iterable[Range]) -> RangeSet:
        """Build a set from ranges in any order, overlapping or not; empty ones are dropped."""
        merged = cls()
        begins, ends = merged.begins, merged.ends
        for begin, end in sorted(ranges):
            if begin >= end:
                continue
            if ends and begin <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                begins.append(begin)
                ends.append(end)
        return merged

    def __bool__(self) -> bool:
        return bool(self.begins)

    def __iter__(self) -> Iterator[Range]:
        return zip(self.begins, self.ends, strict=True)

    def __contains__(self, key: bytes) -> bool:
        index = bisect_right(self.begins, key) - 1
        return index >= 0 and key < self.ends[index]

    def intersects(self, begin: bytes, end: bytes) -> bool:
        """Tell whether any key of ``[begin, end)`` is in the set."""
        index = bisect_left(self.begins, end) - 1
        return index >= 0 and self.ends[index] > begin

    def within(self, begin: bytes, end: bytes) -> list[Range]:
        """Return the parts of ``[begin, end)`` that are in the set, in order."""
        parts = []
        for index in range(bisect_right(self.ends, begin), len(self.begins)):
            if self.begins[index] >= end:
                break
            parts.append((max(begin, self.begins[index]), min(end, self.ends[index])))
        return parts

    def outside(self, begin: bytes, end: bytes) -> list[Range]:
        """Return the parts of ``[begin, end)`` that are not in the set, in order."""
        gaps = []
        for covered_begin, covered_end in self.within(begin, end):
            if begin < covered_begin:
                gaps.append((begin, covered_begin))
            begin = covered_end
        if begin < end:
            gaps.append((begin, end))
        return gaps

    def add(self, begin: bytes, end: bytes) -> None:
        """Put ``[begin, end)`` into the set; an empty range changes nothing."""
        if begin >= end:
            return
        first = bisect_left(self.ends, begin)
        last = bisect_right(self.begins, end)
        if first < last:
            begin = min(begin, self.begins[first])
            end = max(end, self.ends[last - 1])
        self.begins[first:last] = [begin]
        self.ends[first:last] = [end]

    def remove(self, begin: bytes, end: bytes) -> None:
        """Take ``[begin, end)`` out of the set, splitting what it cuts."""
        if begin >= end:
            return
        first = bisect_right(self.ends, begin)
        last = bisect_left(self.begins, end)
        if first >= last:
            return
        kept = []
        if self.begins[first] < begin:
            kept.append((self.begins[first], begin))
        if self.ends[last - 1] > end:
            kept.append((end, self.ends[last - 1]))
        self.begins[first:last] = [kept_begin for kept_begin, _ in kept]
        self.ends[first:last] = [kept_end for _, kept_end in kept]

    @classmethod
    def decode(cls, data: bytes) -> RangeSet:
        """Return the set that :func:`encoded` made ``data`` from."""
        decoded = cls()
        (count,) = struct.unpack_from(">I", data)
        lengths = struct.unpack_from(f">{count}I", data, 4)
        position = 4 + 4 * count
        for index in range(0, count, 2):
            begin = data[position : position + lengths[index]]
            position += lengths[index]
            if lengths[index + 1] == _POINT:
                end = after(begin)
            else:
                end = data[position : position + lengths[index + 1]]
                position += lengths[index + 1]
            decoded.begins.append(begin)
            decoded.ends.append(end)
        return decoded


def encoded(ranges: list[Range]) -> bytes:
    """Return the set of some ranges as bytes: a count, the lengths, then the keys in a row.

    A range has the lengths of its begin and of its end. One of a single key has only its begin, and
    a mark in place of the second length.
    """
    keys = []
    for begin, end in ranges:  # a comprehension would be one more call of each commit
        if end == begin + b"\x00":
            keys.append(begin)
    if len(keys) == len(ranges):  # as in nearly all commits
        keys = sorted(set(keys))
        lengths = [_POINT] * (2 * len(keys))
        lengths[::2] = map(len, keys)
    else:
        keys, lengths = [], []
        for begin, end in RangeSet.of(ranges):
            is_point = end == begin + b"\x00"
            keys += [begin] if is_point else [begin, end]
            lengths += [len(begin), _POINT if is_point else len(end)]
    return struct.pack(f">{len(lengths) + 1}I", len(lengths), *lengths) + b"".join(keys)


class KeySelector:
    """Name a key by its place relative to another, as ``fdb.KeySelector`` does.

    Args:
        key: The key it is relative to.
        or_equal: Whether the place before the offset is the last key at or before ``key``,
            instead of the last key before it.
        offset: How many keys to go on from there.
    """

    __slots__ = ("key", "offset", "or_equal")

    def __init__(self, key: Any, or_equal: bool, offset: int) -> None:
        self.key = key
        self.or_equal = or_equal
        self.offset = offset

    @classmethod
    def last_less_than(cls, key: Any) -> KeySelector:
        """Select the last key before ``key``."""
        return cls(key, False, 0)

    @classmethod
    def last_less_or_equal(cls, key: Any) -> KeySelector:
        """Select the last key at or before ``key``."""
        return cls(key, True, 0)

    @classmethod
    def first_greater_than(cls, key: Any) -> KeySelector:
        """Select the first key after ``key``."""
        return cls(key, True, 1)

    @classmethod
    def first_greater_or_equal(cls, key: Any) -> KeySelector:
        """Select the first key at or after ``key``."""
        return cls(key, False, 1)

    def __add__(self, offset: int) -> KeySelector:
        return KeySelector(self.key, self.or_equal, self.offset + offset)

    def __sub__(self, offset: int) -> KeySelector:
        return KeySelector(self.key, self.or_equal, self.offset - offset)

    def __repr__(self) -> str:
        return f"KeySelector({self.key!r}, {self.or_equal!r}, {self.offset!r})"


def as_key(key: Any) -> bytes:
    """Return the bytes of a key given as bytes, a subspace, or a value read.

    Raises:
        TypeError: It is none of these.
    """
    if type(key) is bytes:
        return key
    if hasattr(key, "as_foundationdb_key"):
        key = key.as_foundationdb_key()
    if not isinstance(key, bytes):
        raise TypeError("Key must be of type bytes")
    return key


def as_value(value: Any) -> bytes:
    """Return the bytes of a value given as bytes or a value read.

    Raises:
        TypeError: It is neither.
    """
    if type(value) is bytes:
        return value
    if hasattr(value, "as_foundationdb_value"):
        value = value.as_foundationdb_value()
    if not isinstance(value, bytes):
        raise TypeError("Value must be of type bytes")
    return value


def as_selector(key: Any, default: bytes) -> KeySelector:
    """Return a selector for a key, a selector, or None, with ``or_equal`` carried out.

    The key of the selector that is returned is the one to count from; ``or_equal`` says
    that it is the key right after the caller's.
    """
    if type(key) is bytes:
        return KeySelector(key, False, 1)
    if not hasattr(key, "or_equal"):
        return KeySelector(default if key is None else as_key(key), False, 1)
    found = as_key(key.key)
    return KeySelector(after(found) if key.or_equal else found, key.or_equal, key.offset)


#: Where a range begins or ends: a key, or what :func:`as_selector` returned.
Place = bytes | KeySelector


def selector_of(place: Place) -> KeySelector:
    """Return the selector of a place."""
    return place if isinstance(place, KeySelector) else KeySelector(place, False, 1)


def is_within(selector: KeySelector, end: bytes) -> bool:
    """Tell whether the key that a caller gave to :func:`as_selector` is at most ``end``."""
    return selector.key <= end or (selector.or_equal and selector.key[:-1] <= end)


def first_after_prefix(prefix: bytes) -> bytes:
    """Return the first key that does not start with ``prefix``.

    Raises:
        ValueError: Every key after it does.
    """
    stripped = prefix.rstrip(b"\xff")
    if not stripped:
        raise ValueError("Key must contain at least one byte not equal to 0xFF.")
    return stripped[:-1] + bytes([stripped[-1] + 1])
