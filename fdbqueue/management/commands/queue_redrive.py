"""``queue_redrive``: requeue dead letters."""

from __future__ import annotations

from typing import Any

from fdbqueue.columns.text import clipped
from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.formats import item_count
from fdbqueue.service import Queue


class Command(QueueCommand):
    help = "Requeue dead letters at their original places, with no attempts. Asks first."
    examples = """\
examples:
  manage.py queue_redrive mail
  manage.py queue_redrive mail --reason "ConnectionError: timed out"
  manage.py queue_redrive mail --limit 100 --no-input
  manage.py queue_redrive mail --id FgEVFAd1bnR... --json --no-input
"""

    takes = (
        arguments.QUEUE,
        arguments.Argument(
            "--id",
            action="append",
            dest="ids",
            metavar="ID",
            help="Requeue only the item with this id; may be repeated",
        ),
        arguments.reason_of_dead("Requeue only items that died"),
        arguments.LIMIT,
        arguments.NO_INPUT,
        arguments.JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        queue, ids, limit = self.queue(options["name"]), options["ids"], options["limit"]
        reason = options["reason"]
        dead = queue.counts().dead
        most = min([dead] + ([len(ids)] if ids else []) + ([limit] if limit else []))
        if most:  # else no item is requeued
            question = _question(queue, most, dead, reason)
            self.console.confirm(question)
        with self.console.steps(queue.name, most, "requeued") as finish_step:
            redriven = queue.redrive(ids, limit=most, reason=reason, on_redriven=finish_step)
        self.console.report(
            {"queue": queue.name, "redriven": redriven},
            f"Requeued {item_count(redriven, 'dead')} in {queue.name!r}.",
        )


def _question(queue: Queue, most: int, dead: int, reason: str | None) -> str:
    of_all = f"{most:,} of {item_count(dead, 'dead')} in {queue.name!r}"
    if reason is None:
        return f"Requeue {of_all}?"
    return f'Requeue at most {of_all}, the ones that died of "{clipped(reason)}"?'
