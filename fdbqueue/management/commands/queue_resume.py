"""``queue_resume``: let pops and leases take items of paused queues again."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.service import Queue


class Command(QueueCommand):
    help = (
        "Resume queues that queue_pause has paused: pops and leases take items again, and those "
        "that wait are woken. Queues are resumed one after the other; one that is not paused is "
        "left as it is."
    )
    examples = """\
examples:
  manage.py queue_resume mail
  manage.py queue_resume mail quakes --json
"""

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_queues(parser, required=True)
        arguments.add_json(parser, each_line=True)

    def handle(self, *args: Any, **options: Any) -> None:
        queues = self.queues(options["names"])
        self.change_queues(queues, _resume, as_json=options["as_json"])


def _resume(queue: Queue) -> tuple[dict[str, Any], str]:
    resumed = queue.resume()
    text = f"Resumed {queue.name!r}." if resumed else f"The queue {queue.name!r} was not paused."
    return {"queue": queue.name, "resumed": resumed}, text
