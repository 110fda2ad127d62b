"""Items as lines: JSON, which ``queue_push --items`` reads back, and rows of a table.

The one format of the lines of ``queue_drain``, ``queue_pop --json``, ``queue_peek --json`` and
``queue_show --json``, as ``docs/commands.md`` describes it:

- Every line has :data:`FIELDS`, in this order.
- A line about an item in any state has :data:`DETAILS` behind them.
- The line of an item that could not be decoded has ``undecodable`` and ``raw``, and cannot be
  read back.

Read back, the value, the priority, ``pushed_at`` and ``attempts`` are kept. Of the details,
``state`` and ``until`` keep a delayed item hidden; the rest is ignored. Items as the REST API
writes them have no other fields than these and ``lease``.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from typing import Any

from fdbqueue.exceptions import InvalidInput
from fdbqueue.management import formats
from fdbqueue.management.tables import Column, Look, Painted, Table
from fdbqueue.service import ITEM_STATES, Codec, Failure, Item, Undecodable

#: What every line of JSON has, in this order.
FIELDS = ("id", "priority", "value", "pushed_at", "attempts")
#: What the lines about items in any state have behind these. They are ignored by a push, but for
#: the state and the time of a delayed item.
DETAILS: dict[str, Callable[[Item], Any]] = {
    "state": lambda item: item.state,
    "until": lambda item: formats.timestamp(item.until),
    "reason": lambda item: item.reason,
    "died_at": lambda item: formats.timestamp(item.died_at),
    "worker": lambda item: item.worker,
    "failures": lambda item: list(map(_failure, item.failures)),
    "size": lambda item: item.size_bytes,
}
COLUMNS = (
    Column("ID"),
    Column("PRIORITY", "number"),
    Column("AGE", "number"),
    Column("ATTEMPTS", "number"),
)

_NAMES = frozenset(FIELDS)
_KNOWN = _NAMES | DETAILS.keys() | {"lease"}
#: What a table of items in a state says of them besides: the heading, and the cell.
_STATE_COLUMNS: dict[str, tuple[Column, Callable[[Item], str]]] = {
    "leased": (Column("ENDS", "number"), lambda item: _time_left(item.until)),
    "delayed": (Column("ENDS", "number"), lambda item: _time_left(item.until)),
    "dead": (
        Column("REASON", fold="cut"),
        lambda item: formats.clipped(item.reason or "-", _REASON_CHARACTERS),
    ),
}
_REASON_CHARACTERS = 200
#: How much of a value a table shows where there is no terminal.
_VALUE_CHARACTERS = 60
#: The lengths of ``2026-11-21T03:12:44.251094Z`` and ``2026-11-21T03:12:44Z``.
_TIME_CHARACTERS = (27, 20)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MAX_ATTEMPTS = 2**31 - 1


def formatter(
    codec: Codec, look: Look, *, as_json: bool, whole_values: bool = False, state: str = "ready"
) -> Callable[[list[Item]], list[str]]:
    """Return a function from items to lines.

    Args:
        codec: The codec of their queue.
        look: How a table is printed.
        as_json: Whether the lines are JSON, one for each item, not a table.
        whole_values: Whether a table shows values whole, because they are nowhere else.
        state: The state they are all in; for others than ``"ready"`` the lines have details.
    """
    if as_json:
        return lambda items: [item_line(codec, item, detailed=state != "ready") for item in items]
    more = [_STATE_COLUMNS[state]] if state in _STATE_COLUMNS else []
    value = Column("VALUE", fold="whole" if whole_values else "cut")
    table = Table([*COLUMNS, *(column for column, _ in more), value], look)
    most = None if whole_values else look.width or _VALUE_CHARACTERS

    def row(item: Item) -> list[str]:
        return [*_cells(item), *(cell(item) for _, cell in more), _value_cell(item.value, most)]

    return lambda items: table.lines(map(row, items))


def item_line(codec: Codec, item: Item, *, detailed: bool = False) -> str:
    """Return an item as one line of JSON, for its queue's codec to read it back.

    Args:
        codec: The codec.
        item: The item.
        detailed: Whether the line says more than what is kept when it is read back.
    """
    value = item.value
    record = {
        "id": item.id,
        "priority": item.priority,
        "value": None if isinstance(value, Undecodable) else codec.to_json(value),
        "pushed_at": formats.timestamp(item.pushed_at),
        "attempts": item.attempts,
    }
    if detailed:
        record |= {name: detail(item) for name, detail in DETAILS.items()}
    if isinstance(value, Undecodable):
        record |= {"undecodable": value.reason, "raw": value.raw}
    return formats.json_line(record)


def _failure(failure: Failure) -> dict[str, Any]:
    at = formats.timestamp(failure.at)
    return {**dataclasses.asdict(failure), "at": at}


def is_item(record: Any) -> bool:
    """Tell whether a JSON value has all the fields of an item's line."""
    return isinstance(record, dict) and record.keys() >= _NAMES


