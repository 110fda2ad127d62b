"""Pages across queues, for the person on call: who holds what, why items died, where an id is.

What they read is bounded, whatever there is: 1,000 queues in the order of their names, two counts
of each; then of at most 200 of these queues that have any, at most 1,000 leases, each queue getting
its share, or the stored numbers of the most frequent reasons of each. Each page says how many of
how many it has read. Its orders, its filters and its sums are those of what was read. Of workers,
1,000 rows are read at most.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from fdbqueue import deadlines
from fdbqueue.columns import FUTURE, PAST, Column, ValueKind, link, markup
from fdbqueue.columns.items import LEASED_UNTIL, ItemRow, reason_text
from fdbqueue.columns.text import bounded, folded, grouped
from fdbqueue.columns.workers_and_reasons import ReasonRow
from fdbqueue.exceptions import FormatMismatch, InvalidInput, ItemNotFound
from fdbqueue.pages.action_page import Offer, links, offers
from fdbqueue.pages.forms import FindForm, search_field
from fdbqueue.pages.framing import ListView, PageView, shown_id
from fdbqueue.pages.item_columns import holders, presence
from fdbqueue.pages.listing import (
    MAX_QUEUES_READ,
    Left,
    ListForm,
    OrderField,
    RowOrder,
    further,
    paged,
    some_of,
    tile,
)
from fdbqueue.pages.problems import bad_form
from fdbqueue.pages.readings import Reading, find_task, reading_of
from fdbqueue.pages.sites import EVERY, Addresses
from fdbqueue.pages.values import preview
from fdbqueue.service import Catalog, Item, Queue, WorkerRow, run, scan_by_moment

#: Of the queues that it looks at, a page reads items of this many that have any, those with the
#: most first,
MAX_QUEUES = 200
#: and this many items of these together, or about as many as have this many bytes.
MAX_ITEMS = 1_000
MAX_BYTES = 25_000_000
#: Of each queue it reads the numbers of this many reasons.
MAX_REASONS = 100
#: A reason names this many queues.
MAX_NAMED = 5


# What is read


@dataclass(frozen=True, slots=True)
class Across:
    """What was read of the leases, or of the dead letters, of all queues.

    Attributes:
        rows: The leased items, or the reasons.
        read: How many items these are.
        total: How many there are in the queues that were looked at, by their counts.
        queues: How many queues were looked at.
        busy: How many of them have such items.
        following: The name after which there are queues that were not looked at, or None.
    """

    rows: list[Any]
    read: int
    total: int
    queues: int
    busy: int
    following: str | None

    @property
    def is_all(self) -> bool:
        """Whether nothing of the queues that were looked at was left out."""
        return self.read >= self.total


def shares(counts: Sequence[int], most: int) -> list[int]:
    """Return how many items to read of each queue, so that few are left out of small ones.

    Args:
        counts: How many each queue has.
        most: How many to read in all, at least one of each.
    """
    found = [0] * len(counts)
    for place, at in enumerate(sorted(range(len(counts)), key=lambda at: counts[at])):
        found[at] = min(counts[at], max(1, most // (len(counts) - place)))
        most -= found[at]
    return found


#: Returns the buttons of actions on a queue that a user may do: its name, theirs, what is chosen.
_Acts = Callable[..., list[Offer]]

#: Reads in a transaction the rows of queues, each with a count; returns how many items these are.
_Reading = Callable[[Sequence[tuple[Queue, int]], Any], tuple[list[Any], int]]


def _read(begin: Callable[[], Catalog], after: str, state: str, read_rows: _Reading) -> Across:
    """Read what there is in a state, of the next queues, in one transaction."""
    names, following = deadlines.next_names(begin().each_name(after=after), MAX_QUEUES_READ)
    catalog = begin()
    queues = [catalog.queue(name) for name in names]

    def read_all(tr: Any) -> Across:
        begun = [(queue, queue.overview.begin_counts(tr)) for queue in queues]
        counted = [(queue, getattr(counts(), state)) for queue, counts in begun]
        busy = [one for one in counted if one[1] > 0]
        chosen = sorted(busy, key=lambda one: -one[1])[:MAX_QUEUES]
        rows, read = read_rows(chosen, tr)
        total = max(sum(count for _queue, count in busy), read)
        return Across(rows, read, total, len(queues), len(busy), following)

    return run(catalog.database, read_all, read_only=True)


def _leases(chosen: Sequence[tuple[Queue, int]], tr: Any) -> tuple[list[ItemRow], int]:
    """Read leases of queues, each of which gets its share."""
    rows: list[ItemRow] = []
    size = 0
    each = shares([count for _queue, count in chosen], MAX_ITEMS)
    for (queue, _count), share in zip(chosen, each, strict=True):
        if size >= MAX_BYTES or deadlines.is_half_over():
            break
        items = _items(queue, share, tr)
        size += sum(item.size_bytes for item in items)
        rows += [ItemRow(item, queue) for item in items]
    return rows, len(rows)


def _reasons(chosen: Sequence[tuple[Queue, int]], tr: Any) -> tuple[list[ReasonRow], int]:
    """Read the most frequent reasons of the dead letters of queues."""
    found: dict[str, ReasonRow] = {}
    for queue, _count in chosen:
        if deadlines.is_half_over():
            break
        with contextlib.suppress(FormatMismatch):  # the list of queues says so
            for one in queue.dead_by_reason(limit=MAX_REASONS, tr=tr):
                row = found.setdefault(one.reason, ReasonRow(one.reason))
                row.counts.append((queue, one.count))
    return [*found.values()], sum(row.number for row in found.values())


def _items(queue: Queue, share: int, tr: Any) -> list[Item]:
    """Return leased items of a queue, those whose leases end first."""
    try:
        found = scan_by_moment(
            queue,
            lambda _item: True,
            state="leased",
            tr=tr,
            most_found=share,
            most_looked_at=share,
            is_late=deadlines.is_half_over,
        )
    except FormatMismatch:  # the list of queues says so
        return []
    return [item for _passed, item in found.found]


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A lease and its worker, or a worker without a lease.

    ``worker`` is None if no worker of the lease's name has a row. ``is_first`` tells whether no
    lease of its worker is above.
    """

    worker: WorkerRow | None
    lease: ItemRow | None
    position: int = 0
    is_first: bool = False

    @property
    def name(self) -> str:
        """The worker's name; empty if the lease has none."""
        if self.lease is not None:
            return self.lease.item.worker or ""
        return self.worker.name if self.worker else ""

    def moment(self, name: str) -> tuple[bool, Any]:
        """Return what sorts by a moment of the lease; what has none comes last."""
        found = self.lease and getattr(self.lease.item, name)
        return found is None, found


