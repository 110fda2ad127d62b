"""The page of one task: first why it is as it is, then everything else that its result says.

A group or a chain has a page like that, which is its outline. Who may manage the queue may abort
the task there, who may manage all its queues the group or the chain.
"""

from __future__ import annotations

import contextlib
import functools
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from fdbqueue import conf, deadlines
from fdbqueue.columns import facts, link
from fdbqueue.columns.text import Moment, command
from fdbqueue.exceptions import ItemNotFound
from fdbqueue.pages.actions import PageAction
from fdbqueue.pages.listing import with_links
from fdbqueue.pages.sites import Addresses
from fdbqueue.pages.values import show
from fdbqueue.service import Queue, run
from fdbqueue.tasks.aborts import abort_by
from fdbqueue.tasks.columns import (
    FACTS,
    RESULT_ID,
    ShownAttempt,
    Step,
    TaskRow,
    course,
    progress_text,
    short_name,
    shown_attempts,
    shown_facts,
    shown_path,
)
from fdbqueue.tasks.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    TaskResultDoesNotExist,
    backends,
)
from fdbqueue.tasks.group_results import group_result_by, outline_of, queues_of
from fdbqueue.tasks.groups import abort_some
from fdbqueue.tasks.records import TreePlace
from fdbqueue.tasks.states import TaskState
from fdbqueue.verbs import Outcome

#: How deep an outline is indented at most.
_MAX_DEPTH = 6


class Advice(NamedTuple):
    """What a reader may do about a task: the command that does it, and the action of the pages.

    ``queues`` are those that it needs the permission for besides the task's own.
    """

    text: str | Promise
    command: str
    action: str
    chosen: str
    queues: tuple[str, ...] = ()


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


def read_task(
    backend: Any,
    queue: Queue,
    task_id: str,
    addresses: Addresses,
) -> dict[str, Any] | None:
    """Read a task of a queue, or a group or a chain, and return what its page shows.

    None if the queue has none by this id. A group or a chain has its page under each queue of its
    tasks. A task that was limited has this page under the queue of its
    key, too, when it has ended, and is then its home's.
    """
    if not RESULT_ID.fullmatch(task_id):
        return None
    task = run(queue.database, lambda tr: backend.found(task_id, tr), read_only=True)
    if task is None:
        return _read_group(backend, queue, task_id, addresses)
    is_here = task.queue == queue.name or (task.queue == queue.home and task.item is None)
    if not is_here:
        return None
    row, call = TaskRow.of(backend, queue, task, addresses), task.call
    outline: list[dict[str, Any]] = []
    of_group: list[Advice] = []
    if call.place is not None:
        outline, of_group = _outline(backend, queue, addresses, call.place)
    return {
        "template": "tasks/task.html",
        "title": _("Task %(name)s") % {"name": short_name(call.task)},
        "facts": facts(shown_facts(row, _FACTS), row),
        "commands": [*_commands(row), *of_group],
        "has_arguments": bool(call.args or call.kwargs),
        "arguments": show(row.arguments, queue.codec),
        "returned": show(task.value, queue.codec) if task.is_successful else None,
        "outline": outline,
        "noted": show(task.metadata, queue.codec) if task.metadata else None,
        "answer": _answer(row),
        "can_change": task.item is not None,
    }


def _answer(row: TaskRow) -> Answer:
    task = row.task
    attempts = shown_attempts(task)
    errors = [n for n, one in enumerate(attempts, start=1) if one.exception]
    first = errors[0] if errors and not task.is_successful else 1
    steps = [step._replace(at=step.at and Moment.ago(step.at)) for step in course(task)]
    progress = task.progress
    share = None if progress is None else progress.share
    return Answer(
        row.words,
        _kind(task),
        row.attempts,
        attempts[:first],
        attempts[first:],
        steps,
        progress_text(progress),
        None if share is None else round(100 * share, 1),
    )


def _kind(task: TaskState) -> str:
    if task.is_successful:
        return "good"
    if task.item is None or task.item.state == "dead":
        return "bad"
    return "busy" if task.is_running else ""


def _read_group(
    backend: Any, queue: Queue, tree: str, addresses: Addresses
) -> dict[str, Any] | None:
    """Read a group or a chain that has tasks in a queue, and return what its page shows."""
    queues = run(queue.database, lambda tr: queues_of(tr, backend, tree), read_only=True)
    outline, commands = _outline(backend, queue, addresses, TreePlace(tree, 0, -1, 0))
    if not outline or queue.home not in queues.names:
        return None
    return {
        "template": "tasks/group.html",
        "title": outline[0]["line"].text,
        "outline": outline,
        "commands": commands,
        "can_change": bool(commands),
    }


def _outline(
    backend: Any, queue: Queue, addresses: Addresses, place: TreePlace
) -> tuple[list[dict[str, Any]], list[Advice]]:
    """Return the lines of a group or a chain, read at a task or at all, and what aborts it."""
    lines, found = outline_of(queue.database, backend, place), []
    for line in lines:
        is_elsewhere = line.is_enqueued and not line.is_here
        address = addresses.task(line.queue, line.task) if is_elsewhere else ""
        found.append({"line": line, "address": address, "depth": min(line.depth, _MAX_DEPTH)})
    if lines and place.at >= 0:
        found[0]["address"] = addresses.task(queue.home, place.tree)
    if not lines or not lines[0].to_abort:
        return found, []
    text = gettext_lazy("Abort the whole group or chain; no task of it begins any more:")
    abort = _abort(backend, place.tree)
    return found, [Advice(text, abort, "abort-group", place.tree, lines[0].to_abort)]


