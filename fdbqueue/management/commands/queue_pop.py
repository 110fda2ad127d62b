"""``queue_pop``: take items from a queue and print them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fdbqueue.exceptions import OutcomeUnknown
from fdbqueue.management import item_lines
from fdbqueue.management.arguments import END, JSON_LINES, ONE_UNLESS_LIMIT, QUEUE
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import error_text, explain_errors
from fdbqueue.management.formats import item_count
from fdbqueue.management.signals import defer_interrupts
from fdbqueue.service import End, Item, Queue

#: At most this many are popped before they are printed: a broken output loses no more.
_POPPED_AT_ONCE = 100


class Command(QueueCommand):
    help = (
        "Take items from one end of a queue and print them, at most 100 in a transaction. Popped "
        "items are lost if they cannot be printed."
    )
    examples = """\
examples:
  manage.py queue_pop mail
  manage.py queue_pop quakes --end max --limit 10
  manage.py queue_pop quakes --limit 1000000 --json > quakes.ndjson
"""

    takes = (QUEUE, END, ONE_UNLESS_LIMIT, JSON_LINES)

    def handle(self, *args: Any, **options: Any) -> None:
        queue = self.takeable(options["name"])
        lines = item_lines.printer(
            queue, self.console.paint, as_json=self.console.as_json, whole_values=True
        )
        self._popped = 0
        with explain_errors(self._explain):
            self._pop(queue, options["end"], options["limit"], lines)
            is_paused = self._popped < options["limit"] and self.console.note_pauses(queue)
        if not self._popped and not is_paused and not self.console.as_json:
            is_held = queue.held_until() is not None
            why = "gives nothing at the moment: its rate is used up" if is_held else "is empty"
            self.console.note(f"The queue {queue.name!r} {why}.")

    def _pop(
        self, queue: Queue, end: End, limit: int, lines: Callable[[list[Item]], list[str]]
    ) -> None:
        with defer_interrupts() as interrupts:
            while self._popped < limit:
                with interrupts.allowed():
                    self.console.check_output()
                items = queue.pop_many(min(_POPPED_AT_ONCE, limit - self._popped), end=end)
                if not items:
                    return
                self._popped += len(items)
                self.console.print_lines(lines(items))

    def _explain(self, error: BaseException) -> str:
        what = error_text(error)
        if not self._popped:
            other = "else " if isinstance(error, OutcomeUnknown) else ""
            return f"{what}. Nothing {other}was popped."
        written = self.console.lines_printed
        lost = self._popped - written
        popped = item_count(self._popped)
        return f"{what}. Popped {popped}: {written:,} written, {lost:,} not written."
