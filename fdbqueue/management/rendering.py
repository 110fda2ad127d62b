"""How the commands show items: JSON lines for programs, aligned tables for people.

What is in a queue is not to be trusted: a terminal obeys the control characters it is
sent. JSON lines are plain ASCII, and tables show such characters as escapes.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterable
from typing import Any

from fdbqueue.service import Item, Undecodable

_PREVIEW_CHARACTERS = 60
_TOLD_CHARACTERS = 300
_AGES = (("d", 86_400), ("h", 3_600), ("m", 60))


def json_line(record: dict[str, Any]) -> str:
    """Return a record as one line of JSON, in ASCII.

    Bytes become base64, infinities and NaN strings, and what else JSON does not know, such
    as a UUID, its text: an item that was popped must not fail to be shown.
    """
    text = _encode(record)
    if "NaN" in text or "Infinity" in text:
        text = json.dumps(json.loads(text, parse_constant=str))
    return text


def item_line(item: Item) -> str:
    """Return an item as one line of JSON."""
    record = {
        "id": item.id,
        "priority": item.priority,
        "value": item.value,
        "pushed_at": timestamp(item.pushed_at),
        "attempts": item.attempts,
    }
    if isinstance(item.value, Undecodable):
        record |= {"value": None, "undecodable": item.value.reason, "raw": item.value.raw}
    return json_line(record)


def item_row(item: Item, *, whole: bool) -> tuple[str, ...]:
    """Return an item as a row of :data:`ITEM_COLUMNS`, its value whole or clipped."""
    pushed_at = "-" if item.pushed_at is None else f"{item.pushed_at:%Y-%m-%d %H:%M:%S}"
    shown = visible(text_of(item.value)) if whole else preview(item.value)
    return item.id, or_dash(item.priority), pushed_at, str(item.attempts), shown


ITEM_COLUMNS = ("ID", "PRIORITY", "PUSHED (UTC)", "ATTEMPTS", "VALUE")


def text_of(value: Any) -> str:
    """Return the text of a value: JSON, or what Python writes for bytes."""
    if isinstance(value, Undecodable):
        return f"(undecodable: {value.reason})"
    if isinstance(value, bytes):
        return repr(value)
    return json.dumps(value, ensure_ascii=False, default=_foreign)


def preview(value: Any) -> str:
    """Return the beginning of a value, harmless to a terminal."""
    return clipped(text_of(value), _PREVIEW_CHARACTERS)


def clipped(text: str, most: int = _TOLD_CHARACTERS) -> str:
    """Return the beginning of a text, harmless to a terminal."""
    shown = visible(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def visible(text: str) -> str:
    r"""Return a text with each character that does not print as an escape, such as ``\x1b``."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def timestamp(moment: datetime.datetime | None) -> str | None:
    """Return a UTC time as the REST API writes it, with microseconds."""
    if moment is None:
        return None
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def age(seconds: float) -> str:
    """Return a time span in its largest unit, as ``"3d"`` or ``"0s"``."""
    for unit, length in _AGES:
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"


def or_dash(value: object) -> str:
    """Return the text of a value, a dash for None."""
    return "-" if value is None else str(value)


class Table:
    """An aligned table that may be printed a piece at a time.

    Columns grow as wider cells come, and never shrink.

    Args:
        columns: The headings.
    """

    def __init__(self, columns: Iterable[str]) -> None:
        self._columns: tuple[str, ...] | None = tuple(columns)
        self._widths = [len(column) for column in self._columns or ()]

    def lines(self, rows: Iterable[tuple[str, ...]]) -> list[str]:
        """Return a line for each row; the first ever has the headings above it."""
        rows = list(rows)
        for row in rows:
            self._widths = [max(pair) for pair in zip(self._widths, map(len, row), strict=True)]
        lines = [self._line(row) for row in rows]
        if lines and self._columns is not None:
            lines[0] = f"{self._line(self._columns)}\n{lines[0]}"
            self._columns = None
        return lines

    def _line(self, cells: tuple[str, ...]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True))
        return "  ".join(padded).rstrip()


def _foreign(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


_encode = json.JSONEncoder(default=_foreign).encode
