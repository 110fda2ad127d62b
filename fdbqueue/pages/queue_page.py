"""The page of a queue: settings, figures, charts, reasons of its dead letters, and items.

All of it is read in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from fdbqueue import conf
from fdbqueue.columns import Tile, nothing
from fdbqueue.columns.attention import concerns_of, resume_command, waits_too_long
from fdbqueue.columns.items import ReasonGroup, reason_text
from fdbqueue.columns.queue_rows import QueueRow, fill
from fdbqueue.columns.queues import COUNTS, FIGURES, OLDEST, STATUS, reads_of
from fdbqueue.columns.text import (
    FoldedText,
    Moment,
    clip,
    command,
    duration,
    folded,
    grouped,
    number,
    size,
    subspace,
    visible,
)
from fdbqueue.pages import item_list
from fdbqueue.pages.action_page import offers
from fdbqueue.pages.actions import acts_in
from fdbqueue.pages.charts import (
    MAX_PRIORITIES,
    Bucket,
    Chart,
    Level,
    Sparkline,
    depth_chart,
    priorities_of,
    rate_chart,
    rate_sparkline,
    sparkline,
)
from fdbqueue.pages.forms import ItemsForm
from fdbqueue.pages.item_page import bury_command
from fdbqueue.pages.readings import ITEMS, OtherTabs, Reading, Setting
from fdbqueue.pages.sites import Addresses
from fdbqueue.service import (
    DeadReason,
    Ends,
    Pause,
    Queue,
    depths,
    group_digest,
    group_of_text,
    run,
)
from fdbqueue.service.options import ALLOWED

MINUTES = {"hour": 60, "day": 24 * 60}
#: The page shows this many reasons of dead letters, the most frequent.
MAX_REASONS = 20


class ShownPause(NamedTuple):
    """Since when and why a queue is paused, by which family, and the command that resumes it.

    ``label`` is what readers call the family.
    """

    since: Moment
    reason: str
    family: str | None
    command: str
    label: str


class Tab(NamedTuple):
    """The items of one state: how many there are, and the address that shows them.

    ``items`` is empty if they are not counted.
    """

    name: str
    label: str | Promise
    items: str
    address: str
    is_chosen: bool


class Blockade(NamedTuple):
    """What is known of an item at an end that cannot be decoded, and the commands that help.

    Attributes:
        ends: The ends, in words.
        examine: The command that looks for all such items.
        bury: The command that makes those at the ends dead letters.
        item_id: The id of the first of them.
    """

    ends: str | Promise
    examine: str
    bury: str
    item_id: str


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason, how many items died of it, and the commands that redrive and remove these.

    ``name`` is that of its group, and ``digest`` what actions call that. Rows below have its number
    in place of it, if it has one. The commands are empty if the reason has characters that cannot
    be typed, and the one that removes if more than the items is kept of them; the address, which
    shows these items alone, if the page cannot do that.
    """

    name: str
    digest: str
    number: str
    text: str
    folded: FoldedText
    items: str
    command: str
    purge: str
    address: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Reasons:
    """The most frequent reasons; how many dead letters are not among them, and what counts these.

    ``chosen`` is the reason whose dead letters alone are listed, empty for none;
    ``everything`` is the address that lists those of all. ``others`` is empty if all are shown.
    """

    groups: list[Reason]
    chosen: str
    everything: str
    others: str
    recount: str


def queue_details(
    queue: Queue, form: ItemsForm, reading: Reading, addresses: Addresses, user: Any
) -> tuple[ItemsForm, dict[str, Any]]:
    """Read a queue: a dozen reads at most, however long it is.

    Returns:
        The form of the tab that the page shows, and what the template shows. There are no charts of
        a period in which the queue was empty and nothing happened, and none of the rates if nothing
        was pushed or popped.

    Raises:
        InvalidInput: A position in the address is not one of this queue.
    """
    span = form.cleaned_data["span"]
    row = QueueRow(queue, history_minutes=MINUTES[span])

    def read(tr: Any) -> tuple[Any, ...]:
        begun = reading.begin_others(queue, tr)
        fill(tr, [(begin, [row]) for begin in reads_of((*FIGURES, STATUS))])
        others = begun()
        opened = reading.opened(form, _tabs_with_any(row, reading, others))
        levels, is_cut = _levels(queue, tr) if reading.has_priorities else ([], False)
        is_dead = opened.cleaned_data["state"] == "dead"
        dead = queue.dead_by_reason(limit=MAX_REASONS, tr=tr) if is_dead else []
        return opened, others, levels, is_cut, dead, item_list.read(queue, opened, tr, reading)

    opened, others, levels, is_cut, dead, items = run(queue.database, read, read_only=True)
    priorities = priorities_of(levels, row.counts.ready, queue.priority_type, is_cut=is_cut)
    is_dead = opened.cleaned_data["state"] == "dead"
    reasons = _reasons(queue, opened, reading, dead, row.counts.dead) if is_dead else None
    buckets = [] if priorities is None else priorities.buckets
    names = acts_in(opened.cleaned_data["state"], of_tasks=reading.task is not None)
    acts = offers(user, addresses, queue.name, *names)
    return opened, {
        "pause": row.pause and shown_pause(row.pause, queue.name),
        "blockade": _blockade(queue, row.ends),
        "concerns": [
            (one, one.figure(row), f"python manage.py {one.remedy(row)}" if one.remedy(row) else "")
            for one in concerns_of(row)
            if not one.is_checked and one.tab != "dead"
        ],
        "tiles": _tiles(row, others, opened, reading),
        "tabs": _tabs(row, others, opened, addresses, reading),
        "spans": [
            (label, opened.address(span=one) + "#fdbqueue-charts", one == span)
            for one, label in (("hour", _("Last hour")), ("day", _("Last day")))
        ],
        **_charts(row, span),
        "priorities": priorities,
        "reasons": reasons,
        "buckets": [_bucket_row(bucket, opened) for bucket in buckets],
        **item_list.context(row, opened, items, addresses, reading, _numbered(reasons), acts),
    }