# The parameters


class WorkersForm(ListForm):
    """Which workers and leases to show."""

    worker = search_field(_("Worker contains"), max_length=200, strip=False)
    sort = OrderField(
        RowOrder("until", _("Lease ends first"), lambda row: row.moment("until")),
        RowOrder("leased", _("Leased for longest"), lambda row: row.moment("leased_at")),
        RowOrder("worker", _("Worker"), lambda row: (not row.name, row.name, _queue_of(row))),
        RowOrder("queue", _("Queue"), lambda row: (row.lease is None, _queue_of(row))),
    )

    defaults: Mapping[str, str] = {"refresh": "5", "sort": "until", "page": "1"}
    shown = ("worker", "sort")


def _queue_of(row: HeldRow) -> str:
    return row.lease.queue.name if row.lease else ""


class DeadLettersForm(ListForm):
    """Which reasons of dead letters to show."""

    reason = search_field(_("Reason contains"), max_length=200, strip=False)
    sort = OrderField(
        RowOrder("most", _("Most dead letters"), lambda row: (-row.number, row.reason)),
        RowOrder("reason", _("Reason"), lambda row: row.reason),
    )

    defaults: Mapping[str, str] = {"refresh": "5", "sort": "most", "page": "1"}
    shown = ("reason", "sort")


# What is linked


