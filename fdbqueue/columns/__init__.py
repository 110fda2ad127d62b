"""The facts of a queue, an item and a task: described once, and shown everywhere alike.

A :class:`Column` is one thing that is said, such as how many items are ready: its name, its
heading, its value as a program has it, and its :class:`ValueKind`, which says how its values are
written on a page, in a table at a terminal, in a line of a terminal, and as JSON. So the list of
queues and ``queue_list``, the page of an item and ``queue_show`` say the same.

    =============  =====================================  ===================================
    of             columns                                shown by
    =============  =====================================  ===================================
    a queue        ``columns/queues.py``                  ``pages``, ``queue_list``
    why it needs   ``columns/attention.py``,              ``pages``, ``queue_list``,
    attention      ``attention_causes.py``                ``queue_doctor``, health, metrics
    a family       ``columns/families.py``                ``pages``, ``queue_list``
    an item        ``columns/items.py``                   ``pages``, ``queue_peek``,
                                                          ``queue_pop``, ``queue_show``
    a task         ``fdbqueue/tasks/columns.py``          ``tasks/pages``, ``tasks_show``
    a row of an    ``fdbqueue/tasks/outbox/``             ``tasks/pages``, ``tasks_outbox``
    outbox         ``outbox_columns.py``
    a worker,      ``columns/``                           ``pages``, ``queue_list``
    a reason       ``workers_and_reasons.py``
    a function,    ``fdbqueue/tasks/pages/``              ``pages``
    a schedule     ``functions_and_schedules.py``
    =============  =====================================  ===================================

``text.py`` has the words: ages, durations, sizes, and what is safe to show; ``markup.py`` writes
them as markup. This package knows neither the pages nor the commands. What only a page shows, such
as links and sparklines, is there.

To add a column, add it to its module, and to the tuples there that say where it is shown. What is
read of queues is in ``queue_rows.py``. To change how an age is said, change ``text.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from django.utils.functional import Promise
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import markup
from fdbqueue.columns.markup import DASH
from fdbqueue.columns.text import (
    EXPIRED,
    Moment,
    bounded,
    cell_age,
    cell_ahead,
    clipped,
    counted,
    grouped,
    in_english,
    lasting,
    mean,
    number,
    printable,
    seconds_since,
    short_time,
    size,
    timestamp,
)

Row = TypeVar("Row")

#: The states of items, and what readers call them.
STATES = (
    ("ready", _("Ready")),
    ("leased", _("Leased")),
    ("delayed", _("Delayed")),
    ("dead", _("Dead")),
)
#: A text of more characters may be cut off by its column.
_MAY_BE_CUT = 20
#: What a terminal shows of nothing; a page shows a dash.
NOTHING = "-"


def link(element_id: str, address: str, text: str, whole: str = "") -> SafeString:
    """Return the markup of a link, as the value of a cell.

    Args:
        element_id: Its id.
        address: Where it leads.
        text: What it says. If a narrow column may cut that off, hovering shows it.
        whole: What hovering shows of a text that is shortened already.
    """
    whole = whole or (text if len(text) > _MAY_BE_CUT else "")
    if not whole:
        return markup.filled('<a id="{}" href="{}">{}</a>', element_id, address, text)
    shown = '<a id="{}" href="{}" title="{}">{}</a>'
    return markup.filled(shown, element_id, address, whole, text)


def nothing(why: str | Promise) -> SafeString:
    """Return the markup of a dash that says why there is nothing."""
    return format_html(
        '<abbr title="{}">{}</abbr><span class="visually-hidden"> {}</span>', why, DASH, why
    )


def _same(value: Any) -> Any:
    return value


_DASH = SafeString(DASH)
_ARROWS = {"ascending": "▲", "descending": "▼"}


@dataclass(frozen=True, kw_only=True)
class ValueKind:
    """How values of one kind are written; None is a dash everywhere, and null in JSON.

    Attributes:
        written: Returns a value as the pages write it, as text or as markup; None if that is the
            value itself.
        nothing: What the pages show of None.
        cell: Returns the text of a value in a table at a terminal.
        line: Returns it where there is room for more; None for that of a cell. It may have several
            lines.
        record: Returns what JSON has.
        is_number: Whether it is aligned to the right.
    """

    written: Callable[[Any], Any] | None = None
    nothing: SafeString = _DASH
    cell: Callable[[Any], str] = str
    line: Callable[[Any], str] | None = None
    record: Callable[[Any], Any] = _same
    is_number: bool = False


def lines_printable(text: str) -> str:
    """Return a text whose lines are safe for a terminal."""
    return "\n".join(map(printable, text.splitlines()))


def _since(moment: Any) -> str:
    return f"{short_time(moment)} UTC, {cell_age(moment)} ago"


def _until(moment: Any) -> str:
    words = EXPIRED if seconds_since(moment) >= 0 else cell_ahead(moment)
    return f"{short_time(moment)} UTC, {words}"


#: A word of ours, or what is written already.
WORD = ValueKind()
#: A text that anyone may have made.
TEXT = ValueKind(
    written=lambda value: markup.text(bounded(value)),
    nothing=markup.text(DASH),
    cell=clipped,
    line=lines_printable,
)
#: A text for programs: an id, a key.
CODE = ValueKind(written=markup.code, cell=printable)
#: How many there are.
COUNT = ValueKind(written=grouped, cell="{:,}".format, is_number=True)
#: A number that stays exact, such as a priority.
NUMBER = ValueKind(written=number, cell=number, is_number=True)
#: A mean.
MEAN = ValueKind(written=mean, cell="{:,.1f}".format, is_number=True)
#: A moment, of which only its age is shown.
AGE = ValueKind(
    written=lambda at: markup.age(Moment.short(at)),
    nothing=markup.quiet(DASH),
    cell=cell_age,
    record=timestamp,
    is_number=True,
)
#: A moment that is over.
PAST = ValueKind(
    written=lambda at: markup.moment(Moment.ago(at)), cell=cell_age, line=_since, record=timestamp
)
#: The moment at which something ends.
FUTURE = ValueKind(
    written=lambda at: markup.moment(Moment.ahead(at)),
    cell=cell_ahead,
    line=_until,
    record=timestamp,
)
#: A number of seconds.
DURATION = ValueKind(written=lasting, cell=lasting)
#: A number of bytes.
SIZE = ValueKind(
    written=lambda count: markup.size(size(count)),
    cell="{:,}".format,
    line=lambda count: counted(count, "byte"),
    is_number=True,
)


class Tile(NamedTuple):
    """A figure in a row above a table; ``kind`` is ``bad`` or ``warning`` if it needs attention.

    ``address`` is that of what it counts; empty if there is none.
    """

    name: str
    label: str | Promise
    figure: SafeString
    kind: str = ""
    address: str = ""


def _never(_value: Any) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class Column(Generic[Row]):
    """A column, or a line of a list of facts.

    Attributes:
        name: Names it in addresses (``?sort=-ready``), ids, and JSON.
        heading: What its header says.
        value: Returns what it says of a row, None for nothing.
        kind: How that is written.
        label: What its header says in a table at a terminal, if not the heading in capitals.
        fields: Returns the fields of JSON for a value, if they are not the one with the name.
        is_minor: Whether a page leaves it out on a narrow screen.
        css: Returns more CSS classes for a value's cell.
        alarm: Tells whether a value is ``bad`` or a ``warning``, which colours it.
        why_nothing: Says why there is nothing to say of a row, empty if that needs no reason.
    """

    name: str = field(kw_only=False)
    heading: str | Promise = field(kw_only=False)
    value: Callable[[Row], Any] = field(kw_only=False)
    kind: ValueKind = field(default=WORD, kw_only=False)
    label: str = ""
    fields: Callable[[Any], dict[str, Any]] | None = None
    is_minor: bool = False
    css: Callable[[Any], str] = _never
    alarm: Callable[[Any], str] = _never
    why_nothing: Callable[[Row], str | Promise] = _never

    # At a terminal, and for programs

    @functools.cached_property
    def capitals(self) -> str:
        """The heading as terminals show it."""
        with in_english():
            return str(self.heading).upper()

    def cell_text(self, row: Row) -> str:
        """Return the text of a row's cell in a table."""
        value = self.value(row)
        return NOTHING if value is None else self.kind.cell(value)

    def line_text(self, row: Row) -> str:
        """Return the text of a row; of a moment, or of a reason, more than a table has."""
        value = self.value(row)
        return NOTHING if value is None else (self.kind.line or self.kind.cell)(value)

    def record(self, row: Row) -> dict[str, Any]:
        """Return the fields of JSON for a row."""
        value = self.value(row)
        if self.fields is not None:
            return self.fields(value)
        return {self.name: None if value is None else self.kind.record(value)}

    # On a page

    @functools.cached_property
    def header_css(self) -> str:
        """The CSS classes of the header, which all cells have, too."""
        classes = {"fdbqueue-number": self.kind.is_number, "fdbqueue-minor": self.is_minor}
        return " ".join(name for name, applies in classes.items() if applies)

    def header(self, address: str = "", order: str = "") -> SafeString:
        """Return the markup of the header of a table's column.

        Args:
            address: What sorts the table by the column; empty if nothing does.
            order: ``"ascending"`` or ``"descending"`` if the table is sorted by it.
        """
        return _header(self.name, str(self.heading), self.header_css, address, order)

    def shown(self, value: Any) -> SafeString:
        """Return the markup of a value."""
        if value is None:
            return self.kind.nothing
        written = self.kind.written
        return markup.escaped(value if written is None else written(value))

    def tile(self, value: Any, label: str | Promise | None = None) -> Tile:
        """Return the tile of a value, under the heading if there is no other label."""
        return Tile(self.name, label or self.heading, self.shown(value), self.alarm(value))

    def cell(self, row: Row, *, is_header: bool, label: str | None = None) -> SafeString:
        """Return the markup of a row's cell; with its label, if it may be shown as a card."""
        value = self.value(row)
        css = f"{self.header_css} {self.css(value)}".strip()
        begin, end = _tags(css, label, is_header=is_header)
        shown = self.shown(value)
        if value is None and (why := self.why_nothing(row)):
            shown = nothing(why)
        return SafeString("".join((begin, shown, end)))  # markup, all three


