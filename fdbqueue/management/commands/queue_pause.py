"""``queue_pause``: let pops and leases find nothing in queues."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.columns.queues import pause_record, paused_since
from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.service import Queue


class Command(QueueCommand):
    help = (
        "Pause queues: pops and leases find nothing in them, and those that wait go on waiting, "
        "until queue_resume. Pushes go on, and workers can end the leases that they hold. A queue "
        "that is paused already keeps its time, and gets the new reason. Queues are paused one "
        "after the other."
    )
    examples = """\
examples:
  manage.py queue_pause mail --reason "deploying 2.4"
  manage.py queue_pause mail quakes --json
"""

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_queues(parser, required=True)
        parser.add_argument(
            "--reason",
            default="",
            metavar="TEXT",
            help="Why, for those who look at the queue; at most 1,000 characters are kept",
        )
        arguments.add_json(parser, each_line=True)

    def handle(self, *args: Any, **options: Any) -> None:
        def pause(queue: Queue) -> tuple[dict[str, Any], str]:
            made = queue.pause(reason=options["reason"])
            text = f"The queue {queue.name!r} is {paused_since(made)}"
            return {"queue": queue.name, "paused": pause_record(made)}, text

        queues = self.queues(options["names"])
        self.change_queues(queues, pause, as_json=options["as_json"])
