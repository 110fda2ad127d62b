"""The list of queues: of all, or of those whose names fit a pattern.

What they say of each is in :mod:`fdbqueue.columns.queues`; what only a page can show, a link and a
line, is here. A family of many members, or of the parts of queues, is one row, above the queues,
which leads to the list of its members. By the pattern of a family these are the members that have
something, as its index says, up to a bound; by another pattern the queues in the order of their
names. So the page costs the same beside a million members.
"""

from __future__ import annotations

import fnmatch
import functools
import html
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

from django import forms
from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from fdbqueue import deadlines
from fdbqueue.columns import COUNT, Column, Tile, ValueKind, link, markup
from fdbqueue.columns.attention import BLOCKED, CONCERN_READS, CONCERNS, MISMATCHED, Concern
from fdbqueue.columns.attention_causes import begin_movement
from fdbqueue.columns.families import MEMBERS, FamilyRow, family_row
from fdbqueue.columns.queue_rows import (
    RATE_MINUTES,
    QueueRow,
    begin_counts,
    begin_history,
    fill,
)
from fdbqueue.columns.queues import COUNTS, KIND, NAME, OLDEST, RATES, TOTAL, QueueColumn, reads_of
from fdbqueue.columns.text import age, clip, grouped
from fdbqueue.pages.charts import Sparkline, drawn, rate_sparkline, sparkline
from fdbqueue.pages.forms import CHOICE_ERRORS, search_field
from fdbqueue.pages.framing import ListView
from fdbqueue.pages.listing import MAX_QUEUES_READ, ListForm, table, ways
from fdbqueue.pages.queue_page import shown_pause
from fdbqueue.pages.readings import more_pages
from fdbqueue.pages.sites import Addresses
from fdbqueue.service import Catalog, Depth, Family, Minute, Pause, depths, run

#: So many queues are on a page, and so many members.
QUEUES_PER_PAGE = 100
#: A family of more members than these is one row; one of parts always is.
#: If it has no more, the list says what in them needs attention.
MEMBERS_LISTED = 20
#: It names this many queues for each concern at most.
NAMED = 5
_PUSHES, _POPS = attrgetter("pushes"), attrgetter("pops")


# What a row shows


def _name(row: QueueRow) -> SafeString:
    """Return the link to a queue, and badges if it is blocked or paused."""
    queue = row.queue
    title = "" if queue.label == queue.name else queue.name
    shown = link(f"queue-{queue.name}", row.address, queue.label, title)
    badges = [
        ("fdbqueue-mark fdbqueue-bad", concern.meaning, concern.label)
        for concern in (MISMATCHED, BLOCKED)
        if concern.applies(row)
    ]
    return _with_badges(shown, badges, row.pause)


def _with_badges(shown: SafeString, badges: list[Any], pause: Pause | None) -> SafeString:
    if pause is not None:
        reason, is_clipped = clip(pause.reason)
        why = f"{age(pause.since)}: {reason}{'…' if is_clipped else ''}" if reason else ""
        label = _("Paused") if pause.family is None else _("Family paused")
        badges.append(("fdbqueue-mark", why or age(pause.since), label))
    shown_badges = format_html_join("", ' <span class="{}" title="{}">{}</span>', badges)
    return format_html("{}{}", shown, shown_badges) if badges else shown


def _family_name(row: FamilyRow) -> SafeString:
    """Return the link to a family, and a badge if it is paused."""
    shown = link(f"family-{row.queue.name}", row.address, row.queue.label)
    return _with_badges(shown, [], row.pause and replace(row.pause, family=None))


def _linked(column: QueueColumn) -> QueueColumn:
    """Return the column of a count that leads to the items that it counts, if there are any."""
    state = column.name

    def shown(row: QueueRow) -> SafeString:
        count = getattr(row.counts, state)
        if count <= 0 or not row.address:
            return column.shown(count)
        query = "" if state == "ready" else f"?state={state}"
        address = html.escape(row.address)  # of all rows: Django's own escapes cost many calls
        return SafeString(f'<a href="{address}{query}">{grouped(count)}</a>')

    return replace(
        column,
        value=lambda row: row,
        kind=replace(COUNT, written=shown),
        css=lambda row: column.css(getattr(row.counts, state)),
        sort_key=lambda row: getattr(row.counts, state),
    )


def _depths(row: QueueRow) -> list[Depth] | None:
    """Return how a queue's depth went, None if it was empty for the whole hour."""
    found = depths(row.counts, row.minutes)
    return found if any(map(attrgetter("items"), found)) else None


