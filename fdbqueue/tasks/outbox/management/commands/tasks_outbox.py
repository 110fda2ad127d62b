"""``tasks_outbox``: show what waits in the outbox, move it, and see to what was set aside."""

from __future__ import annotations

from typing import Any

from django.db import DatabaseError

from fdbqueue import columns
from fdbqueue.columns.text import clipped, counted, lasting, seconds_since
from fdbqueue.exceptions import text_of_error
from fdbqueue.management.arguments import JSON, Argument, OneOf, flag
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import failure, usage_error
from fdbqueue.management.formats import table_of
from fdbqueue.tasks.compat import backends
from fdbqueue.tasks.management import task_arguments
from fdbqueue.tasks.outbox.mover import Moved, move_now
from fdbqueue.tasks.outbox.outbox_columns import COLUMNS, OutboxSums, first, sums
from fdbqueue.tasks.outbox.outbox_rows import Outbox

_SHOWN_ROWS = 100


class Command(QueueCommand):
    help = (
        "Print how many tasks wait in the outbox of a backend and for how long, and the rows that "
        "were set aside, with the reasons. Workers move rows as they come; --move does it now."
    )
    examples = """\
examples:
  manage.py tasks_outbox
  manage.py tasks_outbox --move
  manage.py tasks_outbox --retry
  manage.py tasks_outbox --remove 9f0a6c2b1d7e4c6f8a5b3d2e1f0c9b8a
  manage.py tasks_outbox --json | jq .set_aside
"""
    allows_closed_output = True

    takes = (
        task_arguments.backend("Show the outbox of"),
        OneOf(
            flag("--move", "Move all rows that wait, until none is left"),
            Argument(
                "--retry",
                nargs="*",
                type=task_arguments.task_id,
                metavar="ID",
                help="Let rows that were set aside wait again: those with these ids, or all",
            ),
            Argument(
                "--remove",
                nargs="+",
                type=task_arguments.task_id,
                metavar="ID",
                help="Remove rows that were set aside: their tasks will never run",
            ),
        ),
        JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        backend = task_arguments.backend_of(options["backend"])
        if backend.settings.outbox is None:
            having = [one.alias for one in backends() if one.settings.outbox is not None]
            known = f"Give --backend: {', '.join(having)}." if having else "No other has one."
            text = f"The task backend {clipped(backend.alias)!r} has no outbox. {known}"
            raise usage_error(text)
        outbox = backend.outbox()
        try:
            if options["move"]:
                self._move(outbox)
            elif options["retry"] is not None:
                count = outbox.retry(options["retry"] or None)
                self._report_count("retried", count, "wait again")
            elif options["remove"] is not None:
                self._report_count("removed", outbox.remove(options["remove"]), "were removed")
            else:
                self._show(outbox)
        except DatabaseError as error:
            text = f"The outbox in the database {outbox.alias!r} cannot be used: "
            raise failure(clipped(text + text_of_error(error))) from error

    def _move(self, outbox: Outbox) -> None:
        with self.console.steps(None, "moved") as finish_step:
            before = Moved()

            def note(done: Moved) -> bool:
                nonlocal before
                finish_step(done.moved - before.moved)
                before = done
                return True

            done = move_now(outbox, self.catalog, goes_on=note)
        text = f"Moved {counted(done.moved, 'task')} from the outbox."
        self.console.report(done._asdict(), text)
        if done.set_aside:
            rows = counted(done.set_aside, "row")
            raise failure(f"{rows} cannot be moved: see tasks_outbox without arguments.")

    def _report_count(self, name: str, count: int, what: str) -> None:
        text = f"Of the rows that were set aside, {count:,} {what}."
        self.console.report({name: count}, text)

    def _show(self, outbox: Outbox) -> None:
        found = sums(outbox)
        aside = first(outbox.set_aside, _SHOWN_ROWS)
        age = None if found.oldest is None else seconds_since(found.oldest)
        record = {
            "backend": outbox.backend.alias,
            "database": outbox.alias,
            "waiting": found.waiting,
            "oldest_seconds": age,
            "set_aside_count": found.set_aside,
            "set_aside": [columns.record(COLUMNS, row) for row in aside],
        }
        lines = [_said(found, age), *table_of(COLUMNS, self.console.paint)(aside)]
        self.console.report(record, "\n".join(lines))


def _said(found: OutboxSums, age: float | None) -> str:
    waiting = f"{counted(found.waiting, 'task')} in the outbox"
    if age is not None:
        waiting += f", the oldest for {lasting(age)}"
    return f"{waiting}; {counted(found.set_aside, 'row')} set aside."
