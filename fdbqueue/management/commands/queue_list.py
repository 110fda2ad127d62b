"""``queue_list``: print the queues there are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue import access, columns
from fdbqueue.columns.queues import LISTED, QueueRow, read_rows
from fdbqueue.columns.text import seconds_since, timestamp
from fdbqueue.management import arguments, formats
from fdbqueue.management.base import QueueCommand
from fdbqueue.service import Item


class Command(QueueCommand):
    help = (
        "Print the queues: those that the setting names, and those that match one of its patterns "
        "and have been pushed to. Of each it says how many items are ready, leased, delayed and "
        "dead, and how old the oldest ready item is. STATUS says at which ends the queue is "
        "blocked by an item that cannot be decoded, and for how long it has been paused, and why."
    )
    allows_closed_output = True
    examples = """\
examples:
  manage.py queue_list
  manage.py queue_list --json
"""

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_json(parser, each_line=True)

    def handle(self, *args: Any, **options: Any) -> None:
        rows = self._rows()
        if options["as_json"]:
            self.console.print_lines(formats.json_line(_record(row)) for row in rows)
        else:
            self.console.print_lines(formats.table_of(LISTED, self.console.look)(rows))

    def _rows(self) -> Iterator[QueueRow]:
        """Yield what is said of each queue; some queues are read in one transaction."""
        rest = iter(self.catalog.queues())
        while some := [QueueRow(one) for one in itertools.islice(rest, access.QUEUES_AT_ONCE)]:
            read_rows(some, LISTED)
            yield from some


def _record(row: QueueRow) -> dict[str, Any]:
    """Return the object for a line of JSON, with the item that a pop would take."""
    head = next(iter(row.queue.page(limit=1).items), None)
    return {**columns.record(LISTED, row), "head": head and _head(head)}


def _head(item: Item) -> dict[str, Any]:
    at = item.pushed_at
    return {
        "id": item.id,
        "priority": item.priority,
        "pushed_at": at and timestamp(at),
        "age_seconds": at and seconds_since(at),
    }
