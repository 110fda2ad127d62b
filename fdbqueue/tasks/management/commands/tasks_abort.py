"""``tasks_abort``: end tasks that wait, and ask those that run to end, or end them by force."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fdbqueue.columns.text import clipped
from fdbqueue.management.arguments import JSON, NO_INPUT, Argument, OneOf, flag
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import failure, usage_error
from fdbqueue.tasks.aborts import abort_by, abort_queue
from fdbqueue.tasks.backend import FdbQueueBackend
from fdbqueue.tasks.compat import TaskResultDoesNotExist
from fdbqueue.tasks.group_results import group_result_by
from fdbqueue.tasks.groups import abort_group_by
from fdbqueue.tasks.management import task_arguments

_TEXTS = {
    "aborted": "The task {id} was aborted: it will not run.",
    "asked": "The task {id} runs; it was asked to end, and will not run again.",
    "forced": "The task {id} runs; its worker ends it within ten seconds. It will not run again.",
    "ended": "The task {id} had ended before; nothing was changed.",
}


class Command(QueueCommand):
    help = (
        "Abort a task, a group or a chain, or all tasks of queues (asks first). A task that waits "
        "ends at once as FAILED. A task that runs is asked to end, and has no further attempt."
    )
    examples = """\
examples:
  manage.py tasks_abort 9f0a6c2b1d7e4c6f8a5b3d2e1f0c9b8a
  manage.py tasks_abort 9f0a6c2b1d7e4c6f8a5b3d2e1f0c9b8a --force
  manage.py tasks_abort --queue mail
  manage.py tasks_abort --all --no-input
"""

    takes = (
        task_arguments.ID_IF_ANY,
        OneOf(
            Argument("--queue", metavar="NAME", help="Abort all tasks of this queue"),
            flag("--all", "Abort all tasks of all queues of the backend", dest="all_queues"),
        ),
        task_arguments.backend("Abort a task of"),
        flag("--force", "Also end it while it runs, as if over its time limit", dest="by_force"),
        NO_INPUT,
        JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        backend = task_arguments.backend_of(options["backend"]).over(self.catalog)
        result_id, by_force = options["id"], options["by_force"]
        is_for_queues = options["queue"] is not None or options["all_queues"]
        if is_for_queues == (result_id is not None):
            raise usage_error("Give the ID of a task or a group, --queue NAME, or --all.")
        if is_for_queues:
            self._abort_queues(backend, options["queue"], by_force=by_force)
            return
        try:
            outcome = abort_by(backend, result_id, by_force=by_force)
        except TaskResultDoesNotExist as error:
            if not self._aborts_group(backend, result_id, by_force=by_force):
                raise failure(task_arguments.not_found(backend, result_id)) from error
            return
        text = _TEXTS["forced" if by_force and outcome == "asked" else outcome]
        self.console.report(
            {"id": result_id, "outcome": outcome}, text.format(id=clipped(result_id))
        )

    def _abort_queues(self, backend: FdbQueueBackend, name: str | None, *, by_force: bool) -> None:
        """Abort the tasks of one queue of a backend, or of all if none is named."""
        names = sorted(backend.queues) if name is None else [name]
        if not names:
            raise usage_error(f"QUEUES of the task backend {backend.alias!r} names none: --queue.")
        if name is not None and backend.queues and name not in backend.queues:
            known = ", ".join(sorted(backend.queues))
            raise usage_error(f"QUEUES of {backend.alias!r} has no {clipped(repr(name))}: {known}.")
        which = ", ".join(map(repr, names))
        self.console.confirm(f"Abort all tasks of {clipped(which)} that wait or run?")
        counts = Counter[str](aborted=0, asked=0, ended=0)
        with self.console.steps(None, "aborted") as finish_step:
            for one in names:
                counts += abort_queue(backend, one, by_force=by_force, on_aborted=finish_step)
        record = {key: counts[key] for key in ("aborted", "asked", "ended")}
        text = (
            "Of {which} {aborted} tasks that waited will not run, {asked} that run were asked to "
            "end, {ended} had ended before."
        )
        self.console.report({"queues": names, **record}, text.format(which=which, **record))

    def _aborts_group(self, backend: FdbQueueBackend, result_id: str, *, by_force: bool) -> bool:
        """Abort a group or a chain; tell whether there is one."""
        try:
            found = abort_group_by(backend, result_id, by_force=by_force)
        except TaskResultDoesNotExist:
            return False
        except ValueError as error:
            raise failure(clipped(str(error))) from error
        text = (
            "The {kind} {id} was aborted: {aborted} tasks that waited will not run, {asked} that "
            "run were asked to end, {never} had not been enqueued, {ended} had ended before."
        )
        counts = found._asdict()
        kind = group_result_by(backend, result_id).kind
        shown = text.format(kind=kind, id=clipped(result_id), **counts)
        self.console.report({"id": result_id, **counts}, shown)
        return True
