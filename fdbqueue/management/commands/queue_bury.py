"""``queue_bury``: make ready items dead letters."""

from __future__ import annotations

import functools
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand


class Command(QueueCommand):
    help = (
        "Make ready items dead letters, so that no pop or lease takes them until queue_redrive "
        "requeues them. Items in another state are not found (exit code 1)."
    )
    examples = """\
examples:
  manage.py queue_bury mail FgEVFAd1bnR... --reason "waits for an address"
  manage.py queue_bury mail FgEVFAd1bnR... FgIVFAd1bnR...
"""

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_queue(parser)
        arguments.add_ids(parser)
        why = "Why, as the dead letters show it (default: buried)"
        arguments.add_reason(parser, why, default="buried")
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        queue = self.queue(options["name"])
        bury = functools.partial(queue.bury, reason=options["reason"])
        as_json = options["as_json"]
        self.change_items(queue, options["ids"], bury, done="buried", as_json=as_json)
