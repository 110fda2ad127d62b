"""The page of one task: everything that its result says."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from fdbqueue.columns import WORD, facts, link
from fdbqueue.pages.sites import Addresses
from fdbqueue.pages.values import Shown, show, tree
from fdbqueue.service import Queue
from fdbqueue.tasks.columns import (
    FACTS,
    RESULT_ID,
    TaskRow,
    short_name,
    shown_attempts,
    shown_facts,
    shown_path,
)
from fdbqueue.tasks.compat import DEFAULT_TASK_BACKEND_ALIAS


class Command(NamedTuple):
    """What a reader may do about a task, and the command that does it."""

    text: str | Promise
    command: str


class ShownValue(NamedTuple):
    """A value as a tree and as text; the tree is missing if it is nested too deeply."""

    tree: str | None
    text: Shown


def read_task(
    backend: Any, queue: Queue, task_id: str, addresses: Addresses
) -> dict[str, Any] | None:
    """Read a task of a queue, and return what its page shows; None if there is none.

    Of a task of another queue the reader may see nothing.
    """
    found = backend.found(task_id) if RESULT_ID.fullmatch(task_id) else None
    if found is None or found.record["queue"] != queue.name:
        return None
    task = replace(TaskRow.of(backend, queue, task_id, found), addresses=addresses)
    call = task.known.call
    return {
        "title": _("Task %(name)s") % {"name": short_name(call.task)},
        "facts": facts(shown_facts(task, _FACTS), task),
        "commands": _commands(task),
        "has_arguments": bool(call.args or call.kwargs),
        "arguments": _shown(task.arguments, task),
        "returned": _shown(task.known.value, task) if task.is_successful else None,
        "attempts": shown_attempts(task.known),
    }


def _shown(value: Any, task: TaskRow) -> ShownValue:
    try:
        found = tree(value)
    except RecursionError:
        found = None
    return ShownValue(found, show(value, task.queue.codec))


# Commands


def _commands(task: TaskRow) -> list[Command]:
    item, name = task.item, shlex.quote(task.queue.name)
    if item is None:
        return []
    if item.state == "dead":
        again = f"python manage.py queue_redrive {name} --id={shlex.quote(item.id)}"
        return [Command(gettext_lazy("Run it again, as if it had never been tried:"), again)]
    text = gettext_lazy("Abort it; it does not run any more:")
    if item.state == "leased":
        text = gettext_lazy("Ask it to end; it is not run again, however this attempt ends:")
    return [Command(text, _abort(task))]


def _abort(task: TaskRow) -> str:
    alias = task.backend.alias
    more = "" if alias == DEFAULT_TASK_BACKEND_ALIAS else f" --backend={shlex.quote(alias)}"
    dashes = "-- " if task.id.startswith("-") else ""
    return f"python manage.py tasks_abort{more} {dashes}{task.id}"


# Facts that are links here


def _same_function(task: TaskRow) -> Any:
    path = task.known.call.task
    query = urlencode({"state": task.tab, "function": path})
    address = f"{task.addresses.queue(task.queue.name)}?{query}#fdbqueue-live"
    return link("same-function", address, shown_path(path))


def _item(task: TaskRow) -> Any:
    assert task.item is not None
    return link("item", task.addresses.item(task.queue.name, task.item.id), task.item.id)


_LINKS = {"function": _same_function, "item": _item}
_FACTS = tuple(
    replace(fact, value=_LINKS[fact.name], kind=WORD) if fact.name in _LINKS else fact
    for fact in FACTS
)
