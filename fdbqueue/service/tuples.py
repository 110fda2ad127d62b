"""Unpack FDB tuples of any program, and show them as JSON.

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
import math
import struct
import uuid
from collections.abc import Callable
from typing import Any

import fdb.tuple

#: What the tuple layer raises for bytes that are not a tuple, depending on the byte.
_ERRORS = (ValueError, IndexError, TypeError, OverflowError, RecursionError, struct.error)

_STAMP = struct.Struct(">10sH")
#: What the tuple layer unpacks as a versionstamp that no commit has completed.
_NO_STAMP = b"\xff" * 10
_NOT_FINITE = {text: float(text) for text in ("NaN", "Infinity", "-Infinity")}


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
