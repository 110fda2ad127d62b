"""Items as lines of JSON: what ``queue_drain``, ``queue_pop`` and ``queue_peek`` write.

``queue_push --items`` reads them back.
"""

from __future__ import annotations

import datetime
from typing import Any

from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import Item

#: What every line has, in this order.
FIELDS = ("id", "priority", "value", "pushed_at", "attempts")
_NAMES = frozenset(FIELDS)

#: The length of ``2026-11-21T03:12:44.251094Z``.
_TIME_CHARACTERS = 27
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MAX_ATTEMPTS = 2**31 - 1


def is_record(value: Any) -> bool:
    """Tell whether a JSON value has all that a line of an item has."""
    return isinstance(value, dict) and value.keys() >= _NAMES


def item_of(record: Any) -> Item:
    """Return the item in a line; its value and its priority are as JSON has them.

    Raises:
        InvalidInput: It is not such a line, or of an item that could not be decoded.
    """
    if not isinstance(record, dict) or record.keys() != _NAMES:
        undecodable = is_record(record) and "undecodable" in record
        reason = "its value could not be decoded" if undecodable else "it is not an item's line"
        raise InvalidInput(reason=reason)
    return Item(
        value=record["value"],
        priority=record["priority"],
        id=_id(record["id"]),
        pushed_at=_time(record["pushed_at"]),
        attempts=_attempts(record["attempts"]),
    )


def _id(given: Any) -> str:
    if not isinstance(given, str):
        raise InvalidInput(reason="its id is not a text")
    return given


def _time(given: Any) -> datetime.datetime | None:
    if given is None:
        return None
    if isinstance(given, str) and len(given) == _TIME_CHARACTERS and given.endswith("Z"):
        try:
            moment = datetime.datetime.fromisoformat(given[:-1] + "+00:00")
        except ValueError:
            moment = None
        if moment is not None and moment >= _EPOCH:
            return moment
    raise InvalidInput(reason="its pushed_at is not a UTC time as items have it, or null")


def _attempts(given: Any) -> int:
    if type(given) is not int or not 0 <= given <= _MAX_ATTEMPTS:
        raise InvalidInput(reason="its attempts are not a whole number from 0 on")
    return given