class _Linked:
    """Makes links of items and queues; asks for the reading of each queue once."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._readings: dict[str, Reading] = {}

    def reading(self, queue: Queue) -> Reading:
        if queue.name not in self._readings:
            self._readings[queue.name] = reading_of(queue)
        return self._readings[queue.name]

    def item(self, row: HeldRow) -> SafeString | None:
        """Return the link to the task that an item is, or to the item, by what it begins with."""
        if row.lease is None:
            return None
        name, item = row.lease.queue.name, row.lease.item
        task = self.reading(row.lease.queue).task_named(item)
        if task is not None:
            return link(f"lease-{row.position}", self._addresses.task(name, task[0]), task[1])
        found = preview(item.value, row.lease.queue.codec)
        text = f"{found.text}…" if found.clipped else found.text
        return link(f"lease-{row.position}", self._addresses.item(name, item.id), text)

    def leased(self, row: HeldRow) -> SafeString | str | None:
        """Return the link to the leased items of a queue, or which queues an idle worker has."""
        if row.lease is None:
            return markup.cut(bounded(row.worker.queues)) if row.worker else None
        address = self._addresses.queue(row.lease.queue.name, state="leased")
        return link(f"of-{row.position}", address, row.lease.queue.label)

    def letters(self, reason: ReasonRow) -> SafeString | str:
        """Return the link to the dead letters of a reason, if all of these are in one queue."""
        (queue, _count), *others = reason.by_queue()
        number = grouped(reason.number)
        if others:
            return number
        return link(f"letters-{reason.position}", self._of_reason(reason, queue), number)

    def _of_reason(self, reason: ReasonRow, queue: Queue) -> str:
        chosen = {self.reading(queue).reason_field: reason.reason}
        return self._addresses.queue(queue.name, state="dead", **chosen)

    def queues(self, reason: ReasonRow) -> SafeString:
        """Return links to the dead letters of a reason in its queues."""
        by_queue = reason.by_queue()
        links = []
        for number, (queue, count) in enumerate(by_queue[:MAX_NAMED]):
            address = self._of_reason(reason, queue)
            name = f"{queue.label} ({grouped(count)})"
            links.append(link(f"queue-{reason.position}-{number}", address, name))
        return some_of(links, len(by_queue))


# What the templates show


def _context(form: ListForm, found: Across, columns: Any, rows: Sequence[Any]) -> dict[str, Any]:
    """Return what both templates show: a page of rows, and how much was read."""
    placed = [replace(row, position=position) for position, row in enumerate(rows, start=1)]
    return {
        **paged(form, columns, placed),
        "left": Left(
            grouped(found.read), grouped(found.total), grouped(found.queues), found.is_all
        ),
        **further(form, found.following),
    }


class WorkersView(ListView):
    """The workers there are, and the leases of all queues."""

    view, title, template = "workers", _("Workers"), "workers.html"
    form = WorkersForm

    def rows(self, form: WorkersForm) -> dict[str, Any]:
        """Return the leases, each with its worker, and the workers that have none."""
        found = _read(self.catalog, form.cleaned_data["after"], "leased", _leases)
        present = self.catalog().presences.read()
        by_name = holders(present)
        held = [HeldRow(by_name.get(row.item.worker or ""), row) for row in found.rows]
        if not form.cleaned_data["after"]:
            busy = {row.name for row in held}
            held += [HeldRow(one, None) for one in present.rows if one.name not in busy]
        lost = sum(one.is_lost for one in present.rows)
        linked, addresses = _Linked(self.addresses), self.addresses
        acts: _Acts = functools.partial(offers, self.request.user, self.addresses)
        columns: tuple[Column[HeldRow], ...] = (
            Column("worker", _("Worker"), functools.partial(_worker, acts)),
            Column("state", _("State"), lambda row: row.worker and presence(row.worker)),
            Column("item", _("Item or task"), functools.partial(_held, linked, acts)),
            Column("queue", _("Queue"), linked.leased),
            Column("leased_at", _("Leased"), lambda row: row.moment("leased_at")[1], PAST),
            Column("until", LEASED_UNTIL.heading, lambda row: row.moment("until")[1], FUTURE),
        )
        everyone = form.address(worker=None)
        return {
            **_context(form, found, columns, _with_firsts(form.chosen(held, attrgetter("name")))),
            "has_more_present": not present.is_complete,
            "tiles": [
                tile("alive", _("Workers alive"), len(present.rows) - lost, everyone),
                tile("lost", _("Lost"), lost, everyone, "bad" if lost else ""),
                tile("leases", _("Leases"), found.total, everyone),
                tile("busy", _("Queues with leases"), found.busy, addresses.queues(sort="-leased")),
            ],
        }


def _with_firsts(rows: Sequence[HeldRow]) -> list[HeldRow]:
    """Return rows, of which the first lease of each worker is marked."""
    seen: set[str] = set()
    marked = []
    for row in rows:
        is_first = row.lease is not None and bool(row.name) and row.name not in seen
        seen.add(row.name)
        marked.append(replace(row, is_first=is_first))
    return marked


def _worker(acts: _Acts, row: HeldRow) -> SafeString | None:
    """Return a worker's name, in which process it is, and what can be done to all it holds."""
    if not row.name:
        return None
    one, parts = row.worker, [markup.text(bounded(row.name))]
    process = f"{one.host}:{one.process}" if one and one.host else row.name
    if process != row.name:
        shown = '<span class="fdbqueue-quiet fdbqueue-fact">{}</span>'
        parts.append(markup.filled(shown, bounded(process)))
    if row.is_first:
        offered = acts(EVERY, "give-back", worker=row.name)
        offered = [replace(offer, verb=_("Give back all")) for offer in offered]
        parts.append(links(offered, f"worker-{row.position}", row.name) or SafeString(""))
    return SafeString(" ".join(parts))


