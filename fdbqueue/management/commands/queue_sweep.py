"""``queue_sweep``: remove the receipts of clients that are gone."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.management.base import QueueCommand
from fdbqueue.service import receipts
from fdbqueue.service.tools import load


class Command(QueueCommand):
    help = (
        "Remove the receipts that processes which have ended left behind: one small key for "
        "each of their threads that wrote. So, too, how far pushes had come that wrote nothing "
        "since, and the answers of calls with an idempotency key that ran out an hour ago. "
        "No item is touched."
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
            type=_seconds,
            default=86_400,
            dest="older_than_seconds",
            metavar="SECONDS",
            help="how long ago a thread must have written last (default 86400, a day; "
            f"at least {receipts.MIN_SWEPT_SECONDS})",
        )
        self.add_json_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        older_than_seconds = options["older_than_seconds"]
        removed = receipts.sweep(self.catalog.database, older_than_seconds=older_than_seconds)
        queues = [self.catalog.queue(name) for name in self.catalog.names(with_answers=True)]
        pushes = sum(load.sweep(queue, older_than_seconds=older_than_seconds) for queue in queues)
        answers = sum(queue.sweep() for queue in queues)
        text = (
            f"Removed {removed} receipts, how far {pushes} pushes had come, and {answers} answers "
            "of calls with a key."
        )
        found = {"removed": removed, "pushes": pushes, "answers": answers}
        self.report(found, text, as_json=options["as_json"])


def _seconds(text: str) -> int:
    seconds = int(text)
    if seconds < receipts.MIN_SWEPT_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is less than {receipts.MIN_SWEPT_SECONDS}")
    return seconds


_seconds.__name__ = "number"  # argparse names the type in its message
