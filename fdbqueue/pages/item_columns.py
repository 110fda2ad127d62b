"""The columns of items and their facts as the pages show them: linked, folded, and with a value.

What is said of an item is in :mod:`fdbqueue.columns.items`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import AGE, FUTURE, PAST, TEXT, WORD, Column, ValueKind, link, markup
from fdbqueue.columns.items import (
    FAILURES,
    PAGE_COLUMNS,
    REASON,
    WORKER,
    ItemColumn,
    ItemRow,
    ReasonGroup,
    failed_attempts,
    reason_text,
)
from fdbqueue.columns.text import Moment, bounded, clip, duration, folded
from fdbqueue.columns.workers_and_reasons import PRESENCES
from fdbqueue.pages.values import preview, previewed
from fdbqueue.service import WorkerRow, Workers

AnyColumn = TypeVar("AnyColumn", bound=Column[Any])


def address_of(row: ItemRow) -> str:
    """Return the address of an item's page."""
    page: str = row.addresses.item(row.queue.name, row.item.id)
    return page


def _value(row: ItemRow) -> SafeString:
    """Return the beginning of a value, and a link to all of it."""
    found = preview(row.item.value, row.queue.codec, row.shared)
    more = SafeString("")
    if not found.decodable:
        shown = ' <a class="fdbqueue-more" href="{}">{}</a>'
        more = format_html(shown, address_of(row), gettext("Show the bytes"))
    elif found.clipped:
        shown = ' <a class="fdbqueue-more" href="{}" title="{}">{}</a>'
        whole = gettext("Show the whole value")
        more = format_html(shown, address_of(row), whole, gettext("Show all"))
    return format_html('<div class="fdbqueue-oneline">{}{}</div>', previewed(found), more)


def _reason(row: ItemRow) -> SafeString | None:
    """Return the reason of a dead letter: of what stands above the list, only the number."""
    rest = text = reason_text(row.item.reason)
    if row.group is not None:
        first, _line, more = text.strip().partition("\n")
        rest = more.strip() if first.rstrip() == row.group.text else text
    group = row.group if row.group is not None and row.group.number else None
    shown = SafeString("")
    if rest or row.group is None:
        shown = markup.reason(folded(rest, f"reason-{row.item.id}"))
    elif group is None:
        return None
    return shown if group is None else format_html("{} {}", _number(group), shown)


def _number(group: ReasonGroup) -> SafeString:
    """Return the number of a reason above the list, which says the reason on hovering."""
    words = {"number": group.number, "reason": group.text}
    label = gettext("%(number)s: %(reason)s") % words
    if group.address:
        shown = '<a href="{}" title="{}" aria-label="{}">{}{}</a>'
        return format_html(shown, group.address, group.text, label, group.number, _words(group))
    return format_html(
        '<span title="{}"><span aria-hidden="true">{}{}</span>'
        '<span class="visually-hidden">{}</span></span>',
        group.text,
        group.number,
        _words(group),
        label,
    )


def _words(group: ReasonGroup) -> SafeString:
    """Return the reason itself, which cards show: what has its number is far above them."""
    words = clip(group.text.partition("\n")[0])[0]
    return format_html('<span class="fdbqueue-of-card">: <bdi>{}</bdi></span>', words)


def holder(row: ItemRow) -> SafeString | None:
    """Return who has leased an item, and whether that worker is alive, if it has a row."""
    if not row.item.worker:
        return None
    name = markup.cut(bounded(row.item.worker))
    return name if row.holder is None else format_html("{} {}", name, presence(row.holder))


def presence(worker: WorkerRow) -> SafeString:
    """Return whether a worker is alive, and for how long it has been silent if not."""
    if not worker.is_lost:
        return markup.quiet(PRESENCES["alive"])
    shown = (
        '<strong class="fdbqueue-problem">{}</strong>&nbsp;<span class="fdbqueue-quiet">{}</span>'
    )
    silent = duration(worker.age_seconds).replace(" ", "\N{NO-BREAK SPACE}")
    return format_html(shown, PRESENCES["lost"], silent)


def holders(found: Workers) -> dict[str, WorkerRow]:
    """Return workers by their names, of several with one name one that is alive."""
    return {one.name: one for one in reversed(found.rows)}


def ticked(column: AnyColumn) -> AnyColumn:
    """Return the first column of a list with a box before its value, to choose the row by."""

    def value(row: ItemRow) -> SafeString:
        box = '<span class="fdbqueue-ticking"><input type="checkbox" class="fdbqueue-tick" '
        box += 'form="ticked" name="id" value="{0}" id="tick-{0}" aria-label="{1}">{2}</span>'
        label = gettext("Choose row %(number)s") % {"number": row.position}
        return markup.filled(box, row.item.id, label, column.shown(column.value(row)))

    return replace(column, value=value, kind=ValueKind(is_number=column.kind.is_number))


_IN_ONE_LINE = (
    (PAST, replace(AGE, written=lambda at: markup.age(Moment.since(at)), is_number=False)),
    (FUTURE, replace(AGE, written=lambda at: markup.age(Moment.until(at)), is_number=False)),
    (TEXT, replace(TEXT, written=lambda value: markup.cut(bounded(value)))),
)


def in_one_line(column: AnyColumn) -> AnyColumn:
    """Return a column for a list: of a moment it says how far away that is.

    The moment itself is shown on hovering, as a long text is, and on the page of an item.
    """
    kinds = [line for kind, line in _IN_ONE_LINE if column.kind is kind]
    return replace(column, kind=kinds[0]) if kinds else column


#: Columns that have another look in the table than among the facts of an item.
_IN_TABLE: dict[str, dict[str, Any]] = {
    REASON.name: {
        "value": _reason,
        "kind": WORD,
        "css": lambda _value: "fdbqueue-reason",
    },
    WORKER.name: {"value": holder, "kind": WORD},
    FAILURES.name: {
        "value": lambda row: failed_attempts(row.item.failures, f"failures-{row.item.id}"),
        "kind": WORD,
    },
}

#: The table of items on the page of a queue.
COLUMNS: tuple[ItemColumn, ...] = (
    ItemColumn(
        "position",
        _("Position"),
        lambda row: link(f"item-{row.item.id}", address_of(row), str(row.position)),
        ValueKind(is_number=True),
    ),
    *(in_one_line(replace(column, **_IN_TABLE.get(column.name, {}))) for column in PAGE_COLUMNS),
    ItemColumn("value", _("Value"), _value, css=lambda _value: "fdbqueue-value"),
)