def record(columns: Iterable[Column[Row]], row: Row) -> dict[str, Any]:
    """Return the fields of JSON of several columns."""
    return {name: value for one in columns for name, value in one.record(row).items()}


def line_texts(columns: Iterable[Column[Row]], row: Row) -> list[tuple[str, str]]:
    """Return the headings of columns in capitals, each with the text of the row's value."""
    with in_english():
        return [(column.capitals, column.line_text(row)) for column in columns]


def headers(columns: Iterable[Column[Any]]) -> SafeString:
    """Return the markup of the headers of columns."""
    return SafeString("".join([column.header() for column in columns]))


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


@functools.lru_cache(maxsize=1_000)
def _header(name: str, heading: str, css: str, address: str, order: str) -> SafeString:
    shown = conditional_escape(heading)
    if address:
        arrow = f'<span aria-hidden="true"> {_ARROWS[order]}</span>' if order else ""
        link = '<a id="sort-{}" href="{}">{}{}</a>'
        shown = format_html(link, name, address, shown, SafeString(arrow))
    of_class = format_html(' class="{}"', css) if css else ""
    sort = format_html(' aria-sort="{}"', order) if order else ""
    return format_html('<th scope="col" role="columnheader"{}{}>{}</th>', of_class, sort, shown)


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
