"""The lists of a queue of tasks: their columns, and their parameters.

A list reads one key more for a task than its item (:func:`begin_notes`). Tasks that have no item
any more are in ``ended``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.formats import localize
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from fdbqueue.columns import DURATION, FUTURE, NUMBER, PAST, ValueKind, items, markup
from fdbqueue.columns.items import DIED, PUSHED, ItemColumn, ItemRow, in_state
from fdbqueue.columns.text import PREVIEW_CHARACTERS, clip, visible
from fdbqueue.pages.forms import ItemsForm, search_field
from fdbqueue.pages.item_columns import address_of, holder, in_one_line
from fdbqueue.pages.search import contains, died_of, worker_contains
from fdbqueue.pages.values import Preview, preview, previewed
from fdbqueue.service import Item, Queue
from fdbqueue.tasks.columns import (
    RESULT_ID,
    TaskRow,
    last_duration,
    moment,
    short_name,
    shown_path,
)
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.pages.ended import MAX_FILTER
from fdbqueue.tasks.records import (
    NO_ATTEMPTS,
    EndedTask,
    TaskCall,
    is_pending,
    unpacked,
)
from fdbqueue.tasks.states import ABORTED, DONE, TaskState, state_of

_MAX_MESSAGE = 200
_JSON = json.JSONEncoder(ensure_ascii=False)


# What is read of a task


def matching(queue: Queue, form: ItemsForm) -> Callable[[Item], bool] | None:
    """Return what tells whether an item is a task that a form asks for, None if all are."""
    wanted, tests = form.cleaned_data, []
    if wanted["function"]:
        tests.append(_calls(wanted["function"]))
    if wanted["q"] and wanted["state"] not in {DONE, ABORTED}:
        tests.append(contains(wanted["q"], queue.codec))
    if wanted["worker"]:
        tests.append(worker_contains(wanted["worker"]))
    if wanted["exception"] and wanted["state"] == "dead":
        tests.append(died_of(wanted["exception"]))
    if not tests and wanted["state"] != ABORTED:  # those are looked for among the failed ones
        return None
    return lambda item: all(test(item) for test in tests)


def begin_notes(backend: Any, queue: Queue, item: Item, tr: Any) -> Callable[[], TaskRow | None]:
    """Begin to read what a list says of a task; what is returned returns it, None for no task.

    One key is read of a task that has been tried, or is done, and none of others. A record that is
    too long for a list is left out.
    """
    if isinstance(item.value, EndedTask):
        read = _begin_record(backend, item.value.id, tr)
        return lambda: TaskRow(_ended(backend, item.value, read()), queue, backend)
    call = unpacked(item.value)
    if call is None:
        return lambda: None
    read = dict
    if item.attempts or item.state in {"leased", "dead"}:
        read = _begin_record(backend, call.id, tr)
    seconds = backend.settings.lease_seconds
    return lambda: TaskRow(state_of(call.id, read() or {}, item, seconds), queue, backend)


def path_of(item: Item) -> str:
    """Return the dotted path of a task's function; empty if the item is not a task."""
    if isinstance(item.value, EndedTask):
        return item.value.task
    call = unpacked(item.value)
    return "" if call is None else call.task


def task_named(item: Item) -> tuple[str, str] | None:
    """Return the id of an item's task and the name of its function, None if it is no task."""
    call = unpacked(item.value)
    if call is None or not RESULT_ID.fullmatch(call.id):
        return None
    return call.id, short_name(call.task)


def _calls(function: str) -> Callable[[Item], bool]:
    """Return what tells whether an item calls a function: its whole path, or the end of it."""
    end = f".{function}"

    def calls(item: Item) -> bool:
        path = path_of(item)
        return path == function or path.endswith(end)

    return calls


def _begin_record(backend: Any, result_id: str, tr: Any) -> Callable[[], dict[str, Any] | None]:
    if not RESULT_ID.fullmatch(result_id):
        return lambda: None
    return backend.records.begin_read_short(tr, result_id)


def _ended(backend: Any, ended: EndedTask, record: dict[str, Any] | None) -> TaskState:
    if record is not None and not is_pending(record):
        return state_of(ended.id, record, None, backend.settings.lease_seconds)
    call = TaskCall(ended.id, ended.task, [], {}, backend.alias)
    return TaskState(ended.id, call, TaskResultStatus(ended.status), NO_ATTEMPTS)


# Columns


def arguments(call: TaskCall) -> Preview:
    """Return the beginning of a call's arguments; the rest of them costs nothing."""
    text = ""
    for name, value in [*((None, one) for one in call.args), *call.kwargs.items()]:
        text += (", " if text else "") + ("" if name is None else f"{name}=")
        for chunk in _JSON.iterencode(value):
            text += chunk
            if len(text) > PREVIEW_CHARACTERS:
                return Preview(*clip(text), decodable=True)
    return Preview(*clip(text), decodable=True)


