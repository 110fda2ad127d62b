"""Types that JSON does not have, in arguments and return values: the option ``rich_types``.

A value of such a type is stored as a dictionary of one name, which says the type, and a text:

    {"$datetime": "2026-11-26T16:30:00+00:00"}

A dictionary of the project's own that has one name which begins so is stored as the only one of
``{"$dict": {...}}``. So each has one meaning. What is stored like this says so beside it (``rich``
in the item of a task, and in its record), whatever the option is by then: so it is decoded by every
worker, and what was stored without it is never taken for it. Nothing is imported or run for it. A
type that this version does not know is refused.

A ``datetime`` keeps its offset from UTC, not the name of its zone. Subclasses are refused, as they
would come back as another type.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fdbqueue.tasks.compat import normalize_json
from fdbqueue.tasks.exceptions import TypeUnknown

_SIGN, _DICT = "$", "$dict"
_MICROSECOND = datetime.timedelta(microseconds=1)
#: How the values of each type become texts, and these become values again.
_TYPES: dict[type, tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    datetime.datetime: (datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    datetime.date: (datetime.date.isoformat, datetime.date.fromisoformat),
    datetime.time: (datetime.time.isoformat, datetime.time.fromisoformat),
    datetime.timedelta: (
        lambda value: f"{value // _MICROSECOND} us",
        lambda text: int(text.removesuffix(" us")) * _MICROSECOND,
    ),
    decimal.Decimal: (str, decimal.Decimal),
    uuid.UUID: (str, uuid.UUID),
}
_KINDS = {f"{_SIGN}{kind.__name__.lower()}": kind for kind in _TYPES}
_NAMES = {kind: name for name, kind in _KINDS.items()}
#: The types.
KNOWN = frozenset(_TYPES)
#: The longest text of a value, but for that of a Decimal.
_MAX_TEXT = 100


@dataclass(frozen=True, slots=True)
class Rich:
    """A value as :func:`encode` stores it."""

    stored: Any


def encode(value: Any) -> Any:
    """Return a value as JSON has it, with those types.

    Raises:
        TypeError: Something in it is neither JSON nor of one of them.
        ValueError: Bytes are no UTF-8, or a time has a zone that needs a date.
    """
    kind = type(value)
    if kind in _NAMES:
        if kind is datetime.time and value.tzinfo is not None and value.utcoffset() is None:
            raise ValueError("a time has a zone whose offset depends on the date")
        return {_NAMES[kind]: _TYPES[kind][0](value)}
    if isinstance(value, Mapping):
        found = {normalize_json(name): encode(one) for name, one in value.items()}
        return {_DICT: found} if _is_special(found) else found
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [encode(one) for one in value]
    return normalize_json(value)


def decode(stored: Any) -> Any:
    """Return the value that :func:`encode` has stored so: a copy.

    Raises:
        TypeUnknown: It has a type that is not known here, or a text that is none of its type.
    """
    if isinstance(stored, list):
        return [decode(one) for one in stored]
    if not isinstance(stored, dict):
        return stored
    if not _is_special(stored):
        return {name: decode(one) for name, one in stored.items()}
    ((name, inner),) = stored.items()
    if name == _DICT and isinstance(inner, dict):
        return {each: decode(one) for each, one in inner.items()}
    kind = _KINDS.get(name)
    if kind is None or not isinstance(inner, str):
        raise TypeUnknown(type=name[:_MAX_TEXT])
    if kind is not decimal.Decimal and len(inner) > _MAX_TEXT:
        raise TypeUnknown(type=name, reason="its text is too long")
    try:
        return _TYPES[kind][1](inner)
    except (ArithmeticError, ValueError) as error:
        raise TypeUnknown(type=name, text=inner[:_MAX_TEXT]) from error


def readable(stored: Any) -> Any:
    """Return a value as :func:`decode` does, or as it is stored if that cannot be."""
    with contextlib.suppress(TypeUnknown):
        return decode(stored)
    return stored


def _is_special(found: dict[Any, Any]) -> bool:
    (name,) = found if len(found) == 1 else [None]
    return isinstance(name, str) and str.startswith(name, _SIGN)  # whatever a subclass shows


# What a chain or a group gives on


def stored_of(value: Any) -> Any:
    """Return what is stored of a value that may be a :class:`Rich` one."""
    return value.stored if isinstance(value, Rich) else value


def returned(value: Any) -> Any:
    """Return what a function returned, given what is stored of it, which may be :class:`Rich`."""
    return readable(value.stored) if isinstance(value, Rich) else value


def all_rich(values: Sequence[Any]) -> list[Any] | Rich:
    """Return values as one list: a :class:`Rich` one if one of them is."""
    if not any(isinstance(value, Rich) for value in values):
        return [*values]
    return Rich([one.stored if isinstance(one, Rich) else encode(one) for one in values])


def with_given(call: dict[str, Any], given: Sequence[Any]) -> dict[str, Any]:
    """Return a stored call with what it is given in front of its arguments."""
    is_rich, first = call.get("rich", False), all_rich(given)
    if not is_rich and isinstance(first, list):
        return {**call, "args": [*first, *call["args"]]}
    own = [call["args"], call["kwargs"]]
    args, kwargs = own if is_rich else map(encode, own)
    first = encode(first) if isinstance(first, list) else first.stored
    return {**call, "args": [*first, *args], "kwargs": kwargs, "rich": True}
