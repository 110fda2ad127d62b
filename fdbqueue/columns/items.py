"""The columns of a queue's items, and the facts of one item.

To add one, add an :class:`ItemColumn` to :data:`PAGE_COLUMNS` for the pages' table, to
:data:`COMMAND_COLUMNS` for that of ``queue_peek`` and ``queue_pop``, to :data:`FACTS` for the page
of an item and ``queue_show``, or to :data:`DETAILS` for lines of JSON. The value of an item itself
is written by :mod:`fdbqueue.pages.values` and :mod:`fdbqueue.management.item_lines`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import (
    CODE,
    COUNT,
    FUTURE,
    NOTHING,
    NUMBER,
    PAST,
    SIZE,
    STATES,
    TEXT,
    WORD,
    Column,
    ValueKind,
    lines_printable,
    markup,
)
from fdbqueue.columns.text import (
    Moment,
    bounded,
    clipped,
    key_escaped,
    key_text,
    number,
    printable,
    short_time,
    size,
    timestamp,
    visible,
)
from fdbqueue.service import MAX_REASON_CHARACTERS, Failure, Item, Queue, WorkerRow

_CELL_REASON_CHARACTERS = 200


class ReasonGroup(NamedTuple):
    """A reason that stands above a list of dead letters, so that rows need not repeat it.

    Attributes:
        text: The reason, as pages show it.
        number: Its number above the list; empty if all rows have the reason, and name none.
        address: What lists only the dead letters of the reason; empty if nothing does.
    """

    text: str
    number: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class ItemRow:
    """An item of a queue, and what is known of it besides.

    ``key`` is what it is stored under; ``unique_while`` says how long it has its unique key. The
    rest is for the pages: ``position`` is where it is in its list, ``addresses`` are those of the
    pages, and ``notes`` what the queue's reading has read besides. ``shared`` are the members of
    its value that all rows of its list have, and ``group`` is the beginning of its reason, which
    stands above the list. ``holder`` is the worker that has leased it, if that has a row.
    """

    item: Item
    queue: Queue
    key: bytes = b""
    unique_while: str | None = None
    position: int = 0
    addresses: Any = None
    notes: Any = None
    shared: frozenset[str] = frozenset()
    group: ReasonGroup | None = None
    holder: WorkerRow | None = None


def read_row(queue: Queue, item_id: str, tr: Any) -> ItemRow:
    """Read all that there is to say of an item.

    Raises:
        ItemNotFound: The item is not there, or no longer.
        InvalidInput: It is not the id of an item of this queue.
    """
    item = queue.get(item_id, tr=tr)
    return ItemRow(item, queue, queue.overview.key_of(item), queue.overview.unique_while(tr, item))


def in_state(*states: str) -> Callable[[Queue, str], bool]:
    """Return what tells whether a list is one of these."""
    return lambda _queue, of_items: of_items in states


@dataclass(frozen=True, kw_only=True)
class ItemColumn(Column[ItemRow]):
    """A column of a queue's items, or a fact of one item.

    Attributes:
        is_shown: Tells for a queue and a state of items whether the column is there.
        is_place: Whether it tells where an item is stored, which few readers ask.
    """

    is_shown: Callable[[Queue, str], bool] = lambda _queue, _state: True
    is_place: bool = False


def shown(columns: Sequence[ItemColumn], queue: Queue, state: str) -> list[ItemColumn]:
    """Return the columns that are there for a queue's items in a state."""
    return [column for column in columns if column.is_shown(queue, state)]


def reason_text(reason: str | None) -> str:
    """Return the reason of a dead letter as pages show it."""
    text = (reason or "").removeprefix("builtins.")  # as Python's tracebacks name it
    return visible(text[:MAX_REASON_CHARACTERS])


# Failed attempts


def failed_attempts(failures: Sequence[Failure], element_id: str = "") -> SafeString:
    """Return failed attempts as pages list them, the latest first; they fold if they have an id."""
    if not failures:
        return SafeString(markup.DASH)
    listed = format_html_join(
        "",
        "<li>{} {}<div>{} {}</div><div>{} {}</div></li>",
        [
            (
                gettext("Attempt %(attempt)s") % {"attempt": number(one.attempt)},
                markup.moment(Moment.ago(one.at)),
                gettext("Worker:"),
                markup.text(markup.DASH if one.worker is None else bounded(one.worker)),
                gettext("Reason:"),
                markup.text(reason_text(one.reason)),
            )
            for one in reversed(failures)
        ],
    )
    shown = format_html('<ol class="fdbqueue-failures">{}</ol>', listed)
    if not element_id:
        return shown
    count = len(failures)
    summary = ngettext("%(number)s failure", "%(number)s failures", count) % {"number": count}
    last = failures[-1].worker
    who = SafeString("")
    if last:
        who = format_html(
            ' <span class="fdbqueue-quiet fdbqueue-minor">{} {}</span>',
            gettext("last worker:"),
            markup.text(bounded(last)),
        )
    return format_html(
        '<details id="{}"><summary>{}{}</summary>{}</details>', element_id, summary, who, shown
    )


