"""``queue_resume``: let pops and leases take items of paused queues again."""

from __future__ import annotations

from typing import Any

from fdbqueue.columns.attention import resume_command
from fdbqueue.management.arguments import JSON_LINES, QUEUES
from fdbqueue.management.base import QueueCommand
from fdbqueue.service import Family, Queue


class Command(QueueCommand):
    help = (
        "Resume paused queues. A pattern of the setting resumes a family that was paused by it; "
        "members that are paused by themselves stay so."
    )
    examples = """\
examples:
  manage.py queue_resume mail
  manage.py queue_resume mail quakes --json
  manage.py queue_resume 'user-*'
"""

    takes = (QUEUES, JSON_LINES)

    def handle(self, *args: Any, **options: Any) -> None:
        found = self.queues_and_families(options["names"])
        self.change_queues(found, _resume)


def _resume(queue: Queue | Family) -> tuple[dict[str, Any], str]:
    resumed = queue.resume()
    kind = "queue" if isinstance(queue, Queue) else "family"
    text = f"Resumed {queue.name!r}." if resumed else f"The {kind} {queue.name!r} was not paused."
    left = queue.paused()
    if left is not None and left.family not in (None, queue.name):
        command = resume_command(queue.name, left)
        text += f" It is paused with its family {left.family!r}: manage.py {command}"
    return {"queue": queue.name, "resumed": resumed}, text
