"""``queue_bury``: make ready items dead letters."""

from __future__ import annotations

import functools
from typing import Any

from fdbqueue import verbs
from fdbqueue.management.arguments import IDS, JSON, QUEUE, REASON
from fdbqueue.management.base import QueueCommand

_WHY = "Why, as the dead letters show it (default: buried)"


class Command(QueueCommand):
    help = (
        "Make ready items dead letters, which no pop or lease takes until queue_redrive redrives "
        "them. The exit code is 1 if an item is not ready."
    )
    examples = """\
examples:
  manage.py queue_bury mail FgEVFAd1bnR... --reason "waits for an address"
  manage.py queue_bury mail FgEVFAd1bnR... FgIVFAd1bnR...
"""

    takes = (QUEUE, IDS, REASON.but(default="buried", help=_WHY), JSON)

    def handle(self, *args: Any, **options: Any) -> None:
        queue = self.queue(options["name"])
        bury = functools.partial(verbs.bury, queue, reason=options["reason"])
        self.change_items(queue, options["ids"], bury, done="buried")
