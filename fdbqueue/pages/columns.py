"""A column of a table: its heading, its cells, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Row = TypeVar("Row")

#: The states of items, and what readers call them.
STATES = (
    ("ready", _("Ready")),
    ("leased", _("Leased")),
    ("delayed", _("Delayed")),
    ("dead", _("Dead")),
)
#: What a cell without a value shows.
DASH = "\N{EN DASH}"


class Cell(NamedTuple):
    """A cell: its value, the template that shows it (none for plain text), and CSS classes."""

    value: Any
    template: str
    css: str


class Link(NamedTuple):
    """The value of a cell that leads to another page."""

    id: str
    address: str
    text: str


def _no_css(_value: Any) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class Column(Generic[Row]):
    """A column, or a line of a list of facts.

    Attributes:
        name: Names it in addresses (``?sort=-ready``) and ids.
        heading: What its header says.
        value: Returns the value of a row's cell.
        template: The part of ``templates/fdbqueue/`` that shows a value; plain text if empty.
        is_number: Whether it is aligned to the right.
        is_minor: Whether it is left out on a narrow screen.
        css: Returns more CSS classes for a value's cell.
    """

    name: str
    heading: str | Promise
    value: Callable[[Row], Any]
    template: str = ""
    is_number: bool = False
    is_minor: bool = False
    css: Callable[[Any], str] = _no_css

    @property
    def header_css(self) -> str:
        """The CSS classes of the header, which all cells have, too."""
        classes = {"fdbqueue-number": self.is_number, "fdbqueue-minor": self.is_minor}
        return " ".join(name for name, applies in classes.items() if applies)

    def cell(self, row: Row) -> Cell:
        """Return a row's cell."""
        value = self.value(row)
        template = self.template and f"fdbqueue/{self.template}"
        return Cell(value, template, f"{self.header_css} {self.css(value)}".strip())


def cells(columns: Iterable[Column[Row]], row: Row) -> list[Cell]:
    """Return the cells of a row."""
    return [column.cell(row) for column in columns]


def facts(columns: Iterable[Column[Row]], row: Row) -> list[tuple[str | Promise, Cell]]:
    """Return the headings of columns, each with the row's cell."""
    return [(column.heading, column.cell(row)) for column in columns]
