"""``tasks_abort``: end a task that waits, and ask one that runs to end, or end it by force."""

from __future__ import annotations

from typing import Any

from fdbqueue.columns.text import clipped
from fdbqueue.management.arguments import JSON, flag
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import failure
from fdbqueue.tasks.aborts import abort_by
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
        "Abort a task, or a group or a chain with all that is nested in it. A task that waits "
        "ends at once as FAILED. A task that runs is asked to end, and has no further attempt."
    )
    examples = """\
examples:
  manage.py tasks_abort 9f0a6c2b1d7e4c6f8a5b3d2e1f0c9b8a
  manage.py tasks_abort 9f0a6c2b1d7e4c6f8a5b3d2e1f0c9b8a --force
"""

    takes = (
        task_arguments.ID,
        task_arguments.backend("Abort a task of"),
        flag("--force", "Also end it while it runs, as if over its time limit", dest="by_force"),
        JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        backend = task_arguments.backend_of(options["backend"]).over(self.catalog)
        result_id, by_force = options["id"], options["by_force"]
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
