"""``queue_purge``: remove everything from a queue."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.management.prompts import PromptingCommand, items
from fdbqueue.service import Counts, Queue

STATES = tuple(field.name for field in dataclasses.fields(Counts))


class Command(PromptingCommand):
    help = (
        "Remove all items of a queue for good, in whatever state they are, with the counts and "
        "the history: one transaction, however many there are. With --state only the items in "
        "that state, in bounded transactions. Asks first."
    )
    examples = """\
examples:
  manage.py queue_purge mail
  manage.py queue_purge mail --state dead
  manage.py queue_purge mail --no-input --json
"""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the queue's name")
        parser.add_argument("--state", choices=STATES, help="only the items in this state")
        self.add_prompt_argument(parser)
        self.add_json_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        queue, state = self.queue(options["name"]), options["state"]
        self.confirm(_deed(queue, state), interactive=options["interactive"])
        if state is None:
            removed = sum(dataclasses.astuple(queue.counts()))
            queue.clear()
        else:
            total = getattr(queue.counts(), state)
            with self.step_by_step(queue.name, total, "were removed") as note_step:
                removed = queue.clear_state(state, on_removed=note_step)
        self.report(
            {"queue": queue.name, "removed": removed},
            f"Removed {items(removed, state or '')} from {queue.name!r}.",
            as_json=options["as_json"],
        )


def _deed(queue: Queue, state: str | None) -> str:
    counts = dataclasses.asdict(queue.counts())
    shown = {one: number for one, number in counts.items() if state in {None, one}}
    which = ", ".join(f"{number:,} {one}" for one, number in shown.items())
    return f"Remove {items(sum(shown.values()))} from {queue.name!r} for good ({which})?"
