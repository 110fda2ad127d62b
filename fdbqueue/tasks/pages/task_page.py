"""The page of one task: first why it is as it is, then everything else that its result says."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from fdbqueue.columns import WORD, facts, link
from fdbqueue.columns.text import Moment
from fdbqueue.pages.sites import Addresses
from fdbqueue.pages.values import Shown, show, tree
from fdbqueue.service import Queue, run
from fdbqueue.tasks.columns import (
    FACTS,
    RESULT_ID,
    ShownAttempt,
    Step,
    TaskRow,
    attempts_text,
    course,
    most_attempts,
    progress_text,
    short_name,
    shown_attempts,
    shown_facts,
    shown_path,
)
from fdbqueue.tasks.compat import DEFAULT_TASK_BACKEND_ALIAS
from fdbqueue.tasks.outlines import outline_of
from fdbqueue.tasks.records import Place
from fdbqueue.viewer import Viewer

#: How deep an outline is indented at most.
_MOST_DEPTH = 6


class Command(NamedTuple):
    """What a reader may do about a task, and the command that does it."""

    text: str | Promise
    command: str


class Answer(NamedTuple):
    """Why a task is in its state.

    Attributes:
        state: What state that is, in words.
        kind: ``bad``, ``good`` or ``busy``, which colours it; empty for a task that waits.
        attempts: How many attempts have begun, and of how many.
        latest: The last attempt, and those before it back to the last error.
        earlier: The other attempts.
        steps: What happened to the task.
        progress: How far it has come, in words; empty if it has not said so.
        percent: The same as a number, None if that is not known.
    """

    state: str | Promise
    kind: str
    attempts: str
    latest: list[ShownAttempt]
    earlier: list[ShownAttempt]
    steps: list[Step]
    progress: str = ""
    percent: float | None = None


class ShownValue(NamedTuple):
    """A value as a tree and as text; the tree is missing if it is nested too deeply."""

    tree: str | None
    text: Shown


def read_task(
    backend: Any,
    queue: Queue,
    task_id: str,
    addresses: Addresses,
    viewer: Viewer,
) -> dict[str, Any] | None:
    """Read a task of a queue, and return what its page shows.

    None if the queue has none by this id, or the reader may not see it. One that was limited has
    this page under the queue of its key, too, when it has ended, and is then its home's.
    """
    if not RESULT_ID.fullmatch(task_id):
        return None
    found = run(queue.database, lambda tr: backend.found(task_id, tr), read_only=True)
    if found is None:
        return None
    stored = found.record["queue"]
    if stored not in (queue.name, queue.home) or not viewer.sees(stored):
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
        "outline": [] if call.place is None else _outline(task, call.place, viewer),
        "noted": _shown(task.known.metadata, task) if task.known.metadata else None,
        "answer": _answer(task),
        "can_change": task.item is not None,
    }


def _answer(task: TaskRow) -> Answer:
    attempts = shown_attempts(task.known)
    errors = [n for n, one in enumerate(attempts, start=1) if one.exception]
    first = errors[0] if errors and not task.is_successful else 1
    path = task.known.call.task
    steps = [step._replace(at=step.at and Moment.ago(step.at)) for step in course(task)]
    progress = task.known.progress
    share = None if progress is None else progress.share
    return Answer(
        task.state,
        _kind(task),
        attempts_text(len(task.known.attempts.workers), most_attempts(task.backend, path)),
        attempts[:first],
        attempts[first:],
        steps,
        progress_text(progress),
        None if share is None else round(100 * share, 1),
    )


def _kind(task: TaskRow) -> str:
    if task.is_successful:
        return "good"
    if task.item is None or task.item.state == "dead":
        return "bad"
    return "busy" if task.is_running else ""


def _outline(task: TaskRow, place: Place, viewer: Viewer) -> list[dict[str, Any]]:
    """Return the lines of the group or the chain that a task is in, each with its address."""
    found = []
    for line in outline_of(task.queue.database, task.backend, place, viewer):
        is_elsewhere = line.is_enqueued and not line.is_here
        address = task.addresses.task(line.queue, line.task) if is_elsewhere else ""
        found.append({"line": line, "address": address, "depth": min(line.depth, _MOST_DEPTH)})
    return found


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