def _held(linked: _Linked, acts: _Acts, row: HeldRow) -> SafeString | None:
    """Return the link to what a worker holds, and the buttons of what can be done to it."""
    shown = linked.item(row)
    if shown is None or row.lease is None:
        return None
    found = preview(row.lease.item.value, row.lease.queue.codec)
    offered = acts(row.lease.queue.name, "give-back", id=row.lease.item.id)
    buttons = links(offered, f"lease-{row.position}", found.text)
    return shown if buttons is None else SafeString(f"{shown} {buttons}")


def _shown_reason(reason: ReasonRow) -> SafeString:
    return markup.reason(folded(reason_text(reason.reason), f"reason-{reason.position}"))


class DeadLettersView(ListView):
    """The dead letters of all queues, by reason."""

    view, title, template = "failures", _("Failures"), "dead_letters.html"
    form = DeadLettersForm

    def rows(self, form: DeadLettersForm) -> dict[str, Any]:
        """Return the reasons."""
        found = _read(self.catalog, form.cleaned_data["after"], "dead", _reasons)
        groups = form.chosen(found.rows, attrgetter("reason"))
        linked = _Linked(self.addresses)
        columns: tuple[Column[ReasonRow], ...] = (
            Column("reason", _("Reason"), _shown_reason, css=lambda _value: "fdbqueue-reason"),
            Column("letters", _("Dead letters"), linked.letters, ValueKind(is_number=True)),
            Column("queues", _("Queues"), linked.queues),
        )
        by_dead = self.addresses.queues(sort="-dead")
        return {
            **_context(form, found, columns, groups),
            "tiles": [
                tile("dead", _("Dead letters"), found.total, by_dead),
                tile("reasons", _("Reasons"), len(groups), form.address(reason=None)),
                tile("busy", _("Queues with dead letters"), found.busy, by_dead),
            ],
        }


# Finding an id


class FoundId(NamedTuple):
    """Where an id was found: the queues and addresses; and the name to look after, or None."""

    places: list[tuple[str, str]]
    queues: int
    following: str | None


def find(
    begin: Callable[[], Catalog], sought: str, first: str, after: str, addresses: Addresses
) -> FoundId:
    """Look for a task or an item by its id, and first in a queue, if one is named.

    A task's id tells its queue, and that of a group or a chain leads to its page. For an item's,
    the key that it would have in each queue is read, and those of its states, in one transaction:
    the ids of most queues do not fit others.
    """
    task = find_task(begin(), sought)
    if task is not None:
        return FoundId([(task.queue, addresses.task(*task))], 1, None)
    if first and (places := _places(begin(), [first], sought, addresses)[0]):
        return FoundId(places, 1, None)
    names, following = deadlines.next_names(begin().each_name(after=after), MAX_QUEUES_READ)
    places, looked = _places(begin(), names, sought, addresses)
    if looked < len(names):
        following = names[looked - 1]
    return FoundId(places, looked, following)


def _places(
    catalog: Catalog, names: Sequence[str], sought: str, addresses: Addresses
) -> tuple[list[tuple[str, str]], int]:
    """Return which queues have an item, with its addresses, and in how many it was looked for."""

    def read_all(tr: Any) -> tuple[list[tuple[str, str]], int]:
        places: list[tuple[str, str]] = []
        for number, name in enumerate(names):
            if number and deadlines.is_half_over():
                return places, number
            try:
                catalog.queue(name).get(sought, tr=tr)
            except (ItemNotFound, InvalidInput, FormatMismatch):
                continue
            places.append((name, addresses.item(name, sought)))
        return places, len(names)

    return run(catalog.database, read_all, read_only=True)


class FindView(PageView):
    """Goes to the item or the task of any queue whose id a reader has typed."""

    template = "found.html"

    def get(self, request: HttpRequest) -> HttpResponseBase:
        """Redirect to its page, or say where it was looked for."""
        about = self.about_all("")
        form = FindForm(request.GET)
        if not form.is_valid():
            return self.problem(bad_form(form), **about)
        sought, first, after = map(form.cleaned_data.__getitem__, ("id", "queue", "after"))
        found = find(self.catalog, sought, first, after, self.addresses)
        if len(found.places) == 1 and found.following is None and not after:
            return HttpResponseRedirect(found.places[0][1])
        following = form.address(id=sought, after=found.following) if found.following else None
        return self.page(
            _("Find by id"),
            status=200 if found.places else 404,
            item_id=shown_id(sought),
            places=found.places,
            queues=grouped(found.queues),
            is_whole=found.following is None and not after,
            following=following,
            **about,
        )
