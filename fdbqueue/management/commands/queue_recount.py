"""``queue_recount``: count the items of queues, and put their counts right."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.management import rendering
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exits import OutputFailed, command_error
from fdbqueue.service import Queue
from fdbqueue.service.storage.counts import Counts

STATES = tuple(field.name for field in dataclasses.fields(Counts))
COLUMNS = ("NAME", *(state.upper() for state in STATES))


class Command(QueueCommand):
    help = (
        "Count the items of queues, and put right the counts that size() and counts() return: "
        "programs that use FoundationDB's recipes keep none. Others may push and pop meanwhile. "
        "The table shows what a count was, and what it is now where that differs."
    )
    examples = """\
examples:
  manage.py queue_recount
  manage.py queue_recount legacy mail
  manage.py queue_recount --json
"""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "names", metavar="NAME", nargs="*", help="the queues (default: all there are)"
        )
        self.add_json_argument(parser, each_line=True)

    def handle(self, *args: Any, **options: Any) -> None:
        names = dict.fromkeys(options["names"])
        queues = [self.queue(name) for name in names] if names else self.catalog.queues()
        try:
            self.emit(_lines(queues, options["as_json"]))
        except OutputFailed as error:
            reason = "Interrupted" if isinstance(error.__cause__, KeyboardInterrupt) else error
            message = f"{reason}. Of {len(queues)} queues, {self.written} were recounted and shown."
            raise command_error(error, message) or error from error


def _lines(queues: Iterable[Queue], as_json: bool) -> Iterator[str]:
    """Recount one queue after the other, and yield what to print of each."""
    table = rendering.Table(COLUMNS)
    for queue in queues:
        before, after = queue.counts(), queue.recount()
        if as_json:
            yield rendering.json_line(_record(queue, before, after))
        else:
            yield from table.lines([_row(queue, before, after)])


def _record(queue: Queue, before: Counts, after: Counts) -> dict[str, Any]:
    shown = {"before": dataclasses.asdict(before), "after": dataclasses.asdict(after)}
    return {"queue": queue.name, **shown}


def _row(queue: Queue, before: Counts, after: Counts) -> tuple[str, ...]:
    pairs = [(getattr(before, state), getattr(after, state)) for state in STATES]
    return queue.name, *(str(old) if old == new else f"{old} -> {new}" for old, new in pairs)
