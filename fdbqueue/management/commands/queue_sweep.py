"""``queue_sweep``: remove what processes that have ended left behind."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.columns.text import counted
from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.service import transactions
from fdbqueue.service.tools import load
from fdbqueue.service.tools.upkeep import sweep


class Command(QueueCommand):
    help = (
        "Remove what processes that have ended left behind: their receipts (one small key for "
        "each thread that wrote), the records with which queue_push --resume resumes, and the "
        "saved responses of idempotency keys that expired an hour ago or earlier. No item is "
        "touched."
    )
    examples = """\
examples:
  manage.py queue_sweep
  manage.py queue_sweep --older-than 3600
  manage.py queue_sweep --json
"""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--older-than",
            type=arguments.whole_number(transactions.MIN_SWEPT_SECONDS),
            default=86_400,
            dest="older_than_seconds",
            metavar="SECONDS",
            help="Remove receipts and push records that were not written for SECONDS (default: "
            f"86400, a day; at least {transactions.MIN_SWEPT_SECONDS})",
        )
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        older_than_seconds = options["older_than_seconds"]
        removed = sweep(self.catalog.database, older_than_seconds=older_than_seconds)
        queues = [self.catalog.queue(name) for name in self.catalog.names(with_responses=True)]
        pushes = sum(load.sweep(queue, older_than_seconds=older_than_seconds) for queue in queues)
        responses = sum(queue.sweep() for queue in queues) + self.catalog.sweep()
        self.console.report(
            {"removed": removed, "pushes": pushes, "responses": responses},
            f"Removed {counted(removed, 'receipt')}, {counted(pushes, 'push record')} and "
            f"{counted(responses, 'saved response')}.",
            as_json=options["as_json"],
        )
