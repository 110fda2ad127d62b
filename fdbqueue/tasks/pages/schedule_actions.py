"""What may be done to a schedule on the pages: run it now, hold it, let it go on.

The ``id`` of such an action is the backend's alias and the schedule's name. It is done at the
address of the schedule's queue; if that is not known here, at the address of all queues.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from fdbqueue import conf, deadlines
from fdbqueue.exceptions import ItemNotFound
from fdbqueue.pages.actions import PageAction
from fdbqueue.pages.sites import EVERY
from fdbqueue.service import SeveralQueues
from fdbqueue.tasks.compat import backends
from fdbqueue.tasks.pages.functions_and_schedules import ScheduleRow, read_schedule
from fdbqueue.tasks.pages.task_page import ACTIONS as OF_TASKS
from fdbqueue.tasks.schedules_by_hand import go_on, hold, named, run_now
from fdbqueue.verbs import Outcome


def _row(of: Any, given: str) -> ScheduleRow:
    """Return the schedule that an id names, and what is stored of it.

    Raises:
        ItemNotFound: There is none, or it is of another queue.
    """
    alias, _dash, name = given.partition("/")
    catalog = deadlines.limited_catalog(conf.api().timeout_seconds)
    for one in backends():
        schedule = named(one, name) if one.alias == alias else None
        if schedule is not None:
            row = read_schedule(one.over(catalog), schedule)
            if (row.queue or EVERY) == (EVERY if isinstance(of, SeveralQueues) else of.name):
                return row
    raise ItemNotFound(id=given)


def _run(of: Any, asked: Mapping[str, Any], outcome: Outcome) -> None:
    row = _row(of, asked["id"][0])
    outcome.add(bool(run_now(row.backend, row.schedule, latest=asked["latest"])))


def _hold(of: Any, asked: Mapping[str, Any], outcome: Outcome) -> None:
    row = _row(of, asked["id"][0])
    outcome.add(hold(row.backend, row.schedule))


def _go_on(of: Any, asked: Mapping[str, Any], outcome: Outcome) -> None:
    row = _row(of, asked["id"][0])
    outcome.add(go_on(row.backend, row.schedule))


def _latest(of: Any, given: str) -> dict[str, Any]:
    return {"latest": _row(of, given).state.last}


def _none(of: Any, given: str) -> dict[str, Any]:
    _row(of, given)
    return {}


_action = functools.partial(PageAction, chosen=_("Schedule:"), of_all=True)

#: For the pages: see :func:`fdbqueue.pages.actions.action_named`.
ACTIONS = {
    **OF_TASKS,
    "run-schedule": _action(
        "run-schedule",
        _("Run now"),
        _("Run a schedule of %(queue)s now"),
        _("Its task is enqueued once, at once. Its times stay as they are."),
        _("The task of the schedule was enqueued."),
        _run,
        takes=("id", "latest"),
        told_nothing=_("Nothing was enqueued: it has run since, or its task is there already."),
        bound=_latest,
    ),
    "hold-schedule": _action(
        "hold-schedule",
        _("Hold"),
        _("Hold a schedule of %(queue)s"),
        _("No worker enqueues it until it goes on. What is due meanwhile is not made up for."),
        _("The schedule is held."),
        _hold,
        takes=("id",),
        told_nothing=_("The schedule was held before."),
        bound=_none,
    ),
    "go-on-schedule": _action(
        "go-on-schedule",
        _("Go on"),
        _("Let a schedule of %(queue)s go on"),
        _("Workers enqueue it again, from its next time on."),
        _("The schedule goes on."),
        _go_on,
        takes=("id",),
        told_nothing=_("The schedule was not held."),
        bound=_none,
    ),
}
