"""The columns of a queue of tasks, and the facts of a task's item."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from fdbqueue.pages import item_columns
from fdbqueue.pages.columns import DASH
from fdbqueue.pages.item_columns import ItemColumn, ItemRow
from fdbqueue.pages.text import (
    PREVIEW_CHARACTERS,
    Moment,
    Preview,
    ahead,
    clip,
    grouped,
    number,
    preview,
    visible,
)
from fdbqueue.service import Queue
from fdbqueue.tasks.calls import Call, unpacked
from fdbqueue.tasks.pages.attempts import short_name, shown_path, shown_worker
from fdbqueue.tasks.pages.rows import ABORTED, DONE, RESULT_ID, TaskNotes
from fdbqueue.tasks.pages.times import lasting, shown_moment
from fdbqueue.tasks.records import Ended

_MAX_MESSAGE = 200
_JSON = json.JSONEncoder(ensure_ascii=False)


class ShownFunction(NamedTuple):
    """A function: its name, its dotted path, and the address of the task's page.

    Of an item that is not a task, ``path`` is empty.
    """

    name: str
    path: str
    address: str


class ShownError(NamedTuple):
    """Why a task has failed: the exception, its message, and the traceback, folded.

    ``number`` is that of the task on its page, because each traceback needs a name of its own.
    """

    number: int
    name: str
    path: str
    message: str
    traceback: str
    element_id: str


def arguments(call: Call) -> Preview:
    """Return the beginning of a call's arguments; the rest of them costs nothing."""
    text = ""
    for name, value in [*((None, one) for one in call.args), *call.kwargs.items()]:
        text += (", " if text else "") + ("" if name is None else f"{name}=")
        for chunk in _JSON.iterencode(value):
            text += chunk
            if len(text) > PREVIEW_CHARACTERS:
                return Preview(*clip(text), decodable=True)
    return Preview(*clip(text), decodable=True)


def attempts(begun: int, most: int | None) -> str:
    """Return how many attempts have begun, of how many where that is known."""
    if most is None:
        return number(begun)
    return str(_("%(begun)s of %(most)s") % {"begun": number(begun), "most": grouped(most)})


def _function(row: ItemRow) -> ShownFunction:
    notes: TaskNotes = row.notes
    if not notes.path:
        return ShownFunction(str(_("Not a task")), "", row.address)
    address = row.addresses.task(row.queue.name, notes.id) if notes.id else row.address
    return ShownFunction(short_name(notes.path), shown_path(notes.path), address)


def _arguments(row: ItemRow) -> Preview | None:
    """Return the arguments of a task, and the value of an item that is not one."""
    notes: TaskNotes = row.notes
    if not notes.path:
        return preview(row.item.value, row.queue.codec)
    known = notes.known
    return None if known is None else arguments(known.call)


def _attempts(row: ItemRow) -> str:
    notes: TaskNotes = row.notes
    if notes.known is None:
        return DASH
    begun = len(notes.known.attempts.workers)
    return attempts(begun, notes.most_attempts)


def _since(row: ItemRow) -> Moment | None:
    known = row.notes.known
    return None if known is None else shown_moment(known.attempts.latest)


def _error(row: ItemRow) -> ShownError:
    first, _line, rest = (row.item.reason or "").strip().partition("\n")
    notes: TaskNotes = row.notes
    errors = notes.known.attempts.errors if notes.known and notes.has_record else ()
    message = rest.strip()
    return ShownError(
        row.position,
        short_name(first) if " " not in first else shown_path(first),
        shown_path(first),
        visible(message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}…"),
        visible(errors[-1].traceback).rstrip() if errors else "",
        f"traceback-{row.item.id}",
    )


def _ended(row: ItemRow) -> Moment | None:
    ended: Ended = row.item.value
    return shown_moment(ended.moment)


def _duration(row: ItemRow) -> str:
    known = row.notes.known
    if known is None or known.attempts.latest is None or known.finished is None:
        return DASH
    return lasting((known.finished - known.attempts.latest) / 1_000_000)


