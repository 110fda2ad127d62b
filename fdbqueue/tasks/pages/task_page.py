"""The page of one task: everything that its result says."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from fdbqueue.exceptions import ItemNotFound
from fdbqueue.pages.columns import DASH, Column, facts, link
from fdbqueue.pages.sites import Addresses
from fdbqueue.pages.text import Moment, number, visible
from fdbqueue.pages.values import Shown, show, tree
from fdbqueue.service import Item, Queue, run
from fdbqueue.tasks.compat import DEFAULT_TASK_BACKEND_ALIAS, TaskResultStatus
from fdbqueue.tasks.pages.lists import attempts
from fdbqueue.tasks.pages.rows import (
    DONE,
    RESULT_ID,
    lasting,
    most_attempts,
    short_name,
    shown_attempts,
    shown_moment,
    shown_path,
    shown_worker,
    state_of,
)
from fdbqueue.tasks.records import is_pending
from fdbqueue.tasks.results import Found, Known, known_of, microseconds

_MAX_BACKEND = 100


@dataclass(frozen=True, slots=True)
class TaskDetails:
    """A task, as its page shows it."""

    id: str
    queue: Queue
    backend: Any
    record: dict[str, Any]
    item: Item | None
    known: Known
    addresses: Addresses

    @property
    def is_running(self) -> bool:
        """Whether a worker runs it now."""
        return self.known.status is TaskResultStatus.RUNNING

    @property
    def tab(self) -> str:
        """The tab of the queue's page that it is in."""
        return DONE if self.item is None else self.item.state


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
    """Read a task of a queue, and return what its page shows; None if there is none."""
    if not RESULT_ID.fullmatch(task_id):
        return None
    read = functools.partial(_read, backend=backend, queue=queue, task_id=task_id)
    found: Found | None = run(queue.database, read, read_only=True)
    if found is None:
        return None
    known = known_of(task_id, found, backend.settings.lease_seconds)
    task = TaskDetails(task_id, queue, backend, found.record, found.item, known, addresses)
    return _context(task)


def _read(tr: Any, *, backend: Any, queue: Queue, task_id: str) -> Found | None:
    """Read what is stored of a task of this queue; of another one, the reader may see nothing."""
    record = backend.records.read(tr, task_id)
    if record is None or record["queue"] != queue.name:
        return None
    if not is_pending(record):
        return Found(record, None)
    try:
        return Found(record, queue.get(record["item"], tr=tr))
    except ItemNotFound:
        return None


def _context(task: TaskDetails) -> dict[str, Any]:
    known = task.known
    is_success = known.status is TaskResultStatus.SUCCESSFUL
    return {
        "title": _("Task %(name)s") % {"name": short_name(known.call.task)},
        "facts": facts([fact for fact in _FACTS if fact.is_shown(task)], task),
        "commands": _commands(task),
        "has_arguments": bool(known.call.args or known.call.kwargs),
        "arguments": _shown({"args": known.call.args, "kwargs": known.call.kwargs}, task),
        "returned": _shown(known.value, task) if is_success else None,
        "attempts": shown_attempts(known),
    }


def _shown(value: Any, task: TaskDetails) -> ShownValue:
    try:
        found = tree(value)
    except RecursionError:
        found = None
    return ShownValue(found, show(value, task.queue.codec))


# Commands


def _commands(task: TaskDetails) -> list[Command]:
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


def _abort(task: TaskDetails) -> str:
    alias = task.backend.alias
    more = "" if alias == DEFAULT_TASK_BACKEND_ALIAS else f" --backend={shlex.quote(alias)}"
    dashes = "-- " if task.id.startswith("-") else ""
    return f"python manage.py tasks_abort{more} {dashes}{task.id}"


# Facts


@dataclass(frozen=True, kw_only=True)
class TaskFact(Column[TaskDetails]):
    """A fact of a task.

    Attributes:
        is_shown: Tells whether a task has it.
    """

    is_shown: Callable[[TaskDetails], bool] = lambda _task: True


def _moment(read: Callable[[Known], int | None]) -> Callable[[TaskDetails], Moment | None]:
    return lambda task: shown_moment(read(task.known))


