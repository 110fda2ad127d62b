"""``queue_pop``: take items from a queue and print them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fdbqueue.exceptions import OutcomeUnknown
from fdbqueue.management.base import ItemsCommand
from fdbqueue.management.exits import command_error, text_of
from fdbqueue.management.interrupts import held_interrupts
from fdbqueue.service import Item, Queue
from fdbqueue.service.storage.reader import End

#: No more are taken before they are printed: what a broken output costs is bounded by it.
BATCH_ITEMS = 100


class Command(ItemsCommand):
    help = (
        "Take items from one end of a queue and print them, at most 100 at a time: those are "
        "gone from the queue once they are printed, and lost if they cannot be."
    )
    whole_values = True
    examples = """\
examples:
  manage.py queue_pop mail
  manage.py queue_pop quakes --end max --limit 10
  manage.py queue_pop quakes --limit 1000000 --json > quakes.ndjson
"""

    def handle(self, *args: Any, **options: Any) -> None:
        queue = self.queue(options["name"])
        self._popped = 0
        try:
            self._pop(queue, options["end"], options["limit"], self.item_lines(options["as_json"]))
        except (Exception, KeyboardInterrupt) as error:
            failure = command_error(error, self._explain(error))
            if failure is None:
                raise
            raise failure from error
        if not self._popped and not options["as_json"]:
            self.note(f"The queue {queue.name!r} is empty.")

    def _pop(
        self, queue: Queue, end: End, limit: int, lines: Callable[[list[Item]], list[str]]
    ) -> None:
        with held_interrupts() as interrupts:
            while self._popped < limit:
                with interrupts.let_in():
                    self.check_output()
                items = queue.pop_many(min(BATCH_ITEMS, limit - self._popped), end=end)
                if not items:
                    return
                self._popped += len(items)
                self.emit(lines(items))

    def _explain(self, error: BaseException) -> str:
        what = text_of(error)
        if not self._popped:
            other = "else " if isinstance(error, OutcomeUnknown) else ""
            return f"{what}. Nothing {other}was popped."
        lost = self._popped - self.written
        return f"{what}. {self.written} items were written, {lost} popped but not written."