def _returned(row: ItemRow) -> Preview | None:
    known = row.notes.known
    return None if known is None else preview(known.value, row.queue.codec)


def _last_worker(row: ItemRow) -> str:
    known = row.notes.known
    return shown_worker(known.attempts.workers[-1]) if known and known.attempts.workers else DASH


def _priority(row: ItemRow) -> str:
    known = row.notes.known
    return DASH if known is None else number(known.call.priority)


def _in(*states: str) -> Callable[[Queue, str], bool]:
    return lambda _queue, state: state in states


def _value_css(_value: Any) -> str:
    return "fdbqueue-value"


#: The columns that a queue of other items has, too.
_OF_ITEMS = {column.name: column for column in item_columns.COLUMNS}

#: The table of tasks on the page of a queue.
COLUMNS = (
    ItemColumn(
        name="function", heading=_("Function"), value=_function, template="tasks/function.html"
    ),
    ItemColumn(
        name="error",
        heading=_("Last error"),
        value=_error,
        template="tasks/error.html",
        css=lambda _value: "fdbqueue-error",
        is_shown=_in("dead"),
    ),
    ItemColumn(
        name="arguments",
        heading=_("Arguments"),
        value=_arguments,
        template="tasks/clipped.html",
        css=_value_css,
    ),
    ItemColumn(
        name="state",
        heading=_("State"),
        value=lambda row: row.notes.state or DASH,
        is_shown=_in("ready", "leased", "delayed"),  # elsewhere it is what the tab is called
    ),
    ItemColumn(
        name="returned",
        heading=_("Returned"),
        value=_returned,
        template="tasks/clipped.html",
        css=_value_css,
        is_shown=_in(DONE),
    ),
    ItemColumn(
        name="priority",
        heading=_("Priority"),
        value=_priority,
        is_number=True,
        is_minor=True,
        is_shown=_in("ready", "delayed"),
    ),
    ItemColumn(name="attempts", heading=_("Attempts"), value=_attempts, is_number=True),
    ItemColumn(
        name="worker",
        heading=_("Worker"),
        value=_last_worker,
        template="text.html",
        is_shown=_in("leased"),
    ),
    ItemColumn(
        name="since",
        heading=_("Running since"),
        value=_since,
        template="moment.html",
        is_shown=_in("leased"),
    ),
    ItemColumn(
        name="run_after",
        heading=_("Runs after"),
        value=lambda row: row.item.until and Moment(row.item.until, ahead(row.item.until)),
        template="moment.html",
        is_shown=_in("delayed"),
    ),
    ItemColumn(
        name="failed",
        heading=_("Failed"),
        value=_OF_ITEMS["died"].value,
        template="moment.html",
        is_shown=_in("dead"),
    ),
    ItemColumn(
        name="duration",
        heading=_("Duration"),
        value=_duration,
        is_number=True,
        is_shown=_in(DONE),
    ),
    ItemColumn(
        name="ended",
        heading=_("Ended"),
        value=_ended,
        template="moment.html",
        is_shown=_in(DONE, ABORTED),
    ),
    ItemColumn(
        name="enqueued",
        heading=_("Enqueued"),
        value=_OF_ITEMS["pushed"].value,
        template="moment.html",
        is_shown=_in("ready", "leased", "delayed"),
    ),
)


def _item_function(row: ItemRow) -> ShownFunction:
    call = unpacked(row.item.value)
    if call is None:
        return ShownFunction(str(_("Not a task")), "", "")
    is_linked = RESULT_ID.fullmatch(call.id)
    address = row.addresses.task(row.queue.name, call.id) if is_linked else ""
    return ShownFunction(shown_path(call.task), shown_path(call.task), address)


#: The facts on the page of a task's item.
FACTS = (
    ItemColumn(
        name="task", heading=_("Task"), value=_item_function, template="tasks/function.html"
    ),
    *item_columns.FACTS,
)
