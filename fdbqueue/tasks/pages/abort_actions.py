"""What a user who may manage a queue of tasks may do to a task on its page: abort it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from fdbqueue import conf, deadlines
from fdbqueue.exceptions import ItemNotFound
from fdbqueue.pages.action_page import PageAction
from fdbqueue.service import run
from fdbqueue.tasks.aborts import abort_by
from fdbqueue.tasks.compat import TaskResultDoesNotExist, backends
from fdbqueue.tasks.groups import abort_some
from fdbqueue.tasks.outlines import queues_in


def _abort(asked: Mapping[str, Any], _at: int) -> int:
    """Abort a task of whichever backend has it."""
    task_id = asked["id"]
    catalog = deadlines.begin(conf.api().timeout_seconds)
    for backend in backends():
        with contextlib.suppress(TaskResultDoesNotExist):
            abort_by(backend.over(catalog), task_id, by_force=asked["by_force"])
            return 0
    raise ItemNotFound(id=task_id)


def _abort_group(asked: Mapping[str, Any], at: int) -> int:
    """Abort the group or the chain that a task is in, until half of the time is over."""
    (backend, tree), by_force = _group_of(asked["id"]), asked["by_force"]
    with contextlib.suppress(TaskResultDoesNotExist):
        return abort_some(backend, tree, at, deadlines.is_half_over, by_force=by_force)[1]
    raise ItemNotFound(id=asked["id"])


def _queues_of_group(task_id: str) -> list[str]:
    """Return the queues that all tasks of a group or a chain are of, or may be of."""
    backend, tree = _group_of(task_id)
    database = backend.catalog.database
    return run(database, lambda tr: queues_in(tr, backend, tree), read_only=True)


def _group_of(task_id: str) -> tuple[Any, str]:
    """Return the backend of a task, and the id of the group or the chain that it is in.

    Raises:
        ItemNotFound: There is no such task, or it is in none.
    """
    catalog = deadlines.begin(conf.api().timeout_seconds)
    for one in backends():
        backend = one.over(catalog)
        task = backend.found(task_id)
        if task is not None and task.call.place is not None:
            return backend, task.call.place.tree
    raise ItemNotFound(id=task_id)


#: For the pages: see :func:`fdbqueue.pages.action_page.action_named`.
ACTIONS = {
    "abort": PageAction(
        "abort",
        _("Abort"),
        _("Abort a task of %(queue)s"),
        _(
            "It does not run any more. If it runs now, it is asked to end, and is not run again. "
            "If you choose so, its worker ends it within ten seconds, as one over its time limit."
        ),
        _("The task was aborted, or asked to end if it runs."),
        takes=("id", "by_force"),
        chosen=_("Task:"),
        of_task=True,
        work=_abort,
    ),
    "abort-group": PageAction(
        "abort-group",
        _("Abort the whole group"),
        _("Abort a group of tasks of %(queue)s"),
        _(
            "No task of the group or the chain begins any more, and nothing follows it. Those that "
            "run now are asked to end, or ended if you choose so, and are not run again. It has "
            "this task in it."
        ),
        _("The group was aborted: tasks that wait will not run."),
        takes=("id", "at", "by_force"),
        chosen=_("Task:"),
        of_task=True,
        work=_abort_group,
        queues=_queues_of_group,
    ),
}
