"""``queue_list``: print the queues there are."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue import access, columns
from fdbqueue.columns.families import LISTED_FAMILIES, MOST_MEMBERS, family_row
from fdbqueue.columns.queues import LISTED, QueueRow, fill, reads_of
from fdbqueue.columns.text import seconds_since, timestamp
from fdbqueue.management import arguments, formats
from fdbqueue.management.base import QueueCommand
from fdbqueue.service import Family, Item, Queue, run


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
  manage.py queue_list --family
"""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--family",
            action="store_true",
            help="Print the families instead, the patterns of the setting: how many members of "
            f"each have something to take now, counted up to {MOST_MEMBERS:,}",
        )
        arguments.add_json(parser, each_line=True)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["family"]:
            self._print_families(self.families_there(), options["as_json"])
            return
        queues, families = self.listed()
        if options["as_json"]:
            found = self._read(queues, with_heads=True)
            self.console.print_lines(formats.json_line(_record(*one)) for one in found)
        else:
            table = formats.table_of(LISTED, self.console.look)
            self.console.print_lines(table(row for row, _ in self._read(queues)))
            self.console.print_lines([""] if families else [])
        if families:
            self._print_families(families, options["as_json"])

    def _print_families(self, families: Iterable[Family], as_json: bool) -> None:
        read = (functools.partial(family_row, family) for family in families)
        rows = (run(self.catalog.database, one, read_only=True)[0] for one in read)
        if as_json:
            records = (columns.record(LISTED_FAMILIES, row) for row in rows)
            self.console.print_lines(map(formats.json_line, records))
        else:
            shown = formats.table_of(LISTED_FAMILIES, self.console.look)
            self.console.print_lines(shown(rows))

    def _read(
        self, queues: Iterable[Queue], *, with_heads: bool = False
    ) -> Iterator[tuple[QueueRow, Item | None]]:
        """Yield what is said of each queue, and its head; several are read in one transaction."""
        rest = iter(queues)
        while rows := [QueueRow(one) for one in itertools.islice(rest, access.QUEUES_AT_ONCE)]:
            read = functools.partial(_read_rows, rows=rows, with_heads=with_heads)
            heads = run(self.catalog.database, read, read_only=True)
            yield from zip(rows, heads, strict=True)


def _read_rows(tr: Any, *, rows: list[QueueRow], with_heads: bool) -> list[Item | None]:
    """Read into rows, and return the items that a pop would take, if these are asked for."""
    fill(tr, [(begin, rows) for begin in reads_of(LISTED)])
    if not with_heads:
        return [None] * len(rows)
    return [next(iter(row.queue.page(limit=1, tr=tr).items), None) for row in rows]


def _record(row: QueueRow, head: Item | None) -> dict[str, Any]:
    """Return the object for a line of JSON."""
    return {**columns.record(LISTED, row), "head": head and _head(head)}


def _head(item: Item) -> dict[str, Any]:
    at = item.pushed_at
    return {
        "id": item.id,
        "priority": item.priority,
        "pushed_at": at and timestamp(at),
        "age_seconds": at and seconds_since(at),
    }
