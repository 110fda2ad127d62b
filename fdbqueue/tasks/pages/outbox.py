"""The page of the outboxes: how many tasks wait there, since when, and what cannot be moved.

It reads the tables of all backends that have one, in their databases: two sums, and the first 200
rows that were set aside, and that wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import DatabaseError
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import Tile, link
from fdbqueue.columns.text import grouped, lasting, seconds_since
from fdbqueue.pages.forms import search_field
from fdbqueue.pages.framing import ListView
from fdbqueue.pages.listing import (
    Left,
    ListForm,
    OrderField,
    RowOrder,
    paged,
    tile,
    with_links,
)
from fdbqueue.pages.sites import Addresses
from fdbqueue.tasks.compat import backends
from fdbqueue.tasks.outbox.models import OutboxTask
from fdbqueue.tasks.outbox.outbox_columns import (
    COLUMNS,
    OutboxSums,
    enqueued,
    first,
    sums,
)
from fdbqueue.tasks.outbox.outbox_rows import Outbox

_MAX_SHOWN = 200
#: A row that waits for longer is worth attention: workers look every two seconds.
_LATE_SECONDS = 60.0


class OutboxForm(ListForm):
    """Which rows to show."""

    function = search_field(_("Function or reason contains"), max_length=200)
    sort = OrderField(
        RowOrder("state", _("Set aside first"), lambda _row: 0),  # as they are
        RowOrder("oldest", _("Oldest first"), enqueued),
    )

    defaults: Mapping[str, str] = {"refresh": "5", "sort": "state", "page": "1"}
    shown = ("function", "sort")


class OutboxView(ListView):
    """The tasks in the outboxes."""

    view, title, template = "outbox", _("Outbox"), "tasks/outbox.html"
    form = OutboxForm

    def rows(self, form: OutboxForm) -> dict[str, Any]:
        """Return the first rows of all outboxes."""
        return _context(form, self.addresses)


def _outboxes() -> list[Outbox]:
    """Return the outboxes of all backends that have one."""
    return [one.outbox() for one in backends() if one.settings.outbox is not None]


def trouble() -> str:
    """Say what needs attention: rows that were set aside, or wait for more than a minute.

    Of each outbox those that were set aside are counted, and the first is read that waits.
    """
    aside, waits, unread = 0, 0.0, 0
    for outbox in _outboxes():
        try:
            aside += outbox.set_aside.count()
            for row in first(outbox.waiting, 1):
                waits = max(waits, seconds_since(enqueued(row)))
        except DatabaseError:
            unread += 1
    found: list[str] = []
    if unread:
        found.append(gettext("could not be read"))
    if aside:
        found.append(ngettext("%d task set aside", "%d tasks set aside", aside) % aside)
    if waits > _LATE_SECONDS:
        found.append(gettext("the oldest task waits for %s") % lasting(waits))
    return ", ".join(found)


def _context(form: OutboxForm, addresses: Addresses) -> dict[str, Any]:
    rows: list[OutboxTask] = []
    found: list[OutboxSums] = []
    unread = []
    for outbox in _outboxes():
        try:
            found.append(sums(outbox))
            for some in (outbox.set_aside, outbox.waiting):
                rows += first(some, _MAX_SHOWN)
        except DatabaseError:
            unread.append(outbox.alias)
    total = sum(one.waiting + one.set_aside for one in found)
    shown = form.chosen(rows, lambda row: f"{row.function}\n{row.problem}")

    def queue_of(row: OutboxTask) -> SafeString:
        name = row.queue
        return link(f"queue-{row.pk}", addresses.queue(name), name)

    return {
        **paged(form, with_links(COLUMNS, {"queue": queue_of}), shown),
        "left": Left(grouped(len(rows)), grouped(total), "", len(rows) >= total),
        "unread": unread,
        "has_outbox": bool(found or unread),
        "tiles": _tiles(found, form),
    }


def _tiles(found: list[OutboxSums], form: OutboxForm) -> list[Tile]:
    waiting = sum(one.waiting for one in found)
    aside = sum(one.set_aside for one in found)
    oldest = min((one.oldest for one in found if one.oldest is not None), default=None)
    age = 0.0 if oldest is None else seconds_since(oldest)
    by_age = form.address(sort="oldest")
    tiles = [tile("waiting", _("Waiting"), waiting, by_age)]
    if oldest is not None:
        words = SafeString(lasting(age))
        tiles.append(
            Tile("oldest", _("Oldest waits"), words, "bad" if age > _LATE_SECONDS else "", by_age)
        )
    aside_address = form.address(sort="state")
    return [*tiles, tile("aside", _("Set aside"), aside, aside_address, "bad" if aside else "")]
