"""Pack FDB tuples fast, unpack tuples of any program, and show them as JSON.

Values come back from their JSON exactly. A tuple is an array, and what JSON lacks is an object of
one field. That is never mistaken for a value, because the tuple layer has no objects:

    {"base64": "AP8="}            bytes
    {"uuid": "..."}               a UUID
    {"float": "NaN"}              a float that JSON lacks: also "Infinity" and "-Infinity"
    {"float32": 0.5}              a float of 32 bits; the same three texts stand for what JSON lacks
    {"versionstamp": "..."}       a versionstamp: its 12 bytes in base64
"""

from __future__ import annotations

import base64
import functools
import math
import struct
import uuid
from collections.abc import Callable
from typing import Any

import fdb.tuple

#: What the tuple layer raises for bytes that are not a tuple, depending on the byte.
_ERRORS = (ValueError, IndexError, TypeError, OverflowError, RecursionError, struct.error)

_DOUBLE = struct.Struct(">d")
#: The tuple layer's type codes for the elements that are packed here.
_BYTES, _TEXT, _FLOAT = b"\x01", b"\x02", b"\x21"
_ZERO, _LONGEST = 0x14, 0x1C
#: From this number on, the tuple layer writes the length of an integer, too.
_TOO_LARGE = (1 << 64) - 1
_SIGN = 0x80

_STAMP = struct.Struct(">10sH")
#: What the tuple layer unpacks as a versionstamp that no commit has completed.
_NO_STAMP = b"\xff" * 10
_NOT_FINITE = {text: float(text) for text in ("NaN", "Infinity", "-Infinity")}


def packed(element: Any) -> bytes:
    """Return ``fdb.tuple.pack((element,))``; for the elements of places in a third of the time.

    The results for several elements, joined, are the packed tuple of these elements.
    """
    kind = type(element)
    if kind is bytes:
        return _BYTES + element.replace(b"\x00", b"\x00\xff") + b"\x00"
    if kind is str:
        return _TEXT + element.encode().replace(b"\x00", b"\x00\xff") + b"\x00"
    if kind is int and 0 <= element < _TOO_LARGE:
        length = (element.bit_length() + 7) // 8
        return bytes((_ZERO + length,)) + element.to_bytes(length, "big")
    if kind is float:
        data = _DOUBLE.pack(element)
        if data[0] < _SIGN:
            return _FLOAT + bytes((data[0] + _SIGN,)) + data[1:]
    return fdb.tuple.pack((element,))


_packed_number = functools.lru_cache(maxsize=1_000, typed=True)(packed)


def packed_number(number: float) -> bytes:
    """Return what :func:`packed` does; in a third of the time, because few priorities recur."""
    if number or type(number) is int:
        return _packed_number(number)
    return packed(number)  # 0.0 and -0.0 are two, and equal


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


def to_json(value: Any) -> Any:
    """Return a value that was unpacked as JSON."""
    if isinstance(value, tuple | list):
        members = []
        for member in value:  # a loop takes as few stack frames per level as decoding did
            members.append(to_json(member))  # noqa: PERF401
        return members
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    for kind, form, shown in _SHOWN:
        if isinstance(value, kind):
            return {form: shown(value)}
    return {"text": str(value)}


def from_json(value: Any) -> Any:
    """Return the value that a JSON value stands for; an object of no such form as it is.

    Raises:
        TypeError, ValueError: What such an object has is not of its form.
    """
    if isinstance(value, list):
        return tuple(from_json(member) for member in value)
    if isinstance(value, dict) and len(value) == 1:
        ((form, given),) = value.items()
        if form in _FORMS:
            return _FORMS[form](given)
    return value


def from_base64(value: Any) -> bytes:
    """Return the bytes in a text of base64.

    Raises:
        TypeError: It is not a text.
        ValueError: It is not base64.
    """
    if not isinstance(value, str):
        raise TypeError("a JSON string with base64 is needed")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise ValueError(f"it is not base64: {error}") from error


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return next(text for text, number in _NOT_FINITE.items() if str(number) == str(value))


def _stamp(value: Any) -> str:
    return _to_base64(_STAMP.pack(value.tr_version or _NO_STAMP, value.user_version))


def _uuid(value: Any) -> uuid.UUID:
    if not isinstance(value, str):
        raise TypeError("a JSON string with a UUID is needed")
    try:
        return uuid.UUID(value)
    except ValueError as error:
        raise ValueError("it is not a UUID") from error


def _float(value: Any) -> float:
    if not isinstance(value, str) or value not in _NOT_FINITE:
        raise ValueError(f"a float that JSON lacks is one of {', '.join(_NOT_FINITE)}")
    return _NOT_FINITE[value]


def _float32(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return fdb.tuple.SingleFloat(_float(value))
    try:
        struct.pack(">f", value)
    except (OverflowError, struct.error):
        raise ValueError("the number does not fit into a float of 32 bits") from None
    return fdb.tuple.SingleFloat(value)


def _versionstamp(value: Any) -> Any:
    data = from_base64(value)
    if len(data) != _STAMP.size:
        raise ValueError(f"a versionstamp has {_STAMP.size} bytes, not {len(data)}")
    return fdb.tuple.Versionstamp(*_STAMP.unpack(data))


_FORMS: dict[str, Callable[[Any], Any]] = {
    "base64": from_base64,
    "uuid": _uuid,
    "float": _float,
    "float32": _float32,
    "versionstamp": _versionstamp,
}
#: Types that JSON lacks, the forms of their objects, and what these hold.
_SHOWN: tuple[tuple[type, str, Callable[[Any], Any]], ...] = (
    (bytes, "base64", _to_base64),
    (float, "float", _number),
    (fdb.tuple.SingleFloat, "float32", lambda value: _number(value.value)),
    (uuid.UUID, "uuid", str),
    (fdb.tuple.Versionstamp, "versionstamp", _stamp),
)
