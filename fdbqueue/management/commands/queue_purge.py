"""``queue_purge``: remove everything from a queue."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.columns.text import clipped
from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import usage_error
from fdbqueue.management.formats import item_count
from fdbqueue.service import ITEM_STATES, Queue


class Command(QueueCommand):
    help = (
        "Remove all items of a queue for good, whatever their state, with the counts and the "
        "history. With --state remove only the items in that state, with --reason only the dead "
        "letters of that reason. Asks first."
    )
    examples = """\
examples:
  manage.py queue_purge mail
  manage.py queue_purge mail --state dead
  manage.py queue_purge mail --reason "ConnectionError: timed out"
  manage.py queue_purge mail --no-input --json
"""

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_queue(parser)
        parser.add_argument("--state", choices=ITEM_STATES, help="Remove only items in this state")
        arguments.add_reason_of_dead(parser, "Remove only dead letters")
        arguments.add_no_input(parser)
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        queue, reason = self.queue(options["name"]), options["reason"]
        state = options["state"] or (None if reason is None else "dead")
        if reason is not None and state != "dead":
            raise usage_error(f"--reason is for dead letters, not for --state {state}.")
        question = _question(queue, state, reason)
        self.console.confirm(question, interactive=options["interactive"])
        if state is None:
            removed = sum(dataclasses.astuple(queue.counts()))
            queue.clear()
        else:
            total = getattr(queue.counts(), state)
            with self.console.steps(queue.name, total, "removed") as finish_step:
                removed = queue.clear_state(state, reason=reason, on_removed=finish_step)
        self.console.report(
            {"queue": queue.name, "removed": removed},
            f"Removed {item_count(removed, state or '')} from {queue.name!r}.",
            as_json=options["as_json"],
        )


def _question(queue: Queue, state: str | None, reason: str | None) -> str:
    counts = dataclasses.asdict(queue.counts())
    shown = {one: number for one, number in counts.items() if state in {None, one}}
    if reason is not None:
        dead = item_count(counts["dead"], "dead")
        of_reason = f'those of {dead} in {queue.name!r} that died of "{clipped(reason)}"'
        return f"Remove for good {of_reason}?"
    which = ", ".join(f"{number:,} {one}" for one, number in shown.items())
    return f"Remove {item_count(sum(shown.values()))} from {queue.name!r} for good ({which})?"