def _function(row: ItemRow) -> SafeString:
    """Return the name of a function as a link to the task's page; its path shows on hovering."""
    if row.notes is None:
        return _linked_function(_("Not a task"), "", address_of(row))
    task: TaskState = row.notes.task
    is_linked, path = RESULT_ID.fullmatch(task.id), task.call.task
    address = row.addresses.task(row.queue.name, task.id) if is_linked else address_of(row)
    return _linked_function(short_name(path), shown_path(path), address)


def _linked_function(name: str | Promise, path: str, address: str) -> SafeString:
    shown = markup.text(name)
    if not address:
        return shown
    if not path:
        return format_html('<a href="{}">{}</a>', address, shown)
    return format_html('<a href="{}" title="{}">{}</a>', address, path, shown)


def _arguments(row: ItemRow) -> SafeString:
    """Return the arguments of a task, and the value of an item that is not one."""
    if row.notes is None:
        return _clipped(preview(row.item.value, row.queue.codec))
    task: TaskState = row.notes.task
    return _clipped(arguments(task.call) if task.is_known else None)


def _clipped(value: Preview | None) -> SafeString:
    if value is None:
        return markup.quiet(gettext("Too long to show here"))
    return previewed(value) if value.text else SafeString(markup.DASH)


def _of_known(read: Callable[[TaskRow], Any]) -> Callable[[ItemRow], Any]:
    """Return what reads a value of a task; None if its record is too long, or it is no task."""

    def value(row: ItemRow) -> Any:
        is_known = row.notes is not None and row.notes.task.is_known
        return read(row.notes) if is_known else None

    return value


def _returned(row: ItemRow) -> SafeString:
    task: TaskState = row.notes.task
    return _clipped(preview(task.value, row.queue.codec) if task.is_known else None)


def _error(row: ItemRow) -> SafeString:
    """Return why a task has failed: the exception, its message, and the traceback, folded.

    The exception is left out if all tasks of the list have it, and this one has a message.
    """
    first, _line, rest = (row.item.reason or "").strip().partition("\n")
    task = None if row.notes is None else row.notes.task
    errors = task.attempts.errors if task is not None and task.record else ()
    message = rest.strip()
    name = short_name(first) if " " not in first else shown_path(first)
    words: list[str] = []
    if name and (row.group is None or row.group.number or not message):
        words.append(format_html('<strong title="{}">{}</strong>', shown_path(first), name))
    if message:
        is_long = len(message) > _MAX_MESSAGE
        words.append(visible(f"{message[:_MAX_MESSAGE]}…" if is_long else message))
    shown = format_html("<bdi>{}</bdi>", format_html_join(": ", "{}", [(one,) for one in words]))
    trace = visible(errors[-1].traceback).rstrip() if errors else ""
    if not trace:
        return shown
    return format_html(
        '<details id="{}" class="fdbqueue-folded"><summary title="{}">{}</summary>{}</details>',
        f"traceback-{row.item.id}",
        gettext("Show the traceback"),
        shown,
        markup.traceback(
            trace, gettext("Traceback of task %(number)s") % {"number": localize(row.position)}
        ),
    )


def _value_css(_value: Any) -> str:
    return "fdbqueue-value"


_FIGURE = ValueKind(is_number=True)

_COLUMNS = (
    ItemColumn("function", _("Function"), _function),
    ItemColumn(
        "error",
        _("Last error"),
        _error,
        css=lambda _value: "fdbqueue-error",
        is_shown=in_state("dead"),
    ),
    ItemColumn("arguments", _("Arguments"), _arguments, css=_value_css),
    ItemColumn(
        "state",
        _("State"),
        lambda row: row.notes and row.notes.words,
        is_shown=in_state("ready", "leased", "delayed"),
    ),
    ItemColumn("returned", _("Returned"), _returned, css=_value_css, is_shown=in_state(DONE)),
    ItemColumn(
        "priority",
        _("Priority"),
        _of_known(attrgetter("task.call.priority")),
        NUMBER,
        is_minor=True,
        is_shown=in_state("ready", "delayed"),
    ),
    ItemColumn("attempts", _("Attempts"), _of_known(attrgetter("attempts")), _FIGURE),
    ItemColumn(
        "worker",
        _("Worker"),
        holder,
        is_shown=in_state("leased"),
    ),
    ItemColumn(
        "since",
        _("Running since"),
        _of_known(lambda row: moment(row.task.attempts.latest)),
        PAST,
        is_shown=in_state("leased"),
    ),
    ItemColumn(
        "run_after", _("Runs after"), attrgetter("item.until"), FUTURE, is_shown=in_state("delayed")
    ),
    replace(DIED, name="failed", heading=_("Failed")),
    ItemColumn(
        "duration",
        _("Duration"),
        _of_known(lambda row: last_duration(row.task)),
        replace(DURATION, is_number=True),
        is_shown=in_state(DONE),
    ),
    ItemColumn(
        "ended",
        _("Ended"),
        lambda row: moment(row.item.value.moment),
        PAST,
        is_shown=in_state(DONE, ABORTED),
    ),
    replace(
        PUSHED,
        name="enqueued",
        heading=_("Enqueued"),
        is_shown=in_state("ready", "leased", "delayed"),
    ),
)


