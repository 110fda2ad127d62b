"""How tasks read in the queues' pages: what :mod:`fdbqueue.pages.readings` is told of them.

Here is which queues hold tasks, and how these read; ``lists`` has the lists of a queue, ``ended``
those of tasks without an item, and ``task_page`` the page of one task. A column of a list, or a
fact of an item, is a row of the tables in ``lists``; a fact of a task is one in
:mod:`fdbqueue.tasks.columns`, for ``tasks_show``, too.

The pages import no code of the tasks: what they show is stored, so a task whose code is gone reads
as any other. How many attempts a task may have is in its code; if this process has not imported it,
that is left out.
"""

from __future__ import annotations

import contextlib
import functools

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from fdbqueue import conf
from fdbqueue.columns.text import grouped, lasting, subspace
from fdbqueue.pages.readings import Reading, Setting, TaskPlace
from fdbqueue.service import Catalog, Queue, run
from fdbqueue.tasks.backend import FdbQueueBackend
from fdbqueue.tasks.columns import RESULT_ID
from fdbqueue.tasks.compat import TaskResultDoesNotExist, backends
from fdbqueue.tasks.group_results import branch_named, group_result_by, queues_of
from fdbqueue.tasks.pages.ended import begin_ended, scan_ended
from fdbqueue.tasks.pages.lists import (
    COLUMNS,
    FACTS,
    TABS,
    TaskItemsForm,
    begin_notes,
    matching,
    opened,
    task_named,
)
from fdbqueue.tasks.pages.task_page import read_task
from fdbqueue.tasks.states import ABORTED, DONE


def reading_of_tasks(name: str) -> Reading | None:
    """Return the reading of a queue by its name, None if it holds no tasks."""
    backend = _backend_of(name)
    if backend is None:
        return None
    return Reading(
        template="tasks/queue.html",
        form=lambda _queue, parameters: TaskItemsForm(parameters),
        tabs=TABS,
        columns=COLUMNS,
        facts=FACTS,
        settings=functools.partial(_settings, backend),
        has_priorities=False,  # an item's priority is made of the task's and its run_after
        reason_field="exception",
        matching=matching,
        scans={tab: functools.partial(scan_ended, backend.records, tab) for tab in (DONE, ABORTED)},
        begin_others=functools.partial(begin_ended, backend),
        opened=opened,
        begin_notes=functools.partial(begin_notes, backend),
        task=functools.partial(read_task, backend),
        task_named=task_named,
    )


def find_task(catalog: Catalog, sought: str) -> TaskPlace | None:
    """Return where the task, the group or the chain is that an id names; None if no backend has it.

    The page of a group is that of the whole that it is in, under the queue of its first task.
    """
    for one in backends():
        backend = one.over(catalog)
        if RESULT_ID.fullmatch(sought) and (found := backend.found(sought)) is not None:
            return TaskPlace(found.queue, sought)
        with contextlib.suppress(TaskResultDoesNotExist):
            tree, _branch = branch_named(group_result_by(backend, sought).id)
            read = functools.partial(queues_of, backend=backend, tree=tree)
            return TaskPlace(run(catalog.database, read, read_only=True).names[0], tree)
    return None


def _backend_of(name: str) -> FdbQueueBackend | None:
    """Return the backend whose tasks are in a queue, None if it has none."""
    home = conf.catalog().home(name)
    return next((backend for backend in backends() if backend.owns(home)), None)


def _settings(backend: FdbQueueBackend, queue: Queue) -> list[Setting]:
    """Return how the tasks of a queue are run, and where they are."""
    options = backend.settings
    attempts = _("at most %(count)s, unless a task says otherwise")
    named = _("What commands call it: the tasks of one limit.")
    name = Setting(_("Name"), queue.name, is_code=True, meaning=named)
    return [
        *([name] if queue.is_part else []),
        Setting(
            _("Kind"),
            _("tasks"),
            meaning=_("The highest priority runs first, of those that may run."),
        ),
        Setting(_("Task backend"), backend.alias, meaning=_("Its name in the setting TASKS.")),
        Setting(
            _("Attempts"),
            attempts % {"count": grouped(options.max_attempts)},
            meaning=_("A task whose attempts all fail is a failed one."),
        ),
        Setting(
            _("Lease"),
            lasting(options.lease_seconds),
            meaning=_("If a worker is silent for so long, its tasks run elsewhere."),
        ),
        Setting(
            _("Successful tasks are kept for"),
            _kept(options.retention.successful),
            meaning=_("Then their results are removed."),
        ),
        Setting(
            _("Failed tasks are kept for"),
            _kept(options.retention.failed),
            meaning=_("Aborted ones, too. Then nothing is left of them."),
        ),
        Setting(
            _("Subspace"),
            subspace(queue),
            is_code=True,
            meaning=_("Where in the database all of it is stored."),
        ),
    ]


def _kept(seconds: float | None) -> str | Promise:
    if seconds is None:
        return _("no limit")
    return lasting(seconds) if seconds else _("not kept")