def _tabs_with_any(row: QueueRow, reading: Reading, others: OtherTabs) -> set[str]:
    """Return the names of the tabs that have anything."""
    counts = {name: getattr(row.counts, name, 0) for name, _label in reading.tabs}
    found = {name for name, count in counts.items() if count > 0}
    return found.union(name for name, count in others.counts.items() if count not in {"", "0"})


def _charts(row: QueueRow, span: str) -> dict[str, list[Any]]:
    """Return the charts, small and large, of what there was in this period."""
    lines: list[Sparkline] = []
    charts: list[Chart] = []
    history = depths(row.counts, row.minutes)
    if any(depth.items for depth in history):
        lines.append(sparkline(history))
        charts.append(depth_chart(history, span))
    if any(minute.pushes or minute.pops for minute in row.minutes):
        lines.append(rate_sparkline(row.minutes, span))
        charts.append(rate_chart(row.minutes, span))
    return {"sparklines": lines, "charts": charts}


def _reasons(
    queue: Queue, form: ItemsForm, reading: Reading, found: Sequence[DeadReason], dead: int
) -> Reasons | None:
    """Return what the page shows of the reasons of dead letters, None if nothing is dead."""
    if dead <= 0 and not found:
        return None
    field = reading.reason_field
    others = dead - sum(one.count for one in found)
    return Reasons(
        [_reason(queue, form, reading, one, n) for n, one in enumerate(found, start=1)],
        clip(reason_text(form.cleaned_data[field]))[0] if field else "",
        form.items_address(**{field: None}) if field else "",
        grouped(others) if others > 0 else "",
        command("queue_doctor", queue.name, "--repair"),
    )


def _reason(
    queue: Queue, form: ItemsForm, reading: Reading, found: DeadReason, position: int
) -> Reason:
    field, text = reading.reason_field, reason_text(found.reason)
    can_type = found.reason.isprintable()
    can_choose = field and found.reason and can_type
    can_purge = can_type and reading.task is None
    return Reason(
        found.reason,
        group_digest(found.reason),
        grouped(position) if reading.task is None else "",
        text,
        folded(text, f"group-{position}"),
        grouped(found.count),
        command("queue_redrive", queue.name, reason=found.reason) if can_type else "",
        command("queue_purge", queue.name, reason=found.reason) if can_purge else "",
        form.items_address(**{field: found.reason}) if can_choose else "",
        bool(field and found.reason) and form.cleaned_data[field] == found.reason,
    )


def _numbered(reasons: Reasons | None) -> dict[bytes, ReasonGroup]:
    """Return the reasons above a list, with their numbers, by the names of their groups."""
    groups = [] if reasons is None else reasons.groups
    return {
        group_of_text(one.name): ReasonGroup(one.text, one.number, one.address)
        for one in groups
        if one.name and one.number
    }


def _levels(queue: Queue, tr: Any) -> tuple[list[Level], bool]:
    """Return the lowest priorities in use, and whether there may be more of them."""
    if not queue.priority_type:
        return [], False
    return queue.overview.lowest_levels(tr, MAX_PRIORITIES)