#: The table of tasks on the page of a queue.
COLUMNS = tuple(map(in_one_line, _COLUMNS))


def _item_function(row: ItemRow) -> SafeString:
    call = unpacked(row.item.value)
    if call is None:
        return _linked_function(_("Not a task"), "", "")
    is_linked = RESULT_ID.fullmatch(call.id)
    address = row.addresses.task(row.queue.name, call.id) if is_linked else ""
    return _linked_function(shown_path(call.task), shown_path(call.task), address)


#: The facts on the page of a task's item.
FACTS = (
    ItemColumn("task", _("Task"), _item_function),
    *(
        replace(one, value=attrgetter("queue.label")) if one.name == "queue" else one
        for one in items.FACTS
    ),
)


# Parameters

#: The tabs of a queue of tasks: the states of items, and the tasks that have no item any more.
TABS = (
    ("ready", _("Ready")),
    ("leased", _("Running")),
    ("delayed", _("Scheduled")),
    ("dead", _("Failed")),
    (ABORTED, _("Aborted")),
    (DONE, _("Done")),
)
#: The tabs, in the order in which the first that has anything is shown.
_OPENED = ("ready", "leased", "dead", "delayed", DONE, ABORTED)
#: The parameters that choose no tasks.
_OF_NO_TAB = frozenset({"limit", "refresh", "span"})


#: The parameters that only some tabs have, and what is said of them elsewhere.
_FILTERS = {
    "end": _("Tasks that have ended are listed the latest first: they have no other order."),
    "q": _("Tasks that have ended are not searched by their arguments."),
    "exception": _("Only failed tasks have an exception."),
}


class TaskItemsForm(ItemsForm):
    """Which tasks of a queue to show.

    Only those that have failed are chosen by their exception. Those that are done or
    were aborted are listed from their index, the latest first, and chosen by their function alone.
    """

    searches = ("q", "function", "exception", "worker")
    ends = (("min", _("First to run first")), ("max", _("Last to run first")))
    of_dead = ()  # they are chosen by their exception
    reason = None  # type: ignore[assignment]  # so a form leaves out a field of its parent
    group = None  # type: ignore[assignment]

    function = search_field(_("Function"), max_length=MAX_FILTER)
    exception = search_field(_("Exception"), max_length=MAX_FILTER)

    defaults: Mapping[str, str] = {
        name: value for name, value in ItemsForm.defaults.items() if name != "state"
    }

    def __init__(self, parameters: QueryDict, opened: str = "ready") -> None:
        self.given = parameters
        if not parameters.get("state"):
            self.opened = {"state": opened}
            parameters = parameters.copy()
            parameters["state"] = opened
        super().__init__(parameters)
        state = self.fields["state"]
        assert isinstance(state, forms.ChoiceField)
        state.choices = list(TABS)

    def clean(self) -> dict[str, Any]:
        """Refuse an order or a filter that the tasks of a tab do not have."""
        super().clean()
        state = self.cleaned_data.get("state")
        for name in set(_FILTERS).difference(self.shown_in(state)) if state else ():
            if self.data.get(name, "") != self.defaults.get(name, ""):
                self.add_error(None, _FILTERS[name])
        return self.cleaned_data

    def is_search(self, parameters: QueryDict) -> bool:
        """Tell whether the page searches; aborted tasks are always looked for."""
        return parameters.get("state") == ABORTED or super().is_search(parameters)

    def filters_of(self, state: Any) -> tuple[str, ...]:
        """Return the fields that only the tasks of a tab are chosen by."""
        return {"dead": ("exception",), "leased": ("worker",)}.get(state, ())

    def shown_in(self, state: Any) -> tuple[str, ...]:
        """Return the fields that a reader fills in to choose among the tasks of a tab."""
        if state in {DONE, ABORTED}:
            return ("function", "limit")
        return ("end", "function", *self.filters_of(state), "q", "limit")


def opened(form: ItemsForm, tabs: Collection[str]) -> ItemsForm:
    """Return the form of the first tab that has anything if the reader has not asked for tasks."""
    assert isinstance(form, TaskItemsForm)
    first = next((name for name in _OPENED if name in tabs), "ready")
    asked = {name for name, value in form.given.items() if value}
    if first == form.cleaned_data["state"] or not asked <= _OF_NO_TAB:
        return form
    found = TaskItemsForm(form.given, first)
    found.is_valid()
    return found
