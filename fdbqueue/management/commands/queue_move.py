"""``queue_move``: move items from one queue to another."""

from __future__ import annotations

from typing import Any

from fdbqueue.columns.text import printable
from fdbqueue.exceptions import InvalidInput
from fdbqueue.management import arguments
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.emptying import Emptying
from fdbqueue.management.exit_codes import error_text, explain_errors, usage_error
from fdbqueue.management.formats import item_count
from fdbqueue.management.signals import defer_interrupts
from fdbqueue.service import Mover, Queue


class Command(QueueCommand):
    help = (
        "Move items from one queue to another, in the order in which they are taken. Each item "
        "moves in one transaction, so exactly once. Asks first."
    )
    examples = """\
examples:
  manage.py queue_move mail archive
  manage.py queue_move mail urgent --priority 9 --limit 100
  manage.py queue_move quakes mail --end max --no-input --json
  manage.py queue_move mail archive --follow --no-input
"""

    takes = (
        arguments.QUEUE,
        arguments.Argument("to", metavar="TO", help="Name of the queue to move the items to"),
        arguments.END,
        arguments.LIMIT,
        arguments.BATCH,
        arguments.Argument(
            "--priority",
            type=arguments.json_number,
            metavar="N",
            help="Priority of all items in the target queue (default: each keeps its own)",
        ),
        arguments.FOLLOW,
        arguments.NO_INPUT,
        arguments.JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        queue, target = self.takeable(options["name"]), self.queue(options["to"])
        follow = options["follow"]
        emptying = Emptying(queue, self.console, limit=options["limit"], follow=follow)
        mover = _mover(
            queue,
            target,
            priority=options["priority"],
            end=options["end"],
            limit=emptying.limit,
            batch_items=options["batch"],
        )
        self.console.note_pauses(queue)
        number = item_count(emptying.expected)
        what = f"{number}, and those that come," if follow else number
        question = f"Move {what} from {queue.name!r} to {target.name!r}?"
        self.console.confirm(question)
        done = self._move(queue, target.name, mover, emptying)
        self.console.note_pauses(queue)
        self.console.report(
            {"queue": queue.name, "moved": done, "to": target.name},
            f"Moved {item_count(done)} from {queue.name!r} to {target.name!r}.",
        )
        emptying.check_buried(mover.buried, done)

    def _move(self, queue: Queue, target: str, mover: Mover, emptying: Emptying) -> int:
        """Move the items, and return how many."""

        def explain(error: BaseException) -> str:
            text = printable(error_text(error))
            return f"{text}. Moved {item_count(progress.done)} to {target!r}."

        with (
            defer_interrupts() as interrupts,
            emptying.progress_meter() as progress,
            explain_errors(explain),
        ):
            emptying.take_all(queue, mover, progress.advance, interrupts)
        return progress.done


def _mover(queue: Queue, target: Queue, **options: Any) -> Mover:
    """Return what moves the items, and has moved none yet.

    Raises:
        CommandError: The move is impossible for any item, and it says why.
    """
    try:
        return Mover(queue, target, **options)
    except InvalidInput as error:
        reason = error.context["reason"]
        message = f"{queue.name!r} cannot be moved to {target.name!r}: {reason}."
        raise usage_error(printable(message)) from error
