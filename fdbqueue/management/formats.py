"""How the commands show things: lines of JSON for programs, lines and tables for people.

What is said of a queue, an item or a task is in :mod:`fdbqueue.columns`, where texts are made safe
for a terminal, too; here is how that is laid out. Lines of JSON are plain ASCII, and have all.

A :class:`Table` has the width that its cells need, as those of psql; a terminal that is narrower
wraps its lines. So what it prints can be copied and searched, whoever reads it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fdbqueue import columns
from fdbqueue.columns.text import clipped, counted
from fdbqueue.service import Undecodable

_PREVIEW_CHARACTERS = 60
_GAP = "  "
#: Returns a text in a style of Django's, by the style's name.
Paint = Callable[[str, str], str]


def json_line(record: dict[str, Any]) -> str:
    """Return a record as one line of JSON, in ASCII.

    Bytes become base64, infinities and NaN strings, and other types that JSON lacks, such
    as a UUID, their text: an item that was popped must not fail to be printed.
    """
    text = _encode(record)
    if "NaN" in text or "Infinity" in text:
        text = json.dumps(json.loads(text, parse_constant=str))
    return text


def value_text(value: Any) -> str:
    """Return a value as JSON, and bytes as Python writes them."""
    if isinstance(value, Undecodable):
        return f"(undecodable: {value.reason})"
    if isinstance(value, bytes):
        return repr(value)
    return json.dumps(value, ensure_ascii=False, default=_foreign)


def preview(value: Any) -> str:
    """Return the beginning of a value, safe for a terminal."""
    return clipped(value_text(value), _PREVIEW_CHARACTERS)


def item_count(number: int, state: str = "") -> str:
    """Return a number of items in words, such as ``"1,707 dead items"``."""
    return counted(number, f"{state} item".lstrip())


def _foreign(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


_encode = json.JSONEncoder(default=_foreign).encode


class TextColumn(NamedTuple):
    """A column of a table: its heading, and whether its cells are numbers, aligned to the right."""

    heading: str
    is_number: bool = False


class Painted(str):
    """The text of a cell with the name of a style of Django's: ``"ERROR"``, ``"WARNING"``, ..."""

    __slots__ = ("style",)
    style: str

    @classmethod
    def of(cls, text: str, style: str | None) -> str:
        """Return a text with a style, or the text itself if there is no style."""
        if style is None:
            return text
        painted = cls(text)
        painted.style = style
        return painted


class Table:
    """An aligned table that may be printed part by part; columns grow when wider cells come.

    Args:
        columns: The columns.
        paint: Returns a text in a style.
    """

    def __init__(self, columns: Sequence[TextColumn], paint: Paint) -> None:
        self._columns = columns
        self._paint = paint
        self._widths = [len(column.heading) for column in columns]
        self._has_heading = False

    def lines(self, rows: Iterable[Sequence[str]]) -> list[str]:
        """Return the lines of rows; the very first row has the headings above it."""
        rows = list(rows)
        for row in rows:
            self._widths = [max(pair) for pair in zip(self._widths, map(len, row), strict=True)]
        if rows and not self._has_heading:
            self._has_heading = True
            headings = [Painted.of(column.heading, "MIGRATE_LABEL") for column in self._columns]
            rows.insert(0, headings)
        return [
            _GAP.join(map(self._cell, self._columns, row, self._widths)).rstrip() for row in rows
        ]

    def _cell(self, column: TextColumn, cell: str, width: int) -> str:
        style, space = getattr(cell, "style", None), " " * (width - len(cell))
        shown = cell if style is None else self._paint(cell, style)
        return space + shown if column.is_number else shown + space


# What is said of queues, items and tasks

_STYLES = {"bad": "ERROR", "warning": "WARNING"}


def table_of(
    described: Sequence[columns.Column[columns.Row]], paint: Paint
) -> Callable[[Iterable[columns.Row]], list[str]]:
    """Return a function from rows to the lines of a table, as :meth:`Table.lines` has them.

    Args:
        described: The columns.
        paint: Returns a text in a style.
    """
    table = Table([_text_column(column) for column in described], paint)

    def cells(row: columns.Row) -> list[str]:
        return [
            Painted.of(column.cell_text(row), _STYLES.get(column.alarm(column.value(row))))
            for column in described
        ]

    return lambda rows: table.lines(map(cells, rows))


def _text_column(column: columns.Column[Any]) -> TextColumn:
    return TextColumn(column.label or column.capitals, column.kind.is_number)


def facts(found: Sequence[tuple[str, str]]) -> list[str]:
    """Return headings and texts as aligned lines; a text may have several."""
    width = max(len(heading) for heading, _ in found)
    lines = []
    for heading, text in found:
        for number, line in enumerate(text.split("\n")):
            lines.append(f"{'' if number else heading:<{width}}{_GAP}{line}".rstrip())
    return lines
