"""The page of a family: its members that have something, or those whose names begin with a text.

The index of the family says which members have something; it is read up to a bound, and of the
members only those that the page shows, in one transaction. So the page costs the same beside a
million members. It shows, counts and names only those that the user may view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from fdbqueue import deadlines
from fdbqueue.columns.families import MEMBERS, MOST_MEMBERS, Members
from fdbqueue.columns.queues import RATE_MINUTES, QueueRow, fill, reads_of
from fdbqueue.columns.text import grouped
from fdbqueue.pages.forms import search_field
from fdbqueue.pages.listing import ListForm, table, ways
from fdbqueue.pages.queue_page import shown_pause
from fdbqueue.pages.queues_page import COLUMNS, address_in, attention
from fdbqueue.pages.sites import Addresses
from fdbqueue.service import Catalog, Family, Pause, run
from fdbqueue.viewer import Viewer

#: So many members are read at once.
MEMBERS_PER_PAGE = 100


class FamilyForm(ListForm):
    """Which members of a family to show."""

    start = search_field(_("Name begins with"), max_length=100)

    defaults: Mapping[str, str] = {"refresh": "5", "page": "1"}
    shown = ("start",)
    hidden = ("refresh",)


@dataclass(frozen=True, slots=True)
class FamilyMembers:
    """One page of the members of a family.

    Attributes:
        rows: Those shown: the noisiest first, or by name if the form asks for names.
        first: The number of the first of them, among those that have something.
        members: How many have something; None if the form asks for names.
        following: The name after which there are others, if the form asks for names.
        pause: Since when and why the family is paused, None if it is not.
    """

    rows: list[QueueRow]
    first: int
    members: Members | None
    following: str | None
    pause: Pause | None


def listed(form: FamilyForm, viewer: Viewer, family: Family) -> FamilyMembers:
    """Read one page of members."""
    catalog = viewer.begin()
    start, first = form.cleaned_data["start"], 0
    chosen: list[str] | None = None
    following = None
    if start:
        wanted = _wanted(catalog, family, start)
        after = form.cleaned_data["after"]
        chosen, following = viewer.next_members(family, MEMBERS_PER_PAGE, after=after, **wanted)
    else:
        first = (form.cleaned_data["page"] - 1) * MEMBERS_PER_PAGE

    def read(tr: Any) -> tuple[list[QueueRow], Members | None, Pause | None]:
        names, members, pause = chosen, None, family.begin_paused(tr)
        if names is None:
            is_late = deadlines.is_half_over
            found = family.with_something(tr, MOST_MEMBERS + 1, viewer.sees, is_late=is_late)
            members = Members.of(found, is_late=is_late())
            names = found[:MOST_MEMBERS][first : first + MEMBERS_PER_PAGE]
        rows = [QueueRow(catalog.queue(name)) for name in names]
        fill(tr, [(begin, rows) for begin in reads_of(COLUMNS)])
        return rows, members, pause()

    rows, members, pause = run(catalog.database, read, read_only=True)
    if members is not None:
        rows.sort(key=lambda row: (-row.pushes, -row.counts.ready, row.queue.name))
    return FamilyMembers(rows, first + 1, members, following, pause)


def _wanted(catalog: Catalog, family: Family, text: str) -> dict[str, Any]:
    """Return what chooses the members whose names, as pages show them, begin with a text.

    The text may leave out what all of them begin with, as 17 does in user-*. Parts of a queue are
    shown by their home and their key, and are found by both, by the key alone, or as they are
    stored.
    """
    if text.startswith(family.start):
        return {"start": text}
    if not family.has_parts:
        return {"start": text if family.start.startswith(text) else family.start + text}

    def is_wanted(name: str) -> bool:
        queue = catalog.queue(name)
        return queue.label.startswith((text, f"{queue.home}: {text}"))

    return {"is_wanted": is_wanted}


def context(form: FamilyForm, found: FamilyMembers, addresses: Addresses) -> dict[str, Any]:
    """Return what the template shows of a page of members."""
    for row in found.rows:
        row.address = addresses.queue(row.queue.name)
    members, following = found.members, found.following
    count = 0 if members is None else members.number
    shown = {**table(COLUMNS, found.rows), **ways(form, found.first, len(found.rows), count)}
    if members is None:  # by name: there is no page before
        next_page = None if following is None else form.address(after=following)
        shown |= {"previous_page": None, "next_page": next_page}
    return {
        **shown,
        "pause": found.pause and shown_pause(found.pause, found.pause.family or ""),
        "tiles": [] if members is None else [MEMBERS.tile(members)],
        "attention": attention(found.rows, lambda row, tab: address_in(addresses, row, tab)),
        "examined": grouped(len(found.rows)),
        "is_examined": False,
        "trouble_first": form.address(),
        "is_trouble_first": True,
        "found": None if members is None else members.as_text(grouped),
        "counted": grouped(members.number) if members is not None and not members.is_all else "",
        "is_late": members is not None and not members.is_all and members.number < MOST_MEMBERS,
        "rate_minutes": RATE_MINUTES,
    }