def item_of(record: Any) -> Item:
    """Return the item in a line; its value and its priority are as JSON has them.

    Raises:
        InvalidInput: It is not an item's line, or the item could not be decoded; it names the
            field that is missing, unknown or wrong.
    """
    _check_fields(record)
    state = record.get("state", "ready")
    if state not in ITEM_STATES:
        raise InvalidInput(reason=f"its state is not one of {', '.join(ITEM_STATES)}")
    until = _time(record, "until")
    if state == "delayed" and until is None:
        raise InvalidInput(reason="its state is delayed, but it has no until")
    return Item(
        value=record["value"],
        priority=record["priority"],
        id=_id(record["id"]),
        pushed_at=_time(record, "pushed_at"),
        attempts=_attempts(record["attempts"]),
        state=state,
        until=until,
    )


def _check_fields(record: Any) -> None:
    """Refuse a line that has not the fields of an item, or has others."""
    if not isinstance(record, dict):
        raise InvalidInput(reason="it is not an item's line")
    for name in FIELDS:
        if name not in record:
            raise InvalidInput(reason=f"it is not an item's line: its field {name!r} is missing")
    if "undecodable" in record:
        raise InvalidInput(reason="its value could not be decoded")
    for name in record:
        if name not in _KNOWN:
            raise InvalidInput(reason=f"its field {formats.preview(name)} is not one of an item's")


def _cells(item: Item) -> tuple[str, ...]:
    """Return the cells for :data:`COLUMNS`."""
    now = datetime.datetime.now(datetime.timezone.utc)
    pushed = item.pushed_at
    age = "-" if pushed is None else formats.age((now - pushed).total_seconds())
    return item.id, formats.or_dash(item.priority), age, f"{item.attempts:,}"


def _value_cell(value: Any, most: int | None) -> str:
    """Return the beginning of a value, or all of it, safe for a terminal."""
    text = formats.value_text(value)
    shown = formats.visible(text) if most is None else formats.clipped(text, most)
    return Painted.of(shown, "ERROR" if isinstance(value, Undecodable) else None)


def _time_left(until: datetime.datetime | None) -> str:
    """Return in how long a lease or a delay ends, or that it has expired."""
    if until is None:
        return "-"
    seconds = (until - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
    return f"in {formats.age(seconds)}" if seconds > 0 else "expired"


def _id(given: Any) -> str:
    if not isinstance(given, str):
        raise InvalidInput(reason="its id is not a string")
    return given


def _time(record: dict[str, Any], field: str) -> datetime.datetime | None:
    given = record.get(field)
    if given is None:
        return None
    if isinstance(given, str) and len(given) in _TIME_CHARACTERS and given.endswith("Z"):
        try:
            moment = datetime.datetime.fromisoformat(given[:-1] + "+00:00")
        except ValueError:
            moment = None
        if moment is not None and moment >= _EPOCH:
            return moment
    raise InvalidInput(
        reason=f"its {field} is not a UTC time such as 2026-11-21T03:12:44.251094Z, or null"
    )


def _attempts(given: Any) -> int:
    if type(given) is not int or not 0 <= given <= _MAX_ATTEMPTS:
        raise InvalidInput(reason="its attempts is not a whole number of at least 0")
    return given
