"""Pack FDB tuples fast, and unpack those that any program may have written."""

from __future__ import annotations

import struct
from typing import Any

import fdb.tuple

#: What the tuple layer raises for bytes that are not a tuple, depending on the byte.
_ERRORS = (ValueError, IndexError, TypeError, OverflowError, RecursionError, struct.error)

_DOUBLE = struct.Struct(">d")
#: The tuple layer's type codes for the elements that are packed here.
_BYTES, _FLOAT = b"\x01", b"\x21"
_ZERO, _LONGEST = 0x14, 0x1C
#: From this number on, the tuple layer writes the length of an integer, too.
_TOO_LARGE = (1 << 64) - 1
_SIGN = 0x80


def packed(element: Any) -> bytes:
    """Return ``fdb.tuple.pack((element,))``; for the elements of places in a third of the time.

    The results for several elements, joined, are the packed tuple of these elements.
    """
    kind = type(element)
    if kind is bytes:
        return _BYTES + element.replace(b"\x00", b"\x00\xff") + b"\x00"
    if kind is int and 0 <= element < _TOO_LARGE:
        length = (element.bit_length() + 7) // 8
        return bytes((_ZERO + length,)) + element.to_bytes(length, "big")
    if kind is float:
        data = _DOUBLE.pack(element)
        if data[0] < _SIGN:
            return _FLOAT + bytes((data[0] + _SIGN,)) + data[1:]
    return fdb.tuple.pack((element,))


def number_at(data: bytes, at: int) -> tuple[int | float | None, int]:
    """Return the number that is packed at an offset of a tuple, and the offset of its end.

    None for anything but integers from 0 to 64 bits and floats from 0 up, and for a number
    that is cut off.
    """
    code = data[at] if at < len(data) else 0
    if _ZERO <= code <= _LONGEST:
        end = at + 1 + code - _ZERO
        found: int | float = int.from_bytes(data[at + 1 : end], "big")
    elif code == _FLOAT[0] and data[at + 1 : at + 2] >= b"\x80":
        end = at + 9
        sign, rest = data[at + 1], data[at + 2 : end]
        if len(rest) != _DOUBLE.size - 1:
            return None, at
        (found,) = _DOUBLE.unpack(bytes((sign - _SIGN,)) + rest)
    else:
        return None, at
    return (found, end) if end <= len(data) else (None, at)


def ends_with_bytes(data: bytes, at: int) -> bool:
    """Tell whether the rest of a packed tuple, from an offset on, is one element of bytes."""
    if data[at : at + 1] != _BYTES or len(data) < at + 2 or data[-1]:
        return False
    inside = data[at + 1 : -1]
    return b"\x00" not in inside or b"\x00" not in inside.replace(b"\x00\xff", b"")


def unpack(data: bytes) -> tuple[Any, ...]:
    """Return the elements of a packed tuple.

    Raises:
        ValueError: The bytes are not an FDB tuple.
    """
    try:
        elements: tuple[Any, ...] = fdb.tuple.unpack(data)
    except _ERRORS as error:
        raise ValueError("the bytes are not an FDB tuple") from error
    return elements
