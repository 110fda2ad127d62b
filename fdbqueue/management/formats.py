"""How the commands show things: lines of JSON for programs, lines and tables for people.

What is said of a queue, an item or a task is in :mod:`fdbqueue.columns`, where texts are made safe
for a terminal, too; here is how that is laid out. Lines of JSON are plain ASCII, and have all.

A :class:`Table` fits the terminal it is printed at. If there is no terminal, it has the width that
its cells need. At a terminal its columns share the width: names are shortened in the middle, other
texts at the end or wrapped. If the last columns do not fit beside the others, their cells go below
the row, each on lines of its own.
"""

from __future__ import annotations

import base64
import itertools
import json
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fdbqueue import columns
from fdbqueue.columns.text import clipped, counted
from fdbqueue.service import Undecodable

_PREVIEW_CHARACTERS = 60
_GAP = "  "
_ELLIPSIS = "\u2026"
#: A text is not shortened to less than this, however narrow the terminal is.
_LEAST_TEXT = 8
#: A foldable column that would be narrower than this goes below.
_READABLE = 24


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
    """A column of a table.

    Attributes:
        heading: Its heading.
        kind: ``"number"`` is aligned to the right, ``"name"`` may be shortened in the middle, and
            ``"text"`` is printed as it is.
        fold: What is done to a cell that is too wide beside the others: ``"cut"`` shortens it,
            ``"wrap"`` goes on in the next lines. Such columns, and those with ``"whole"``, whose
            cells can be copied, may go below the row; they are the last ones. Empty for others.
    """

    heading: str
    kind: str = "text"
    fold: str = ""


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


class TableLook(NamedTuple):
    """How a table is printed.

    Attributes:
        width: How many columns the terminal has; None if there is no terminal.
        paint: Returns a text in a style.
    """

    width: int | None = None
    paint: Callable[[str, str], str] = lambda text, _: text


class Table:
    """An aligned table that may be printed part by part.

    Columns grow when wider cells come, and never shrink if there is no terminal.

    Args:
        columns: The columns.
        look: How it is printed.
    """

    def __init__(self, columns: Sequence[TextColumn], look: TableLook) -> None:
        self._columns = columns
        self._look = look
        self._natural = [len(column.heading) for column in columns]
        self._widths = self._natural
        self._beside = len(columns)
        self._has_heading = False

    def expect(self, rows: Iterable[Sequence[str]]) -> None:
        """Make the columns wide enough for rows that may come."""
        for row in rows:
            widths = map(width_of, row)
            self._natural = [max(pair) for pair in zip(self._natural, widths, strict=True)]

    def lines(self, rows: Iterable[Sequence[str]]) -> list[str]:
        """Return the lines of rows; the very first row has the headings above it."""
        rows = list(rows)
        self.expect(rows)
        self._fit()
        lines = [line for row in rows for line in self._row(row)]
        if lines and not self._has_heading:
            self._has_heading = True
            lines.insert(0, self._heading())
        return lines

    def _fit(self) -> None:
        """Share the width of the terminal among the columns beside each other."""
        most = self._look.width
        self._widths = self._natural
        if most is None or _total(self._natural) <= most:
            return
        least = [self._least(at) for at in range(len(self._columns))]
        while _total(least[: self._beside]) > most and self._columns[self._beside - 1].fold:
            self._beside -= 1
        self._widths = _grown(least[: self._beside], self._natural, most)

    def _least(self, at: int) -> int:
        """Return the least width of a column."""
        column, natural = self._columns[at], self._natural[at]
        if column.fold in {"cut", "wrap"}:
            return min(natural, max(_READABLE, len(column.heading)))
        return min(natural, _LEAST_TEXT) if column.kind == "name" else natural

    def _heading(self) -> str:
        columns = self._columns[: self._beside]
        return self._line([Painted.of(column.heading, "MIGRATE_LABEL") for column in columns])

    def _row(self, row: Sequence[str]) -> list[str]:
        """Return the lines of a row: more than one if a cell wraps, or goes below."""
        cells = [self._cell_lines(at, cell) for at, cell in enumerate(row[: self._beside])]
        lines = list(map(self._line, itertools.zip_longest(*cells, fillvalue="")))
        for at, cell in enumerate(row[self._beside :], self._beside):
            if cell not in {"", "-"}:
                lines += [_GAP + self._painted(line) for line in self._below(at, cell)]
        return lines

    def _cell_lines(self, at: int, cell: str) -> list[str]:
        """Return the lines of a cell beside the others; only cells of the kind "wrap" have some."""
        if self._columns[at].fold != "wrap" or width_of(cell) <= self._widths[at]:
            return [cell]
        return _wrapped(cell, self._widths[at])

    def _below(self, at: int, cell: str) -> list[str]:
        """Return the lines of a cell below its row."""
        fold = self._columns[at].fold
        if fold == "whole" or self._look.width is None:
            return [cell]
        room = max(_LEAST_TEXT, self._look.width - len(_GAP))
        return _wrapped(cell, room) if fold == "wrap" else [shortened(cell, room)]

    def _line(self, cells: Sequence[str]) -> str:
        """Return a line of the cells that are beside each other."""
        parts = map(self._cell, self._columns, cells, self._widths)
        return _GAP.join(parts).rstrip()

    def _cell(self, column: TextColumn, cell: str, width: int) -> str:
        """Return a cell as wide as its column."""
        shown, taken, style = cell, width_of(cell), getattr(cell, "style", None)
        if taken > width:
            shown = shortened(cell, width, in_middle=column.kind == "name")
            taken = width_of(shown)
        space = " " * (width - taken)
        if style is not None:
            shown = self._look.paint(shown, style)
        return space + shown if column.kind == "number" else shown + space

    def _painted(self, text: str) -> str:
        style = getattr(text, "style", None)
        return text if style is None else self._look.paint(text, style)


