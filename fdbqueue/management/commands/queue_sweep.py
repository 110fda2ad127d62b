"""``queue_sweep``: remove the receipts of clients that are gone."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue import conf
from fdbqueue.management import rendering
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exits import OutputFailed, command_error
from fdbqueue.service import receipts


class Command(QueueCommand):
    help = (
        "Remove the receipts that processes which have ended left behind: one small key for "
        "each of their threads that wrote. No item is touched."
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
        parser.add_argument(
            "--json", action="store_true", dest="as_json", help="print the result as JSON"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        removed = receipts.sweep(conf.database(), older_than_seconds=options["older_than_seconds"])
        text = f"Removed {removed} receipts."
        try:
            self.emit([rendering.json_line({"removed": removed}) if options["as_json"] else text])
        except OutputFailed as error:
            raise command_error(error, f"{text} {error}.") or error from error


def _seconds(text: str) -> int:
    seconds = int(text)
    if seconds < receipts.MIN_SWEPT_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is less than {receipts.MIN_SWEPT_SECONDS}")
    return seconds


_seconds.__name__ = "number"  # argparse names the type in its message
