"""``queue_redrive``: put dead letters back into their queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.management.base import count
from fdbqueue.management.prompts import PromptingCommand, items
from fdbqueue.service import Queue

_AT_ONCE = 200


class Command(PromptingCommand):
    help = (
        "Put dead letters back to their places in the queue, as if they had never been tried: "
        "all, or those named. Asks first."
    )
    examples = """\
examples:
  manage.py queue_redrive mail
  manage.py queue_redrive mail --limit 100 --no-input
  manage.py queue_redrive mail --id FgEVFAd1bnR... --json --no-input
"""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the queue's name")
        parser.add_argument(
            "--id",
            action="append",
            dest="ids",
            metavar="ID",
            help="only this item; may be repeated",
        )
        parser.add_argument(
            "--limit", type=count, metavar="N", help="the most items (default: all)"
        )
        self.add_prompt_argument(parser)
        self.add_json_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        queue, ids, limit = self.queue(options["name"]), options["ids"], options["limit"]
        self.confirm(_deed(queue, ids, limit), interactive=options["interactive"])
        most = _most(queue, ids, limit)
        with self.step_by_step(queue.name, most, "were put back") as note_step:
            redriven = _redrive(queue, ids, most, note_step)
        self.report(
            {"queue": queue.name, "redriven": redriven},
            f"Put {items(redriven, 'dead')} back into {queue.name!r}.",
            as_json=options["as_json"],
        )


def _deed(queue: Queue, ids: list[str] | None, limit: int | None) -> str:
    most = _most(queue, ids, limit)
    return f"Put {items(most, 'dead')} of {queue.counts().dead:,} back into {queue.name!r}?"


def _most(queue: Queue, ids: list[str] | None, limit: int | None) -> int:
    """Return how many there are to put back."""
    return min([queue.counts().dead] + ([len(ids)] if ids else []) + ([limit] if limit else []))


def _redrive(
    queue: Queue, ids: list[str] | None, most: int, note_step: Callable[[int], None]
) -> int:
    """Put dead letters back, some at a time, and return how many."""
    done, left = 0, list(dict.fromkeys(ids or ()))
    while done < most:
        named = None if ids is None else left[:_AT_ONCE]
        count = queue.redrive(named, limit=min(_AT_ONCE, most - done))
        note_step(count)
        done, left = done + count, left[_AT_ONCE:]
        if not (left if ids else count):
            break
    return done
