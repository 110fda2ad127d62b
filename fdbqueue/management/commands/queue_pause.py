"""``queue_pause``: let pops and leases find nothing in queues, or in all members of a family."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fdbqueue.columns.queues import pause_record, paused_since
from fdbqueue.management.arguments import JSON_LINES, QUEUES, REASON
from fdbqueue.management.base import QueueCommand
from fdbqueue.service import Family, Queue

_WHY = "Why, for those who look at the queue; at most 1,000 characters are kept"


class Command(QueueCommand):
    help = (
        "Pause queues: pops and leases find nothing in them until queue_resume; all else goes on. "
        "A pattern of the setting pauses all queues that fit it, later ones too."
    )
    examples = """\
examples:
  manage.py queue_pause mail --reason "deploying 2.4"
  manage.py queue_pause mail quakes --json
  manage.py queue_pause 'user-*' --reason "the provider is down"
"""

    takes = (QUEUES, REASON.but(help=_WHY), JSON_LINES)

    def handle(self, *args: Any, **options: Any) -> None:
        def pause(queue: Queue | Family) -> tuple[dict[str, Any], str]:
            made = queue.pause(reason=options["reason"])
            kind = "queue" if made.family is None else "family"
            text = f"The {kind} {queue.name!r} is {paused_since(replace(made, family=None))}"
            return {"queue": queue.name, "paused": pause_record(made)}, text

        found = self.queues_and_families(options["names"])
        self.change_queues(found, pause)
