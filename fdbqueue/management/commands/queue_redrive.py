"""``queue_redrive``: requeue dead letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.formats import item_count
from fdbqueue.service import Queue

#: Requeued in one transaction.
STEP_ITEMS = 200


class Command(QueueCommand):
    help = (
        "Requeue dead letters at their original places, as if they had never been tried: all of "
        "them, or those named by --id. Asks first."
    )
    examples = """\
examples:
  manage.py queue_redrive mail
  manage.py queue_redrive mail --limit 100 --no-input
  manage.py queue_redrive mail --id FgEVFAd1bnR... --json --no-input
"""

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_queue(parser)
        parser.add_argument(
            "--id",
            action="append",
            dest="ids",
            metavar="ID",
            help="Requeue only the item with this id; may be repeated",
        )
        arguments.add_limit(parser)
        arguments.add_no_input(parser)
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        queue, ids, limit = self.queue(options["name"]), options["ids"], options["limit"]
        self.console.confirm(_question(queue, ids, limit), interactive=options["interactive"])
        most = _most(queue, ids, limit)
        with self.console.steps(queue.name, most, "requeued") as finish_step:
            redriven = _redrive(queue, ids, most, finish_step)
        self.console.report(
            {"queue": queue.name, "redriven": redriven},
            f"Requeued {item_count(redriven, 'dead')} in {queue.name!r}.",
            as_json=options["as_json"],
        )


def _question(queue: Queue, ids: list[str] | None, limit: int | None) -> str:
    dead = queue.counts().dead
    return f"Requeue {_most(queue, ids, limit):,} of {item_count(dead, 'dead')} in {queue.name!r}?"


def _most(queue: Queue, ids: list[str] | None, limit: int | None) -> int:
    """Return how many items there are to requeue."""
    return min([queue.counts().dead] + ([len(ids)] if ids else []) + ([limit] if limit else []))


def _redrive(
    queue: Queue, ids: list[str] | None, most: int, finish_step: Callable[[int], None]
) -> int:
    """Requeue dead letters step by step, and return how many."""
    done, left = 0, list(dict.fromkeys(ids or ()))
    while done < most:
        named = None if ids is None else left[:STEP_ITEMS]
        count = queue.redrive(named, limit=min(STEP_ITEMS, most - done))
        finish_step(count)
        done, left = done + count, left[STEP_ITEMS:]
        if not (left if ids else count):
            break
    return done