def trouble(row: QueueRow) -> int | None:
    """Return how much attention a queue needs, None for none: the worst concern counts most."""
    ranks = [1 << rank for rank, one in enumerate(reversed(CONCERNS)) if one.applies(row)]
    return sum(ranks) or None


COLUMNS = (
    replace(
        NAME,
        value=lambda row: row,
        kind=ValueKind(written=_name),
        sort_key=attrgetter("queue.name"),
    ),
    KIND,
    *map(_linked, COUNTS.values()),
    TOTAL,
    OLDEST,
    *RATES,
    QueueColumn(
        "depth",
        _("Depth, last hour"),
        _depths,
        ValueKind(written=lambda found: drawn(sparkline(found)), nothing=markup.quiet(markup.DASH)),
        css=lambda _value: "fdbqueue-depth",
        is_sortable=False,
        reads=(begin_counts, begin_history),
    ),
)
#: An order that no column has: the queues that need attention first.
TROUBLE = QueueColumn("trouble", _("Trouble"), trouble, COUNT, reads=CONCERN_READS)
#: What it says of a family.
FAMILY_COLUMNS: tuple[Column[Any], ...] = (
    replace(
        NAME,
        value=lambda row: row,
        kind=ValueKind(written=_family_name),
    ),
    KIND,
    MEMBERS,
)
BY_NAME = {column.name: column for column in (*COLUMNS, TROUBLE)}
#: The names of what the list can be sorted by.
SORTABLE = tuple(name for name, column in BY_NAME.items() if column.is_sortable)
#: The orders of the list that its form offers; its headers have the others.
_ORDERS = (
    ("name", _("Name")),
    ("-trouble", _("Trouble first")),
    ("-ready", _("Most ready")),
    ("-dead", _("Most dead")),
    ("-total", _("Most items")),
    ("-oldest", _("Longest wait")),
    ("-pushes", _("Most pushes")),
)


class QueuesForm(ListForm):
    """Which queues to list, and in which order."""

    q = search_field(_("Name contains"), max_length=100)
    name = search_field(_("Pattern, such as user-1*"), max_length=100)
    sort = forms.ChoiceField(
        label=_("Order"),
        choices=[(sign + column, column) for column in SORTABLE for sign in ("", "-")],
        error_messages=CHOICE_ERRORS,
    )

    defaults: Mapping[str, str] = {"refresh": "5", "sort": "name", "page": "1"}
    shown = ("q", "name", "sort")
    hidden = ("refresh",)

    def __init__(self, parameters: QueryDict) -> None:
        super().__init__(parameters)
        orders: dict[str, Any] = dict(_ORDERS)
        chosen = self.data["sort"]
        if chosen not in orders and chosen.removeprefix("-") in SORTABLE:  # by a header
            orders[chosen] = BY_NAME[chosen.removeprefix("-")].heading
        self.fields["sort"].widget = forms.Select(choices=list(orders.items()))

    @property
    def column(self) -> str:
        """The name of the column to sort by."""
        column: str = self.cleaned_data["sort"]
        return column.removeprefix("-")

    @property
    def is_descending(self) -> bool:
        """Whether the largest come first."""
        return bool(self.cleaned_data["sort"].startswith("-"))

    def sorted_by(self, column: str) -> str:
        """Return the query string that sorts by a column; in reverse if it is sorted by it now."""
        is_number = BY_NAME[column].kind.is_number  # the largest number first
        descending = not self.is_descending if self.column == column else is_number
        after = self.cleaned_data["after"] or None
        return self.address(sort=f"-{column}" if descending else column, after=after)


# What is read


@dataclass(frozen=True, slots=True)
class QueueList:
    """One page of the list, and what there is to choose from.

    Attributes:
        rows: The queues of the page.
        found: All queues that the list looked at and the form asks for; their counts are read.
        examined: Those of which everything is read that concerns look at.
        parts: The parts of queues in families that have few, of which the same is read.
        first: The number of the page's first queue.
        following: The name after which there are queues that were not looked at.
        families: The families that are one row, on the first page.
        family: The one whose members are listed, None for none.
    """

    rows: list[QueueRow]
    found: list[QueueRow]
    examined: list[QueueRow]
    parts: list[QueueRow]
    first: int
    following: str | None
    families: list[FamilyRow]
    family: FamilyRow | None = None


class Chosen(NamedTuple):
    """The queues to list, the name to go on after, and the families that are one row.

    ``family`` is the one whose members these are, if the form has the pattern of one.
    """

    names: list[str]
    following: str | None
    families: list[Family]
    family: FamilyRow | None = None


