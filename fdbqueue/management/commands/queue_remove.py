"""``queue_remove``: remove items by their ids."""

from __future__ import annotations

import functools
from typing import Any

from fdbqueue import verbs
from fdbqueue.management.arguments import IDS, JSON, NO_INPUT, QUEUE
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.formats import item_count


class Command(QueueCommand):
    help = (
        "Remove items for good, whatever their state. A worker that holds one gets LeaseLost. "
        "Asks first. The exit code is 1 if an item is not there; the others are removed."
    )
    examples = """\
examples:
  manage.py queue_remove mail FgEVFAd1bnR...
  manage.py queue_remove mail FgEVFAd1bnR... FgIVFAd1bnR... --no-input --json
"""

    takes = (QUEUE, IDS, NO_INPUT, JSON)

    def handle(self, *args: Any, **options: Any) -> None:
        queue, ids = self.queue(options["name"]), options["ids"]
        question = f"Remove {item_count(len(set(ids)))} from {queue.name!r} for good?"
        self.console.confirm(question)
        self.change_items(queue, ids, functools.partial(verbs.remove, queue), done="removed")
