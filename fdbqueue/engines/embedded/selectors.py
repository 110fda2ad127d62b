"""Key selectors and the conversion of what callers pass as keys and values."""

from __future__ import annotations

from typing import Any

from fdbqueue.engines.embedded.ranges import after


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