def _chosen(form: QueuesForm, catalog: Catalog) -> Chosen:
    """Return which queues the list is of, a page's worth at most."""
    pattern, after = form.cleaned_data["name"], form.cleaned_data["after"]
    if not pattern:
        every, families = _names_and_families(catalog)
        names = [name for name in every if name > after]
        following = names[MAX_QUEUES_READ - 1] if len(names) > MAX_QUEUES_READ else None
        return Chosen(names[:MAX_QUEUES_READ], following, families)
    family = {one.name: one for one in catalog.families()}.get(pattern)
    if family is not None:
        row, names = run(catalog.database, functools.partial(family_row, family), read_only=True)
        return Chosen(names[:MAX_QUEUES_READ], None, [], row)
    fits = functools.partial(fnmatch.fnmatchcase, pat=pattern)
    each = catalog.each_name(after=after, start=pattern.partition("*")[0])
    names, following = deadlines.next_names(each, MAX_QUEUES_READ, fits)
    return Chosen(names, following, [])


def _names_and_families(catalog: Catalog) -> tuple[list[str], list[Family]]:
    """Return the names of the queues to list, sorted, and the families that are one row."""
    names, families = set(catalog.names_of_their_own()), []
    for family in catalog.families():
        members, following = deadlines.next_names(family.names(), MEMBERS_LISTED, family.has)
        if following is None:
            names.update(members)
        if following is not None or (family.has_parts and members):
            families.append(family)
    return sorted(names), families


def _is_wanted(family: Family, wanted: str) -> bool:
    """Tell whether a family, or a member of it, may have a text in its name."""
    return wanted in family.name.casefold() or wanted.startswith(family.start.casefold())


def listed(form: QueuesForm, begin: Callable[[], Catalog]) -> QueueList:
    """Read one page of the list, all in one transaction once the names are found.

    What the order depends on is read of all queues, then their counts and the rest of those
    shown: a few round trips to a cluster, whatever the number of queues and items.

    Args:
        form: The form.
        begin: Begins a time limit, and returns the queues: names and figures have one each.
    """
    chosen = _chosen(form, begin())
    catalog = begin()
    pattern, wanted = form.cleaned_data["name"], form.cleaned_data["q"].casefold()
    found = [QueueRow(catalog.queue(name)) for name in chosen.names]
    found = [row for row in found if wanted in f"{row.queue.name} {row.queue.label}".casefold()]
    rows = [row for row in found if pattern or not row.queue.is_part]
    parts = [row for row in found if not pattern and row.queue.is_part]
    is_first = not form.cleaned_data["after"] and form.cleaned_data["page"] == 1
    family_rows: list[FamilyRow] = []
    first = (form.cleaned_data["page"] - 1) * QUEUES_PER_PAGE
    order = BY_NAME[form.column]
    sort_reads = order.reads_to_sort

    def read(tr: Any) -> list[QueueRow]:
        family_rows[:] = [
            family_row(one, tr)[0]
            for one in chosen.families
            if is_first and _is_wanted(one, wanted)
        ]
        fill(tr, [(begin, rows) for begin in sort_reads])
        shown = order.sorted(rows, is_descending=form.is_descending)[
            first : first + QUEUES_PER_PAGE
        ]
        # what is left to read: counts of all queues, the rest of those shown
        left = [begin for begin in reads_of(COLUMNS) if begin not in sort_reads]
        fill(tr, [(begin, rows if begin is begin_counts else shown) for begin in left])
        fill(tr, [(begin, parts) for begin in CONCERN_READS])
        if begin_movement not in sort_reads:
            fill(tr, [(begin_movement, shown)])
        return shown

    shown = run(catalog.database, read, read_only=True)
    examined = rows if form.column == TROUBLE.name else shown
    return QueueList(
        shown, rows, examined, parts, first + 1, chosen.following, family_rows, chosen.family
    )


class Mention(NamedTuple):
    """A queue with a concern: its name, how much of it there is, and the address that shows it."""

    id: str
    name: str
    figure: str
    address: str


class Mentions(NamedTuple):
    """A concern, the first queues that have it, and how many others have it, too."""

    concern: Concern
    mentions: list[Mention]
    others: int


@dataclass(frozen=True, slots=True)
class Attention:
    """The concerns of some queues, and how many of the queues have any."""

    groups: list[Mentions]
    troubled: int


