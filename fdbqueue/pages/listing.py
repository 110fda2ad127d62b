"""A page of rows: its parameters, its order, its columns, its tiles, and the ways to other pages.

The list of queues, leases, reasons, functions, schedules and outboxes are
made of these. Each reads so many rows and no more, filters and orders those, shows one page of
them, and says how much of what there is it has read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from django import forms
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import Column, Tile, ValueKind, cells, headers
from fdbqueue.columns.text import grouped
from fdbqueue.pages.forms import CHOICE_ERRORS, ROWS_PER_PAGE, PageForm
from fdbqueue.pages.item_columns import AnyColumn, in_one_line
from fdbqueue.pages.search import text_contains

#: A page looks at this many queues, in the order of their names.
MAX_QUEUES_READ = 1_000
#: No page has a larger number.
_MAX_PAGES = 1_000


class RowOrder(NamedTuple):
    """An order of rows: its name in addresses, what it is called, and the key to sort them by."""

    name: str
    label: Any
    key: Callable[[Any], Any]


class OrderField(forms.ChoiceField):
    """The order of a page's rows.

    Args:
        orders: The orders there are.
    """

    def __init__(self, *orders: RowOrder) -> None:
        choices = [(order.name, order.label) for order in orders]
        super().__init__(label=_("Order"), choices=choices, error_messages=CHOICE_ERRORS)
        self.keys = {order.name: order.key for order in orders}


class ListForm(PageForm):
    """Which rows to show; subclasses have their filters, and the orders in their field ``sort``."""

    after = forms.CharField(required=False, max_length=100, widget=forms.HiddenInput)
    page = forms.IntegerField(min_value=1, max_value=_MAX_PAGES, widget=forms.HiddenInput)

    hidden: tuple[str, ...] = ("refresh", "after")

    def chosen(self, rows: Iterable[Any], text: Callable[[Any], str]) -> list[Any]:
        """Return the rows whose text, as pages show it, has what the reader looks for.

        Case is ignored. They are in the order that the form asks for.
        """
        has_text = text_contains(self.cleaned_data[self.shown[0]])
        return self.in_order(row for row in rows if has_text(text(row)))

    def in_order(self, rows: Iterable[Any]) -> list[Any]:
        """Return rows in the order that the form asks for."""
        field = self.fields["sort"]
        assert isinstance(field, OrderField)
        return sorted(rows, key=field.keys[self.cleaned_data["sort"]])


def ways(form: ListForm, first: int, shown: int, count: int, **kept: Any) -> dict[str, Any]:
    """Return which rows a page shows, and the ways to the other pages.

    Args:
        form: The form.
        first: The number of the first row.
        shown: How many rows the page shows.
        count: How many there are to page through.
        kept: The parameters that are kept besides those that the form always keeps.
    """
    page, last = form.cleaned_data["page"], first + shown - 1
    return {
        "first": grouped(first),
        "last": grouped(last),
        "found": grouped(count),
        "from_start": form.address(after=None) if form.cleaned_data["after"] else None,
        "previous_page": form.address(page=page - 1, **kept) if page > 1 else None,
        "next_page": form.address(page=page + 1, **kept) if last < count else None,
    }


def table(columns: Sequence[Column[Any]], rows: Iterable[Any]) -> dict[str, Any]:
    """Return the headers and the rows of a table."""
    labels = [str(column.heading) for column in columns]  # translated once
    return {
        "headers": headers(columns),
        "rows": [cells(columns, row, labels) for row in rows],
    }


def paged(
    form: ListForm, columns: Iterable[Column[Any]], rows: Sequence[Any], **kept: Any
) -> dict[str, Any]:
    """Return what the template shows of one page of rows, and the ways to the others."""
    begin = (form.cleaned_data["page"] - 1) * ROWS_PER_PAGE
    shown = rows[begin : begin + ROWS_PER_PAGE]
    return {
        **table(tuple(map(in_one_line, columns)), shown),
        **ways(form, begin + 1, len(shown), len(rows), **kept),
    }


class Left(NamedTuple):
    """How much of what there is was read, each a number as text; ``is_all`` tells of the rows."""

    read: str
    total: str
    queues: str
    is_all: bool


def further(form: ListForm, following: str | None) -> dict[str, Any]:
    """Return the way to the queues that were not looked at, after a name; None for none."""
    return {"following": None if following is None else form.address(after=following)}


def tile(name: str, label: Any, count: int, address: str, kind: str = "") -> Tile:
    """Return the tile of a count, which leads to what it counts."""
    return Tile(name, label, SafeString(grouped(count)), kind, address)


def some_of(links: Sequence[SafeString], count: int) -> SafeString:
    """Return the first links of some, and how many there are besides."""
    shown = format_html_join(", ", "{}", [(one,) for one in links])
    if count == len(links):
        return shown
    others = _("and %(number)s more") % {"number": grouped(count - len(links))}
    return format_html("{}, {}", shown, others)


def with_links(
    columns: Iterable[AnyColumn], links: Mapping[str, Callable[[Any], Any]]
) -> tuple[AnyColumn, ...]:
    """Return columns, some of them with other values, by their names: links."""
    return tuple(
        replace(one, value=links[one.name], kind=ValueKind(is_number=one.kind.is_number))
        if one.name in links
        else one
        for one in columns
    )
