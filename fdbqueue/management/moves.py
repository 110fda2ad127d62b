"""What ``queue_move`` and ``queue_drain --to`` share."""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from fdbqueue.exceptions import InvalidInput
from fdbqueue.management import rendering
from fdbqueue.management.base import count, count_to
from fdbqueue.management.exits import FAILED, USAGE, command_error, text_of
from fdbqueue.management.interrupts import held_interrupts
from fdbqueue.management.ndjson import number
from fdbqueue.management.progress import Progress, terminal_bar
from fdbqueue.management.prompts import PromptingCommand, items
from fdbqueue.management.taking import take_all
from fdbqueue.service import Mover, Queue
from fdbqueue.service.bulk.move import check_move
from fdbqueue.service.limits import MAX_ITEMS
from fdbqueue.service.tools.streams import BATCH_ITEMS


class MovingCommand(PromptingCommand):
    """A command that takes items from one end of a queue, a batch at a time."""

    def add_taking_arguments(self, parser: CommandParser) -> None:
        """Add the end, the limit, the batch, the priority and the format."""
        parser.add_argument(
            "--end",
            choices=["min", "max"],
            default="min",
            help="min: lowest priority, earliest pushed first (default); max: the other way round",
        )
        parser.add_argument(
            "--limit", type=count, metavar="N", help="the most items (default: all)"
        )
        parser.add_argument(
            "--batch",
            type=count_to(MAX_ITEMS),
            metavar="N",
            help=f"the most items of one transaction (default {BATCH_ITEMS}); it ends after "
            "about a megabyte, too",
        )
        parser.add_argument(
            "--priority",
            type=number,
            metavar="N",
            help="the priority that all have in the other queue (default: their own)",
        )
        self.add_json_argument(parser)

    def checked_target(self, queue: Queue, name: str, priority: Any) -> Queue:
        """Return the queue to move to.

        Raises:
            CommandError: There is none, or the move makes no sense.
        """
        target = self.queue(name)
        try:
            check_move(queue.parts, target.parts, priority)
        except InvalidInput as error:
            reason = error.context["reason"]
            message = f"{queue.name!r} cannot be moved to {target.name!r}: {reason}."
            raise CommandError(rendering.visible(message), returncode=USAGE) from error
        return target

    def move(self, queue: Queue, target: Queue, options: argparse.Namespace) -> None:
        """Move items, and say how many."""
        with held_interrupts() as interrupts, self.progress(queue, options) as progress:
            mover = Mover(
                queue,
                target,
                end=options.end,
                limit=options.limit or math.inf,
                batch_items=options.batch or BATCH_ITEMS,
                priority=options.priority,
            )
            try:
                take_all(
                    queue, mover, progress.advance, follow=options.follow, let_in=interrupts.let_in
                )
            except (Exception, KeyboardInterrupt) as error:
                text = rendering.visible(text_of(error))
                message = f"{text}. Moved {items(progress.done)} to {target.name!r}."
                raise command_error(error, message) or error from error
        self.report(
            {"queue": queue.name, "moved": progress.done, "to": target.name},
            f"Moved {items(progress.done)} of {queue.name!r} to {target.name!r}.",
            as_json=options.as_json,
        )
        self.check_buried(queue, mover.buried, progress.done)

    def check_buried(self, queue: Queue, buried: list[str], done: int) -> None:
        """End with 1 where items could not be decoded."""
        if buried:
            shown = ", ".join(buried[:5]) + (" and more" if len(buried) > 5 else "")
            raise CommandError(
                f"{items(len(buried))} of {queue.name!r} cannot be decoded, and were moved to its "
                f"dead letters: {rendering.visible(shown)}. {done:,} others are done.",
                returncode=FAILED,
            )

    def progress(self, queue: Queue, options: argparse.Namespace, *, bar: bool = True) -> Progress:
        """Return what tells how far it has come."""
        total = None if options.follow else self.expected(queue, options.limit)
        draws = bar and self.verbosity > 0 and self._from_shell
        return Progress(self.note, total, terminal_bar(queue.name, total) if draws else None)

    def expected(self, queue: Queue, limit: int | None) -> int:
        """Return how many items there are to take, as far as the counts know."""
        return min(max(0, queue.size()), limit or sys.maxsize)
