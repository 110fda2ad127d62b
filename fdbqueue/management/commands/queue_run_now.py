"""``queue_run_now``: make delayed items ready before their time."""

from __future__ import annotations

from typing import Any

from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand


class Command(QueueCommand):
    help = (
        "Make delayed items and tasks ready now, also what waits for its next attempt. Limits "
        "hold. Asks first."
    )
    examples = """\
examples:
  manage.py queue_run_now mail
  manage.py queue_run_now tasks-default --id FgEVFAd1bnR... --no-input
  manage.py queue_run_now 'user-*' --limit 100 --json --no-input
"""

    takes = (
        arguments.QUEUE_OR_PATTERN,
        arguments.ID.but(help="Make only the item with this id ready; may be repeated"),
        arguments.LIMIT,
        arguments.NO_INPUT,
        arguments.JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        ids = options["ids"]
        of = self.queue_or_several(options["name"], ids)
        self.return_items(
            of,
            "delayed",
            f"Make {{items}} in {of.name!r} ready now?",
            "made ready",
            lambda done, **of_ids: of.run_now(limit=options["limit"], on_ready=done, **of_ids),
            ids,
        )
