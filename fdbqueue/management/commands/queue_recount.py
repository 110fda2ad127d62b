"""``queue_recount``: count the items of queues, and correct their counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.columns.text import counted
from fdbqueue.management import arguments, formats
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import OutputFailed, command_error
from fdbqueue.management.formats import Table, TextColumn
from fdbqueue.service import ITEM_STATES, Counts, Queue

COLUMNS = (
    TextColumn("NAME", "name"),
    *(TextColumn(state.upper(), "number") for state in ITEM_STATES),
)


class Command(QueueCommand):
    help = (
        "Count the items of queues, and correct the counts that size() and counts() return. Only "
        "queues that are used by programs with FoundationDB's recipes need it, because those keep "
        "no counts. The row of each in the index of its family is written again, too, and those of "
        "dead letters by when they died. Others may push and pop meanwhile. The table shows each "
        "count, or the old and the new one where they differ."
    )
    examples = """\
examples:
  manage.py queue_recount
  manage.py queue_recount legacy mail
  manage.py queue_recount --json
"""

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_queues(parser)
        arguments.add_json(parser, each_line=True)

    def handle(self, *args: Any, **options: Any) -> None:
        queues = self.queues(options["names"])
        table = Table(COLUMNS, self.console.look)
        table.expect((queue.name, *[""] * len(ITEM_STATES)) for queue in queues)
        try:
            self.console.print_lines(_lines(queues, table, options["as_json"]))
        except OutputFailed as error:
            if error.is_by_reader:
                raise
            reason = "Interrupted" if isinstance(error.__cause__, KeyboardInterrupt) else error
            done = self.console.lines_printed
            total = counted(len(queues), "queue")
            message = f"{reason}. Recounted and printed {done} of {total}."
            raise command_error(error, message) or error from error


def _lines(queues: Iterable[Queue], table: Table, as_json: bool) -> Iterator[str]:
    """Recount one queue after the other, and yield the line of each."""
    for queue in queues:
        before, after = queue.counts(), queue.recount()
        if as_json:
            yield formats.json_line(_record(queue, before, after))
        else:
            yield from table.lines([_row(queue, before, after)])


def _record(queue: Queue, before: Counts, after: Counts) -> dict[str, Any]:
    shown = {"before": dataclasses.asdict(before), "after": dataclasses.asdict(after)}
    return {"queue": queue.name, **shown}


def _row(queue: Queue, before: Counts, after: Counts) -> tuple[str, ...]:
    pairs = [(getattr(before, state), getattr(after, state)) for state in ITEM_STATES]
    return queue.name, *(f"{old:,}" if old == new else f"{old:,} -> {new:,}" for old, new in pairs)