def _wrapped(cell: str, width: int) -> list[str]:
    """Return the lines of a cell that wraps, each with the cell's style."""
    style = getattr(cell, "style", None)
    return [Painted.of(line, style) for line in textwrap.wrap(cell, width)]


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes; East Asian characters are wide."""
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


def shortened(text: str, most: int, *, in_middle: bool = False) -> str:
    """Return a text with an ellipsis for what is too much, at its end or in its middle."""
    if width_of(text) <= most:
        return text
    room = max(0, most - 1)
    behind = room // 2 if in_middle else 0
    head, tail = _taken(text, room - behind), _taken(text[::-1], behind)
    return head + _ELLIPSIS + tail[::-1]


def _taken(text: str, most: int) -> str:
    """Return the beginning of a text that takes at most some columns."""
    width = 0
    for at, character in enumerate(text):
        width += _character_width(character)
        if width > most:
            return text[:at]
    return text


def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _grown(least: Sequence[int], natural: Sequence[int], most: int) -> list[int]:
    """Return widths that take the whole width of a terminal, from the least ones on.

    First each grows to a readable width; what is left goes to the last columns first.
    """
    widths = list(least)
    left = max(0, most - _total(least))
    columns = range(len(least))
    for wanted, order in ((_READABLE, columns), (most, reversed(columns))):
        for at in order:
            more = min(left, max(0, min(natural[at], wanted) - widths[at]))
            widths[at] += more
            left -= more
    return widths


# What is said of queues, items and tasks

_STYLES = {"bad": "ERROR", "warning": "WARNING"}


def table_of(
    described: Sequence[columns.Column[columns.Row]], look: TableLook
) -> Callable[[Iterable[columns.Row]], list[str]]:
    """Return a function from rows to the lines of a table, as :meth:`Table.lines` has them.

    Args:
        described: The columns.
        look: How it is printed.
    """
    table = Table([_text_column(column) for column in described], look)

    def cells(row: columns.Row) -> list[str]:
        return [
            Painted.of(column.cell_text(row), _STYLES.get(column.alarm(column.value(row))))
            for column in described
        ]

    return lambda rows: table.lines(map(cells, rows))


def _text_column(column: columns.Column[Any]) -> TextColumn:
    kind = "number" if column.kind.is_number else "name" if column.is_name else "text"
    return TextColumn(column.label or column.capitals, kind, column.fold)


def facts(found: Sequence[tuple[str, str]]) -> list[str]:
    """Return headings and texts as aligned lines; a text may have several."""
    width = max(len(heading) for heading, _ in found)
    lines = []
    for heading, text in found:
        for number, line in enumerate(text.split("\n")):
            lines.append(f"{'' if number else heading:<{width}}{_GAP}{line}".rstrip())
    return lines
