"""What a user who may manage a queue of tasks may do to a task on its page: abort it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from fdbqueue import conf, deadlines
from fdbqueue.exceptions import ItemNotFound
from fdbqueue.pages.actions import PageAction
from fdbqueue.tasks.aborts import abort_by
from fdbqueue.tasks.compat import TaskResultDoesNotExist, backends


def _abort(asked: Mapping[str, Any]) -> object:
    """Abort a task of whichever backend has it."""
    task_id = asked["id"]
    catalog = deadlines.begin(conf.api().timeout_seconds)
    for backend in backends():
        try:
            return abort_by(backend.over(catalog), task_id, by_force=asked["by_force"])
        except TaskResultDoesNotExist:
            continue
    raise ItemNotFound(id=task_id)


#: For the pages: see :func:`fdbqueue.pages.actions.action_named`.
ACTIONS = {
    "abort": PageAction(
        "abort",
        _("Abort"),
        _(
            "It does not run any more. If it runs now, it is asked to end, and is not run again. "
            "If you choose so, its worker ends it within ten seconds, as one over its time limit."
        ),
        _("The task was aborted, or asked to end if it runs."),
        takes=("id", "by_force"),
        of_task=True,
        work=_abort,
    )
}