def _failure_line(failure: Failure) -> str:
    worker = "" if failure.worker is None else f", {printable(failure.worker)}"
    when = short_time(failure.at)
    return f"attempt {failure.attempt:,}, {when} UTC{worker}: {printable(failure.reason)}"


def _failure_record(failure: Failure) -> dict[str, Any]:
    said = {"attempt": failure.attempt, "at": timestamp(failure.at)}
    return {**said, "worker": failure.worker, "reason": failure.reason}


# The columns

_UNIQUE = {
    "pending": _("Kept until the item is done"),
    "ready": _("Kept until the item is popped or leased"),
}


def _exact_size(count: int) -> str:
    shown = size(count)
    return shown.exact if shown.words == shown.exact else f"{shown.words} ({shown.exact})"


def _until_column(state: str, heading: str | Promise) -> ItemColumn:
    return ItemColumn(
        "until", heading, attrgetter("item.until"), FUTURE, label="ENDS", is_shown=in_state(state)
    )


ID = ItemColumn("id", _("Item id"), attrgetter("item.id"), CODE, label="ID")
PRIORITY = ItemColumn(
    "priority",
    _("Priority"),
    attrgetter("item.priority"),
    NUMBER,
    is_shown=lambda queue, _state: queue.priority_type is not None,
)
PUSHED = ItemColumn("pushed_at", _("Pushed"), attrgetter("item.pushed_at"), PAST, label="AGE")
STATE = ItemColumn(
    "state", _("State"), attrgetter("item.state"), replace(WORD, written=dict(STATES).__getitem__)
)
LEASED_UNTIL = _until_column("leased", _("Leased until"))
DELAYED_UNTIL = _until_column("delayed", _("Delayed until"))
WORKER = ItemColumn(
    "worker", _("Worker"), attrgetter("item.worker"), TEXT, is_shown=in_state("leased")
)
LEASED_AT = ItemColumn(
    "leased_at",
    _("Leased"),
    attrgetter("item.leased_at"),
    PAST,
    label="LEASED",
    is_shown=in_state("leased"),
)
DIED = ItemColumn("died_at", _("Died"), attrgetter("item.died_at"), PAST, is_shown=in_state("dead"))
REASON = ItemColumn(
    "reason",
    _("Reason"),
    attrgetter("item.reason"),
    ValueKind(
        written=lambda reason: markup.lines(reason_text(reason)),
        nothing=markup.lines(markup.DASH),
        cell=lambda reason: clipped(reason, _CELL_REASON_CHARACTERS),
        line=lines_printable,
    ),
    is_shown=in_state("dead"),
)
FAILURES = ItemColumn(
    "failures",
    _("Last failures"),
    attrgetter("item.failures"),
    ValueKind(
        written=failed_attempts,
        line=lambda failures: "\n".join(map(_failure_line, reversed(failures))) or NOTHING,
        record=lambda failures: list(map(_failure_record, failures)),
    ),
)
ATTEMPTS = ItemColumn(
    "attempts",
    _("Failed attempts"),
    attrgetter("item.attempts"),
    COUNT,
    label="FAILED",
    is_minor=True,
)
ITEM_SIZE = ItemColumn("size", _("Size"), attrgetter("item.size_bytes"), SIZE, is_minor=True)

#: The pages' table of items, between where an item is in its list and its value.
PAGE_COLUMNS = (
    PRIORITY,
    PUSHED,
    LEASED_UNTIL,
    WORKER,
    DELAYED_UNTIL,
    DIED,
    REASON,
    replace(FAILURES, is_shown=in_state("dead")),
    ATTEMPTS,
    ITEM_SIZE,
)
#: The commands' table, before its value.
COMMAND_COLUMNS = (ID, PRIORITY, PUSHED, ATTEMPTS, LEASED_UNTIL, DELAYED_UNTIL, WORKER, REASON)
#: The page of one item, and ``queue_show``.
FACTS = (
    ItemColumn("queue", _("Queue"), attrgetter("queue.name")),
    STATE,
    LEASED_UNTIL,
    WORKER,
    DELAYED_UNTIL,
    DIED,
    REASON,
    FAILURES,
    PRIORITY,
    PUSHED,
    ATTEMPTS,
    replace(ITEM_SIZE, kind=replace(SIZE, written=_exact_size)),
    ItemColumn(
        "unique",
        _("Unique key"),
        attrgetter("unique_while"),
        ValueKind(written=_UNIQUE.__getitem__, cell=lambda kept: str(_UNIQUE[kept])),
    ),
    ID,
    ItemColumn(
        "key",
        _("Key"),
        attrgetter("key"),
        replace(
            CODE,
            written=lambda key: markup.code(key_text(key)),
            cell=lambda key: printable(key_text(key)),
        ),
        is_place=True,
    ),
    ItemColumn(
        "key_escaped",
        _("Key for fdbcli"),
        attrgetter("key"),
        replace(CODE, written=lambda key: markup.code(key_escaped(key)), cell=key_escaped),
        is_place=True,
    ),
)
#: What lines of JSON about items in any state have besides what is read back.
DETAILS = (STATE, LEASED_UNTIL, REASON, DIED, WORKER, FAILURES, ITEM_SIZE)
