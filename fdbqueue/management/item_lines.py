"""Items as lines: JSON, which ``queue_push --items`` reads back, and rows of a table."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from fdbqueue.exceptions import InvalidInput
from fdbqueue.management import formats
from fdbqueue.service import Codec, Item, Undecodable

#: What every line of JSON has, in this order.
FIELDS = ("id", "priority", "value", "pushed_at", "attempts")
COLUMNS = ("ID", "PRIORITY", "PUSHED (UTC)", "ATTEMPTS", "VALUE")

_NAMES = frozenset(FIELDS)
#: The length of ``2026-11-21T03:12:44.251094Z``.
_TIME_CHARACTERS = 27
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MAX_ATTEMPTS = 2**31 - 1


def formatter(
    codec: Codec, *, as_json: bool, whole_values: bool = False
) -> Callable[[list[Item]], list[str]]:
    """Return a function from items to lines, one for each.

    Args:
        codec: The codec of their queue.
        as_json: Whether the lines are JSON, not rows of a table.
        whole_values: Whether a table shows values whole, because they are nowhere else.
    """
    if as_json:
        return lambda items: [item_line(codec, item) for item in items]
    table = formats.Table(COLUMNS)
    return lambda items: table.lines(_row(item, whole=whole_values) for item in items)


def item_line(codec: Codec, item: Item) -> str:
    """Return an item as one line of JSON, for its queue's codec to read it back."""
    is_exact = codec.is_exact_in_json and not isinstance(item.value, Undecodable)
    record = {
        "id": item.id,
        "priority": item.priority,
        "value": codec.to_json(item.value) if is_exact else item.value,
        "pushed_at": formats.timestamp(item.pushed_at),
        "attempts": item.attempts,
    }
    if isinstance(item.value, Undecodable):
        record |= {"value": None, "undecodable": item.value.reason, "raw": item.value.raw}
    return formats.json_line(record)


def is_item(record: Any) -> bool:
    """Tell whether a JSON value has all the fields of an item's line."""
    return isinstance(record, dict) and record.keys() >= _NAMES


def item_of(record: Any) -> Item:
    """Return the item in a line; its value and its priority are as JSON has them.

    Raises:
        InvalidInput: It is not an item's line, or the item could not be decoded.
    """
    if not isinstance(record, dict) or record.keys() != _NAMES:
        undecodable = is_item(record) and "undecodable" in record
        reason = "its value could not be decoded" if undecodable else "it is not an item's line"
        raise InvalidInput(reason=reason)
    return Item(
        value=record["value"],
        priority=record["priority"],
        id=_id(record["id"]),
        pushed_at=_time(record["pushed_at"]),
        attempts=_attempts(record["attempts"]),
    )


def _row(item: Item, *, whole: bool) -> tuple[str, ...]:
    pushed_at = "-" if item.pushed_at is None else f"{item.pushed_at:%Y-%m-%d %H:%M:%S}"
    value = item.value
    shown = formats.visible(formats.value_text(value)) if whole else formats.preview(value)
    return item.id, formats.or_dash(item.priority), pushed_at, str(item.attempts), shown


def _id(given: Any) -> str:
    if not isinstance(given, str):
        raise InvalidInput(reason="its id is not a string")
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
    raise InvalidInput(
        reason="its pushed_at is not a UTC time such as 2026-11-21T03:12:44.251094Z, or null"
    )


def _attempts(given: Any) -> int:
    if type(given) is not int or not 0 <= given <= _MAX_ATTEMPTS:
        raise InvalidInput(reason="its attempts is not a whole number of at least 0")
    return given
