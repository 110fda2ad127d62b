"""A column of a table, a fact in a list, a tile above a table: what it says, and how it is shown.

A column is described once (:class:`Column`): its name, its heading, its value as a program has it,
and how the pages write that. Those of queues are in :mod:`fdbqueue.pages.queue_columns`, those of
items in :mod:`fdbqueue.pages.item_columns`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from django.template.loader import render_to_string
from django.utils.functional import Promise
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

Row = TypeVar("Row")

#: The states of items, and what readers call them.
STATES = (
    ("ready", _("Ready")),
    ("leased", _("Leased")),
    ("delayed", _("Delayed")),
    ("dead", _("Dead")),
)
#: What is shown of nothing.
DASH = "\N{EN DASH}"


def link(element_id: str, address: str, text: str) -> SafeString:
    """Return the markup of a link, as the value of a cell."""
    return format_html('<a id="{}" href="{}">{}</a>', element_id, address, text)


class Tile(NamedTuple):
    """A figure in a row above a table; ``kind`` is ``bad`` or ``warning`` if it needs attention."""

    name: str
    label: str | Promise
    figure: SafeString
    kind: str = ""


def _never(_value: Any) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class Column(Generic[Row]):
    """A column, or a line of a list of facts.

    Attributes:
        name: Names it in addresses (``?sort=-ready``) and ids.
        heading: What its header says.
        value: Returns what it says of a row, None for nothing.
        written: Returns a value as the pages write it; None if that is the value itself.
        template: The part of ``templates/fdbqueue/`` that shows what is written; plain text if
            empty.
        is_number: Whether it is aligned to the right.
        is_minor: Whether it is left out on a narrow screen.
        css: Returns more CSS classes for a value's cell.
        alarm: Returns of which kind the tile of a value is.
    """

    name: str
    heading: str | Promise
    value: Callable[[Row], Any]
    written: Callable[[Any], Any] | None = None
    template: str = ""
    is_number: bool = False
    is_minor: bool = False
    css: Callable[[Any], str] = _never
    alarm: Callable[[Any], str] = _never

    @functools.cached_property
    def header_css(self) -> str:
        """The CSS classes of the header, which all cells have, too."""
        classes = {"fdbqueue-number": self.is_number, "fdbqueue-minor": self.is_minor}
        return " ".join(name for name, applies in classes.items() if applies)

    def shown(self, value: Any) -> SafeString:
        """Return the markup of a value."""
        if value is not None and self.written is not None:
            value = self.written(value)
        if self.template:
            return render_to_string(f"fdbqueue/{self.template}", {"value": value})
        return conditional_escape(DASH if value is None else value)

    def tile(self, value: Any, label: str | Promise | None = None) -> Tile:
        """Return the tile of a value, under the heading if there is no other label."""
        return Tile(self.name, label or self.heading, self.shown(value), self.alarm(value))

    def cell(self, row: Row, *, is_header: bool, label: str | None = None) -> SafeString:
        """Return the markup of a row's cell; with its label, if it may be shown as a card."""
        value = self.value(row)
        css = f"{self.header_css} {self.css(value)}".strip()
        begin, end = _tags(css, label, is_header=is_header)
        return SafeString("".join((begin, self.shown(value), end)))  # markup, all three


def cells(
    columns: Sequence[Column[Row]], row: Row, labels: Sequence[str | None] | None = None
) -> SafeString:
    """Return the markup of a row's cells, the first of them as its header.

    Labelled cells say what they are, because on a narrow screen a row is a card without headers.

    Args:
        columns: The columns.
        row: The row.
        labels: The labels of its cells; None for none.
    """
    shown = labels or [None] * len(columns)
    found = [
        column.cell(row, is_header=n == 0, label=label)
        for n, (column, label) in enumerate(zip(columns, shown, strict=True))
    ]
    return SafeString("".join(found))


@functools.lru_cache
def _tags(css: str, label: str | None, *, is_header: bool) -> tuple[str, str]:
    """Return the tags around the value of a cell.

    A labelled cell has its role, which it would lose with the display of a cell.
    """
    attributes = format_html(' class="{}"', css) if css else ""
    if label is not None:
        role = "rowheader" if is_header else "cell"
        attributes += format_html(' role="{}" data-label="{}"', role, label)
    tag, scope = ("th", ' scope="row"') if is_header else ("td", "")
    return f"<{tag}{scope}{attributes}>", f"</{tag}>"


def facts(columns: Iterable[Column[Row]], row: Row) -> list[tuple[str | Promise, SafeString]]:
    """Return the headings of columns, each with the markup of the row's value."""
    return [(column.heading, column.shown(column.value(row))) for column in columns]
