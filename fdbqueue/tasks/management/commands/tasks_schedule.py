"""``tasks_schedule``: hold a schedule, have it go on, or run it now."""

from __future__ import annotations

from typing import Any

from fdbqueue.columns.text import clipped
from fdbqueue.management.arguments import JSON, Argument, OneOf, flag
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import failure, usage_error
from fdbqueue.tasks.management import task_arguments
from fdbqueue.tasks.schedules import schedules_of
from fdbqueue.tasks.schedules_by_hand import go_on, hold, named, run_now


class Command(QueueCommand):
    help = (
        "Hold a schedule, let it go on, or run it once, now. What was due while it was held is "
        "not made up for."
    )
    examples = """\
examples:
  manage.py tasks_schedule nightly --run-now
  manage.py tasks_schedule nightly --hold
  manage.py tasks_schedule nightly --go-on --json
"""

    takes = (
        Argument("name", metavar="NAME", help="Name of the schedule"),
        OneOf(
            flag("--run-now", "Enqueue its task at once, also while it is held", dest="runs"),
            flag("--hold", "Enqueue nothing at its times, in all workers, until --go-on"),
            flag("--go-on", "Enqueue its task again, from its next time on", dest="goes_on"),
        ),
        task_arguments.backend("A schedule of"),
        JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        backend = task_arguments.backend_of(options["backend"]).over(self.catalog)
        schedule = named(backend, options["name"])
        shown = clipped(repr(options["name"]))
        if schedule is None:
            known = ", ".join(one.name for one in schedules_of(backend)) or "none"
            raise failure(f"{backend.alias!r} has no schedule {shown}: it has {known}.")
        if options["runs"]:
            task_id = run_now(backend, schedule)
            text = f"The task {task_id} of {shown} was enqueued."
            if not task_id:
                text = f"The task of {shown} is there already, with its unique key."
            self.console.report({"schedule": schedule.name, "id": task_id or None}, text)
        elif options["hold"]:
            done, text = hold(backend, schedule), f"{shown} is held."
            self.console.report({"schedule": schedule.name, "held": done}, text)
        elif options["goes_on"]:
            done, text = go_on(backend, schedule), f"{shown} goes on."
            text = text if done else f"{shown} was not held."
            self.console.report({"schedule": schedule.name, "went_on": done}, text)
        else:
            raise usage_error("Give --run-now, --hold or --go-on.")
