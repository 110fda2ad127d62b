"""``queue_move``: move items from one queue to another."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.management.moves import MovingCommand
from fdbqueue.management.prompts import items


class Command(MovingCommand):
    help = (
        "Move items from one queue to another: each in one transaction, so exactly once, in the "
        "order in which they are taken. Asks first."
    )
    examples = """\
examples:
  manage.py queue_move mail archive
  manage.py queue_move mail urgent --priority 9 --limit 100
  manage.py queue_move quakes mail --end max --no-input --json
"""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the queue's name")
        parser.add_argument("to", metavar="TO", help="the name of the queue to move to")
        self.add_taking_arguments(parser)
        self.add_prompt_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        queue = self.queue(options["name"])
        target = self.checked_target(queue, options["to"], options["priority"])
        number = self.expected(queue, options["limit"])
        deed = f"Move {items(number)} from {queue.name!r} to {target.name!r}?"
        self.confirm(deed, interactive=options["interactive"])
        self.move(queue, target, argparse.Namespace(**options, follow=False))
