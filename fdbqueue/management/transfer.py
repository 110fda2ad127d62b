"""Take items off a queue, batch by batch: the loop of ``queue_drain`` and ``queue_move``."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from fdbqueue.exceptions import InvalidInput
from fdbqueue.management import arguments, formats, pauses
from fdbqueue.management.console import Console
from fdbqueue.management.exit_codes import error_text, explain_errors, failure, usage_error
from fdbqueue.management.formats import item_count
from fdbqueue.management.progress import Progress
from fdbqueue.management.signals import defer_interrupts
from fdbqueue.service import BATCH_ITEMS, MAX_ITEMS, Mover, Queue, SeveralQueues

T_co = TypeVar("T_co", covariant=True)

#: How long one wait for items lasts, so that Ctrl-C is noticed. Pushed items end it at once.
_WAIT_SECONDS = 2.0
_SHOWN_IDS = 5


class Source(Protocol[T_co]):
    """A source of batches: a Batcher or a Mover."""

    remaining: float

    def next(self) -> T_co:
        """Return the next batch, or its number of items; empty or 0 when there is none."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of commands that take items batch by batch."""
    arguments.add_end(parser)
    arguments.add_limit(parser)
    arguments.add_batch(parser, default=BATCH_ITEMS, most=MAX_ITEMS)
    arguments.add_target_priority(parser)
    arguments.add_json(parser)


def take_all(
    queue: Queue,
    source: Source[T_co],
    take: Callable[[T_co], None],
    *,
    follow: bool,
    allowed: Callable[[], contextlib.AbstractContextManager[None]],
) -> None:
    """Take batches until there are no more, or without end with ``--follow``.

    Args:
        queue: The queue they come from.
        source: Returns the batches.
        take: Called with each batch.
        follow: Whether to wait for more.
        allowed: Returns a context that Ctrl-C may stop.
    """
    while source.remaining > 0:
        with allowed():
            has_items = not follow or queue.wait_for_items(_WAIT_SECONDS)
        if not has_items:
            continue
        batch = source.next()
        if batch:
            take(batch)
        elif not follow:
            return


def expected(queue: Queue | SeveralQueues, limit: int | None) -> int:
    """Return how many items there are to take, according to the counts."""
    return min(max(0, queue.size()), limit or sys.maxsize)


def progress_of(
    queue: Queue | SeveralQueues,
    options: argparse.Namespace,
    console: Console,
    *,
    bar: bool = True,
    lines: bool = True,
) -> Progress:
    """Return what shows how many of the items are taken.

    One that follows has no end: its rate since it began says little, and its lines would stand
    between those of the log.

    Args:
        queue: The queue.
        options: The arguments of the command.
        console: Where it is shown.
        bar: Whether a bar may be drawn.
        lines: Whether lines may be printed where there is no bar.
    """
    total = None if options.follow else expected(queue, options.limit)
    return console.progress(queue.name, total, bar=bar, lines=lines and not options.follow)


def check_buried(queue: Queue | SeveralQueues, buried: list[str], done: int) -> None:
    """End the command with exit code 1 if items were moved to the dead letters.

    Args:
        queue: The queue.
        buried: The ids of its items that cannot be decoded.
        done: How many others are done.
    """
    if buried:
        shown = ", ".join(buried[:_SHOWN_IDS])
        more = " and more" if len(buried) > _SHOWN_IDS else ""
        raise failure(
            f"{item_count(len(buried))} of {queue.name!r} cannot be decoded and went to its dead "
            f"letters: {formats.visible(shown)}{more}. {item_count(done, 'other')} done."
        )


def check_target(queue: Queue, target: Queue, priority: Any) -> None:
    """Refuse a move between two queues that is impossible for any item.

    Raises:
        CommandError: It says why.
    """
    try:
        Mover(queue, target, priority=priority)  # checks, and moves nothing yet
    except InvalidInput as error:
        reason = error.context["reason"]
        message = f"{queue.name!r} cannot be moved to {target.name!r}: {reason}."
        raise usage_error(formats.visible(message)) from error


def move(queue: Queue, target: Queue, options: argparse.Namespace, console: Console) -> None:
    """Move items to another queue, and print how many."""

    def explain(error: BaseException) -> str:
        text = formats.visible(error_text(error))
        return f"{text}. Moved {item_count(progress.done)} to {target.name!r}."

    with defer_interrupts() as interrupts, progress_of(queue, options, console) as progress:
        mover = Mover(
            queue,
            target,
            end=options.end,
            limit=options.limit or math.inf,
            batch_items=options.batch or BATCH_ITEMS,
            priority=options.priority,
        )
        with explain_errors(explain):
            take_all(
                queue, mover, progress.advance, follow=options.follow, allowed=interrupts.allowed
            )
    pauses.note_pause(queue, console)
    console.report(
        {"queue": queue.name, "moved": progress.done, "to": target.name},
        f"Moved {item_count(progress.done)} from {queue.name!r} to {target.name!r}.",
        as_json=options.as_json,
    )
    check_buried(queue, mover.buried, progress.done)