def attention(
    rows: Sequence[QueueRow],
    addresses: Addresses,
    name: Callable[[QueueRow], str] = attrgetter("queue.label"),
) -> Attention:
    """Return the concerns of queues, each with the addresses of the items that show it.

    Args:
        rows: The queues.
        addresses: Those of the site.
        name: Returns what a queue is called; of those called alike the first is mentioned.
    """
    groups = []
    for concern in CONCERNS:
        found = [row for row in rows if concern.applies(row)]
        firsts: dict[str, QueueRow] = {}
        for row in found:
            firsts.setdefault(name(row), row)
        state = "" if concern.tab == "ready" else concern.tab
        mentions = [
            Mention(
                row.queue.name,
                one,
                str(concern.figure(row)),
                addresses.queue(row.queue.name, state=state),
            )
            for one, row in itertools.islice(firsts.items(), NAMED)
        ]
        if found:
            groups.append(Mentions(concern, mentions, len(found) - len(mentions)))
    return Attention(groups, len({row.queue.home for row in rows if trouble(row) is not None}))


class QueueListView(ListView):
    """The list of the queues."""

    view, title, template = "queues", _("Queues"), "queues.html"
    form = QueuesForm

    def rows(self, form: QueuesForm) -> dict[str, Any]:
        """Return a page of the list, and what needs attention on the pages of apps."""
        found, addresses = listed(form, self.catalog), self.addresses
        after, count = form.cleaned_data["after"] or None, len(found.found)
        for row in found.rows:
            row.address = addresses.queue(row.queue.name)
        begun = form.cleaned_data["q"]
        for one in found.families:
            is_begun = one.queue.start and begun.startswith(one.queue.start)
            pattern = f"{begun}*" if is_begun else one.queue.name
            one.address = addresses.queues(name=pattern, sort="-pushes")
        examined = [*found.examined, *found.parts]
        return {
            **table(COLUMNS, found.rows),
            **ways(form, found.first, len(found.rows), count, after=after),
            "headers": SafeString("".join([_header(form, column) for column in COLUMNS])),
            "families": table(FAMILY_COLUMNS, found.families),
            "members_listed": grouped(MEMBERS_LISTED),
            **_about_family(found.family),
            "tiles": _totals(found, form),
            "sparklines": _sparklines(found),
            "attention": attention(examined, addresses, attrgetter("queue.home")),
            "examined": grouped(len({row.queue.home for row in examined})),
            "is_examined": len(found.examined) == count,
            "trouble_first": form.address(sort=f"-{TROUBLE.name}", after=after),
            "is_trouble_first": form.column == TROUBLE.name,
            "looked_at": grouped(MAX_QUEUES_READ),
            "rate_minutes": RATE_MINUTES,
            "further": None if found.following is None else form.address(after=found.following),
            "troubled_pages": [
                (page.name, page.title, text, addresses.more(page.name))
                for page in more_pages()
                if (text := page.trouble())
            ],
        }


def _about_family(row: FamilyRow | None) -> dict[str, Any]:
    """Return what the list of the members of a family says of that."""
    if row is None:
        return {}
    return {
        "family": row.queue,
        "members": row.members.as_text(grouped),
        "pause": row.pause and shown_pause(row.pause, row.queue.name),
    }


def _totals(found: QueueList, form: QueuesForm) -> list[Tile]:
    """Return the figures of all queues together; with rates if they were read of all.

    A figure leads to the queues that have most of it.
    """
    rows, after = found.found, form.cleaned_data["after"] or None
    counts = [_sum(TOTAL, rows, _("Items")), *(_sum(one, rows) for one in COUNTS.values())]
    tiles = [
        Tile("queues", _("Queues"), conditional_escape(grouped(len(rows)))),
        *(one._replace(address=form.address(sort=f"-{one.name}", after=after)) for one in counts),
    ]
    if len(found.rows) == len(rows):
        tiles += [_sum(column, rows) for column in RATES]
    return tiles


def _sparklines(found: QueueList) -> list[Sparkline]:
    """Return the rates of all queues together, if they were read of all and there were any."""
    if len(found.rows) != len(found.found):
        return []
    together = [
        Minute(some[0].at, sum(map(_PUSHES, some)), sum(map(_POPS, some)))
        for some in zip(*[row.minutes for row in found.rows], strict=False)
    ]
    has_any = any(map(_PUSHES, together)) or any(map(_POPS, together))
    return [rate_sparkline(together, "hour")] if has_any else []


def _sum(column: QueueColumn, rows: list[QueueRow], label: str | Promise | None = None) -> Tile:
    return column.tile(sum(map(column.value, rows)), label)


def _header(form: QueuesForm, column: QueueColumn) -> SafeString:
    """Return the header of a column, which sorts by it."""
    if not column.is_sortable:
        return column.header()
    order = ""
    if form.column == column.name:
        order = "descending" if form.is_descending else "ascending"
    return column.header(form.sorted_by(column.name), order)
