"""FoundationDB's atomic operations as functions of the stored value and the parameter.

Each takes the value now stored (None when the key is absent) and the operation's
parameter, and returns the value to store, or None to leave the key absent. Numbers are
little-endian and take the parameter's length, as the documentation of each mutation type
says; ``min`` and ``bit_and`` store the parameter where the key is absent (API version 510
and later).
"""

from __future__ import annotations

from collections.abc import Callable

from fdbqueue.engines.embedded.limits import VALUE_SIZE_LIMIT

Operation = Callable[[bytes | None, bytes], bytes | None]


def _number(value: bytes | None, length: int) -> int:
    return int.from_bytes((value or b"")[:length], "little")


def add(value: bytes | None, param: bytes) -> bytes:
    """Add two little-endian integers, dropping a carry past the parameter's length."""
    length = len(param)
    total = _number(value, length) + int.from_bytes(param, "little")
    return total.to_bytes(length + 1, "little")[:length]


def bit_and(value: bytes | None, param: bytes) -> bytes:
    """Keep the bits set in both; an absent key takes the parameter."""
    if value is None:
        return param
    length = len(param)
    return (_number(value, length) & int.from_bytes(param, "little")).to_bytes(length, "little")


def bit_or(value: bytes | None, param: bytes) -> bytes:
    """Set the bits set in either."""
    length = len(param)
    return (_number(value, length) | int.from_bytes(param, "little")).to_bytes(length, "little")


def bit_xor(value: bytes | None, param: bytes) -> bytes:
    """Set the bits set in exactly one."""
    length = len(param)
    return (_number(value, length) ^ int.from_bytes(param, "little")).to_bytes(length, "little")


def maximum(value: bytes | None, param: bytes) -> bytes:
    """Keep the larger little-endian integer."""
    length = len(param)
    larger = max(_number(value, length), int.from_bytes(param, "little"))
    return larger.to_bytes(length, "little")


def minimum(value: bytes | None, param: bytes) -> bytes:
    """Keep the smaller little-endian integer; an absent key takes the parameter."""
    if value is None:
        return param
    length = len(param)
    smaller = min(_number(value, length), int.from_bytes(param, "little"))
    return smaller.to_bytes(length, "little")


def byte_max(value: bytes | None, param: bytes) -> bytes:
    """Keep the string that sorts last."""
    return param if value is None else max(value, param)


def byte_min(value: bytes | None, param: bytes) -> bytes:
    """Keep the string that sorts first."""
    return param if value is None else min(value, param)


def append_if_fits(value: bytes | None, param: bytes) -> bytes:
    """Append, unless the result would pass the value size limit."""
    value = value or b""
    return value + param if len(value) + len(param) <= VALUE_SIZE_LIMIT else value


def compare_and_clear(value: bytes | None, param: bytes) -> bytes | None:
    """Clear the key if it holds exactly the parameter."""
    return None if value == param else value


#: The binding's method name of each operation that depends on the stored value.
OPERATIONS: dict[str, Operation] = {
    "add": add,
    "bit_and": bit_and,
    "bit_or": bit_or,
    "bit_xor": bit_xor,
    "max": maximum,
    "min": minimum,
    "byte_max": byte_max,
    "byte_min": byte_min,
    "append_if_fits": append_if_fits,
    "compare_and_clear": compare_and_clear,
}