# Commands


def _commands(row: TaskRow) -> list[Advice]:
    item = row.task.item
    if item is None:
        return []
    if item.state == "dead":
        text = gettext_lazy("Run it again, as if it had never been tried:")
        again = command("queue_redrive", row.queue.name, id=item.id)
        return [Advice(text, again, "redrive", item.id)]
    text, more = gettext_lazy("Abort it; it does not run any more:"), []
    if item.state == "leased":
        text = gettext_lazy("Ask it to end; it is not run again, however this attempt ends:")
        back = gettext_lazy("Its worker is dead: give it back, so that another runs it at once:")
        told = command("queue_give_back", row.queue.name, id=item.id)
        more = [Advice(back, told, "give-back", item.id)]
    elif item.state == "delayed":
        now = gettext_lazy("Run it now, before its time; its limits hold:")
        told = command("queue_run_now", row.queue.name, id=item.id)
        more = [Advice(now, told, "run-now", item.id)]
    return [Advice(text, _abort(row.backend, row.task.id), "abort", row.task.id), *more]


def _abort(backend: Any, task_id: str) -> str:
    alias = backend.alias
    more = "" if alias == DEFAULT_TASK_BACKEND_ALIAS else f" --backend={shlex.quote(alias)}"
    dashes = "-- " if task_id.startswith("-") else ""
    return f"python manage.py tasks_abort{more} {dashes}{task_id}"


# Facts that are links here


def _same_function(row: TaskRow) -> Any:
    path = row.task.call.task
    address = row.addresses.queue(row.queue.name, state=row.task.tab, function=path)
    return link("same-function", f"{address}#fdbqueue-live", shown_path(path))


def _item(row: TaskRow) -> Any:
    item = row.task.item
    assert item is not None
    return link("item", row.addresses.item(row.queue.name, item.id), item.id)


_LINKS = {"function": _same_function, "item": _item}
_FACTS = with_links(FACTS, _LINKS)


# What may be done to a task


def _abort_task(_queue: Queue, asked: Mapping[str, Any], outcome: Outcome) -> None:
    """Abort a task of whichever backend has it; one that has ended meanwhile is not there."""
    (task_id,) = asked["id"]
    for backend in _backends():
        with contextlib.suppress(TaskResultDoesNotExist):
            if abort_by(backend, task_id, by_force=asked["by_force"]) != "ended":
                outcome.add(1)
                return
    raise ItemNotFound(id=task_id)


def _abort_group(_queue: Queue, asked: Mapping[str, Any], outcome: Outcome) -> None:
    """Abort a group or a chain, until half of the time is over."""
    (tree,), at, is_late = asked["id"], asked["at"] or 0, deadlines.is_half_over
    more: Any = {"by_force": asked["by_force"], "on_aborted": outcome.add}
    for backend in _backends():
        with contextlib.suppress(TaskResultDoesNotExist):
            _found, passed = abort_some(backend, tree, at, is_late, **more)
            if group_result_by(backend, tree).is_aborted:
                outcome.rest = {"at": passed} if passed else {}
                return
    raise ItemNotFound(id=tree)  # all of it has succeeded


def _queues_of_group(tree: str) -> list[str]:
    """Return the queues that an abort of a group or a chain needs a permission for."""
    for backend in _backends():
        with contextlib.suppress(TaskResultDoesNotExist):
            group_result_by(backend, tree)
            read = functools.partial(queues_of, backend=backend, tree=tree)
            queues = run(backend.catalog.database, read, read_only=True)
            return [*queues.names, *queues.limited]
    raise ItemNotFound(id=tree)


def _backends() -> Iterator[Any]:
    """Yield the backends, within the time of a page."""
    catalog = deadlines.limited_catalog(conf.api().timeout_seconds)
    return (backend.over(catalog) for backend in backends())


#: For the pages: see :func:`fdbqueue.pages.actions.action_named`.
ACTIONS = {
    "abort": PageAction(
        "abort",
        gettext_lazy("Abort"),
        gettext_lazy("Abort a task of %(queue)s"),
        gettext_lazy(
            "It does not run any more. If it runs now, it is asked to end, and is not run again. "
            "If you choose so, its worker ends it within ten seconds, as one over its time limit."
        ),
        gettext_lazy("The task was aborted, or asked to end if it runs."),
        _abort_task,
        takes=("id", "by_force"),
        chosen=gettext_lazy("Task:"),
        of_task=True,
    ),
    "abort-group": PageAction(
        "abort-group",
        gettext_lazy("Abort the whole group"),
        gettext_lazy("Abort a group of tasks of %(queue)s"),
        gettext_lazy(
            "No task of the group or the chain begins any more, and nothing follows it. Those that "
            "run now are asked to end, or ended if you choose so, and are not run again."
        ),
        gettext_lazy("The group was aborted: tasks that wait will not run."),
        _abort_group,
        takes=("id", "at", "by_force"),
        chosen=gettext_lazy("Group or chain:"),
        of_task=True,
        queues=_queues_of_group,
    ),
}
