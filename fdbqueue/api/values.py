"""Convert values between JSON and a queue's codec.

``json``
    The JSON itself.
``bytes``
    A string: the bytes in base64.
``tuple``
    A tuple is an array, and bytes are ``{"base64": "..."}``. Elements that JSON does not have (a
    UUID, a versionstamp, NaN) are shown as ``{"text": "..."}`` and cannot be pushed.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fdb.tuple import SingleFloat

from fdbqueue.exceptions import InvalidValue, message_of
from fdbqueue.service import Push, Queue

_BASE64 = "base64"


def from_json(value: Any, queue: Queue) -> Any:
    """Return the value to push into a queue for a JSON value.

    Raises:
        InvalidValue: Its base64 is invalid.
    """
    convert = _FROM_JSON.get(queue.codec.name)
    if convert is None:
        return value
    try:
        return convert(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidValue(
            queue=queue.name, codec=queue.codec.name, reason=message_of(error)
        ) from error


def pushes_of(queue: Queue, entries: Sequence[Mapping[str, Any]]) -> list[Push]:
    """Return the pushes for the checked entries of a request.

    Args:
        queue: The queue to push to.
        entries: The arguments of each push.

    Raises:
        InvalidValue: The base64 of a value is invalid; the context has its ``index``.
    """
    pushes = []
    for index, entry in enumerate(entries):
        try:
            pushes.append(Push(**{**entry, "value": from_json(entry["value"], queue)}))
        except InvalidValue as error:
            raise InvalidValue(**error.context, index=index) from error
    return pushes


def to_json(value: Any, codec: str) -> Any:
    """Return the JSON for a value of a queue with that codec."""
    convert = _TO_JSON.get(codec)
    return value if convert is None else convert(value)


def encode(data: bytes) -> str:
    """Return bytes in base64."""
    return base64.b64encode(data).decode()


def _decode(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError("a base64 string is required")
    return base64.b64decode(text, validate=True)


def _to_element(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_to_element(member) for member in value)
    if isinstance(value, dict) and value.keys() == {_BASE64}:
        return _decode(value[_BASE64])
    return value


def _from_element(value: Any) -> Any:
    if isinstance(value, tuple | list):
        members = []
        for member in value:  # a loop takes as few stack frames per level as decoding did
            members.append(_from_element(member))  # noqa: PERF401
        return members
    if isinstance(value, bytes):
        return {_BASE64: encode(value)}
    if isinstance(value, SingleFloat):
        value = value.value
    if isinstance(value, float) and not math.isfinite(value):
        return {"text": str(value)}
    return value if value is None or isinstance(value, _JSON_SCALARS) else {"text": str(value)}


_JSON_SCALARS = (bool, int, float, str)
_FROM_JSON = {"bytes": _decode, "tuple": _to_element}
_TO_JSON = {"bytes": encode, "tuple": _from_element}
