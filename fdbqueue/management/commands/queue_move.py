"""``queue_move``: move items from one queue to another."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.management import arguments, drain
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.formats import item_count


class Command(QueueCommand):
    help = (
        "Move items from one queue to another, in the order in which they are taken. Each item "
        "moves in one transaction, so exactly once. Asks first."
    )
    examples = """\
examples:
  manage.py queue_move mail archive
  manage.py queue_move mail urgent --priority 9 --limit 100
  manage.py queue_move quakes mail --end max --no-input --json
"""

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_queue(parser)
        parser.add_argument("to", metavar="TO", help="Name of the queue to move the items to")
        arguments.add_batches(parser)
        arguments.add_no_input(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        queue, target = self.queue(options["name"]), self.queue(options["to"])
        drain.check_target(queue, target, options["priority"])
        self.console.note_pauses(queue)
        number = drain.expected(queue, options["limit"])
        question = f"Move {item_count(number)} from {queue.name!r} to {target.name!r}?"
        self.console.confirm(question, interactive=options["interactive"])
        drain.move(queue, target, argparse.Namespace(**options, follow=False), self.console)