def _same_function(task: TaskDetails) -> Any:
    path = task.known.call.task
    query = urlencode({"state": task.tab, "function": path})
    address = f"{task.addresses.queue(task.queue.name)}?{query}#fdbqueue-live"
    return link("same-function", address, shown_path(path))


def _run_after(task: TaskDetails) -> Moment | None:
    at = task.known.call.run_after
    if at is None or at.tzinfo is None:
        return None
    return Moment.ahead(at) if task.tab == "delayed" else shown_moment(microseconds(at))


def _again_at(task: TaskDetails) -> Moment | None:
    at = None if task.item is None else task.item.until
    return None if at is None else Moment.ahead(at)


def _duration(task: TaskDetails) -> str:
    latest, finished = task.known.attempts.latest, task.known.finished
    if latest is None or finished is None or not task.known.attempts.workers:
        return DASH
    return lasting((finished - latest) / 1_000_000)


def _item(task: TaskDetails) -> Any:
    assert task.item is not None
    return link("item", task.addresses.item(task.queue.name, task.item.id), task.item.id)


_FACTS = (
    TaskFact(
        name="state",
        heading=gettext_lazy("State"),
        value=lambda task: state_of(task.known, task.item, task.record),
    ),
    TaskFact(name="function", heading=gettext_lazy("Function"), value=_same_function),
    TaskFact(
        name="attempts",
        heading=gettext_lazy("Attempts"),
        value=lambda task: attempts(
            len(task.known.attempts.workers), most_attempts(task.backend, task.known.call.task)
        ),
    ),
    TaskFact(
        name="worker",
        heading=gettext_lazy("Worker"),
        value=lambda task: shown_worker(task.known.attempts.workers[-1]),
        template="text.html",
        is_shown=lambda task: task.is_running,
    ),
    TaskFact(
        name="enqueued",
        heading=gettext_lazy("Enqueued"),
        value=_moment(lambda known: known.enqueued),
        template="moment.html",
    ),
    TaskFact(
        name="run_after",
        heading=gettext_lazy("Asked to run after"),
        value=_run_after,
        template="moment.html",
        is_shown=lambda task: task.known.call.run_after is not None,
    ),
    TaskFact(
        name="again",
        heading=gettext_lazy("Next attempt after"),
        value=_again_at,
        template="moment.html",
        is_shown=lambda task: task.tab == "delayed" and bool(task.known.attempts.workers),
    ),
    TaskFact(
        name="started",
        heading=gettext_lazy("First attempt began"),
        value=_moment(lambda known: known.attempts.started),
        template="moment.html",
        is_shown=lambda task: len(task.known.attempts.workers) > 1,
    ),
    TaskFact(
        name="latest",
        heading=gettext_lazy("Last attempt began"),
        value=_moment(lambda known: known.attempts.latest),
        template="moment.html",
        is_shown=lambda task: bool(task.known.attempts.workers),
    ),
    TaskFact(
        name="finished",
        heading=gettext_lazy("Ended"),
        value=_moment(lambda known: known.finished),
        template="moment.html",
        is_shown=lambda task: task.known.finished is not None,
    ),
    TaskFact(
        name="duration",
        heading=gettext_lazy("Duration of the last attempt"),
        value=_duration,
        is_shown=lambda task: task.known.finished is not None,
    ),
    TaskFact(
        name="priority",
        heading=gettext_lazy("Priority"),
        value=lambda task: number(task.known.call.priority),
    ),
    TaskFact(name="queue", heading=gettext_lazy("Queue"), value=lambda task: task.queue.name),
    TaskFact(
        name="backend",
        heading=gettext_lazy("Task backend"),
        value=lambda task: visible(task.known.call.backend[:_MAX_BACKEND]),
        template="text.html",
    ),
    TaskFact(
        name="id", heading=gettext_lazy("Task id"), value=lambda task: task.id, template="code.html"
    ),
    TaskFact(
        name="item",
        heading=gettext_lazy("Item"),
        value=_item,
        is_shown=lambda task: task.item is not None,
    ),
)