#: What it means that an option is not set, if not that there is no limit.
_UNSET = {"shards": _("none: one part"), "choices": _("none: in order")}
#: What each option of a queue does.
_MEANINGS = {
    "kind": _("fifo: the earliest pushed is popped first; priority: the lowest priority is."),
    "codec": _("How values become bytes; json alone keeps when an item was pushed."),
    "priority_type": _("All priorities of the queue are kept in this type."),
    "order": _(
        "commit: strictly in the order of the pushes' commits; count: in the order of "
        "FoundationDB's recipe."
    ),
    "shards": _("The ready items are spread over so many parts, and taken nearly in order."),
    "choices": _("A pop takes the first item of so many shards, drawn at random."),
    "handoff_timeout_seconds": _(
        "Items that one process took for another return if that one has not collected them by then."
    ),
    "max_attempts": _("After so many failed leases an item is a dead letter."),
    "max_value_bytes": _("A longer value is refused."),
    "max_leased": _("At most so many items are leased at a time."),
    "rate": _("At most so many items are taken per second, minute, hour or day."),
    "burst": _("So many may be taken at once after a pause."),
    "attention_seconds": _(
        "The queue needs attention if for so long something could be taken, and nothing was."
    ),
    "subspace": _("Where in the database all of it is stored."),
}


def settings(queue: Queue, reading: Reading = ITEMS) -> list[Setting]:
    """Return how a queue is set up: its kind, its options, and where it is."""
    if reading.settings is not None:
        return reading.settings(queue)
    options = queue.options.shown(queue.kind).items()
    return [
        Setting(_("Kind"), queue.kind, meaning=_MEANINGS["kind"]),
        *(
            Setting(_(ALLOWED[name].label), _text(name, value), meaning=_MEANINGS.get(name, ""))
            for name, value in options
        ),
        Setting(_("Subspace"), subspace(queue), is_code=True, meaning=_MEANINGS["subspace"]),
    ]


def _text(name: str, option: Any) -> str | Promise:
    if option is None:
        return _UNSET.get(name, _("no limit"))
    if name.endswith("_bytes"):
        return size(option).words
    if name.endswith("_seconds"):
        is_round = option and option % 60 == 0
        return duration(option) if is_round else _("%(count)s s") % {"count": number(option)}
    return option if isinstance(option, str) else grouped(option)


_ENDS = {
    ("min",): _("The item at the min end, the next to be popped, cannot be decoded."),
    ("max",): _("The item at the max end cannot be decoded."),
    ("min", "max"): _("The items at both ends cannot be decoded."),
}


def _blockade(queue: Queue, ends: Ends) -> Blockade | None:
    """Return what blocks a queue, and what helps; None if nothing does."""
    if not ends.undecodable_ids:
        return None
    return Blockade(
        _ENDS[tuple(sorted(ends.undecodable, reverse=True))],
        command("queue_doctor", queue.name),
        bury_command(queue, dict.fromkeys(ends.undecodable_ids)),
        ends.undecodable_ids[0],
    )


def _tiles(row: QueueRow, others: OtherTabs, form: ItemsForm, reading: Reading) -> list[Tile]:
    """Return the figures of a queue, and of today; those of tabs lead there."""
    labels, tiles = dict(reading.tabs), []
    for column in FIGURES:
        value = column.value(row)
        tile = column.tile(value, labels.get(column.name))
        if value is None and (why := column.why_nothing(row)):
            tile = tile._replace(figure=nothing(why))
        if column is OLDEST and waits_too_long(row):
            tile = tile._replace(kind="warning")
        if column.name in COUNTS:
            tile = tile._replace(address=form.tab_address(column.name))
        tiles.append(tile)
    return [
        *tiles,
        *(
            Tile(f"{name}-today", label, SafeString(figure), "", form.tab_address(name))
            for name, label, figure in others.today
        ),
    ]


def _tabs(
    row: QueueRow, others: OtherTabs, form: ItemsForm, addresses: Addresses, reading: Reading
) -> list[Tab]:
    queue, tabs = row.queue, []
    for name, label in reading.tabs:
        address, items = form.tab_address(name), others.counts.get(name, "")
        if name not in reading.scans:
            items = grouped(getattr(row.counts, name))
        elif queue.is_part:
            address = addresses.queue(queue.home, state=name, **others.at_home)
        tabs.append(Tab(name, label, items, address, name == form.cleaned_data["state"]))
    return tabs


def _bucket_row(bucket: Bucket, form: ItemsForm) -> dict[str, str]:
    """Return a row of the table of priorities, with the address of its items."""
    low, high = repr(bucket.low), repr(bucket.high)
    address = form.items_address(min_priority=low, max_priority=high, state="ready")
    return {
        "label": bucket.label,
        "items": grouped(bucket.items),
        "address": address if bucket.items else "",
    }


def shown_pause(pause: Pause, name: str) -> ShownPause:
    """Return what is shown of the pause of the queue, or family, with a name."""
    resume = f"python manage.py {resume_command(name, pause)}"
    labels = {one.name: one.label for one in conf.catalog().families()} if pause.family else {}
    since, reason = Moment.ago(pause.since), visible(pause.reason)
    return ShownPause(since, reason, pause.family, resume, labels.get(pause.family or "", ""))
