"""``queue_stats``: print the counts, the age and the rates of queues."""

from __future__ import annotations

import datetime
import functools
import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from django.core.management.base import CommandParser

from fdbqueue import access, columns
from fdbqueue.columns.families import FAMILY_STATS, MOST_MEMBERS, FamilyRow, family_row
from fdbqueue.columns.queues import STATS, QueueRow, fill, reads_of
from fdbqueue.columns.text import printable, short_time
from fdbqueue.management import arguments, formats
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import usage_error
from fdbqueue.management.formats import Table, TextColumn
from fdbqueue.service import HISTORY_MINUTES, Family, Priority, Queue, run

_MAX_MINUTES = HISTORY_MINUTES - 1  # the current minute is counted too
_PAGE_PRIORITIES = 10_000
_MOST_REASONS = 100


class Command(QueueCommand):
    help = (
        "Print how many items of queues are ready, leased, delayed and dead, how old the oldest "
        "ready item is, how many items are pushed and popped per minute, and whether a queue is "
        "blocked by an item that cannot be decoded, or paused. The counts are stored, so this "
        "costs the same however long a queue is. A pattern of the setting, such as 'user-*', is a "
        f"row with the sums of its members that have items, {MOST_MEMBERS:,} at most."
    )
    allows_closed_output = True
    examples = """\
examples:
  manage.py queue_stats
  manage.py queue_stats quakes --by-priority
  manage.py queue_stats mail --by-reason
  manage.py queue_stats --watch
  manage.py queue_stats mail --watch 10 --json
  manage.py queue_stats 'user-*'
"""

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_queues(parser)
        parser.add_argument(
            "--by-priority", action="store_true", help="Also print the ready items of each priority"
        )
        parser.add_argument(
            "--by-reason",
            action="store_true",
            help=f"Also print the dead letters of each reason, of the {_MOST_REASONS} most "
            "frequent reasons",
        )
        parser.add_argument(
            "--minutes",
            type=arguments.whole_number(most=_MAX_MINUTES),
            default=5,
            metavar="N",
            help=f"Average the rates over N minutes (default: 5, at most {_MAX_MINUTES})",
        )
        parser.add_argument(
            "--watch",
            type=arguments.positive_seconds,
            nargs="?",
            const=2.0,
            metavar="SECONDS",
            help="Print again every SECONDS (2 if not given) until Ctrl-C",
        )
        arguments.add_json(parser, each_line=True)

    def handle(self, *args: Any, **options: Any) -> None:
        seconds = options["watch"]
        if seconds is None:
            self.console.print_lines(self._lines(options))
            return
        draws = self.console.is_terminal and not options["as_json"]
        pause = threading.Event()
        with self.console.ended_by_interrupts():
            while True:
                lines = self._lines(options)
                if draws:
                    now = short_time(datetime.datetime.now(datetime.timezone.utc))
                    title = f"Every {seconds:g} s; {now} UTC; Ctrl-C ends this."
                    self.console.draw([title, "", *lines])
                else:
                    self.console.print_lines(lines)
                pause.wait(seconds)

    def _lines(self, options: dict[str, Any]) -> list[str]:
        minutes = options["minutes"] + 1
        parts = [part for part in _PARTS if options[part.name]]
        if parts and any("*" in name for name in options["names"]):
            raise usage_error(
                "--by-priority and --by-reason are of single queues, not of patterns."
            )
        queues, asked_families = self._asked(options["names"])
        families = [self._summed(family, minutes) for family in asked_families]
        rows = [_read([queue], minutes)[0] for queue in queues]
        found = [(row, {part.name: part.read(row.queue) for part in parts}) for row in rows]
        if options["as_json"]:
            return [
                *(formats.json_line(_record(row, more)) for row, more in found),
                *(formats.json_line(_family_record(row)) for row in families),
            ]
        lines = formats.table_of(STATS, self.console.look)(rows) if rows or not families else []
        if families:
            shown = formats.table_of(FAMILY_STATS, self.console.look)(families)
            lines += [*([""] if lines else []), *shown]
        for part in parts:
            cells = [
                (row.queue.name, *part.cells(one)) for row, more in found for one in more[part.name]
            ]
            if cells:
                headings = (TextColumn("NAME", "name"), *part.columns)
                lines += ["", *Table(headings, self.console.look).lines(cells)]
        return lines

    def _asked(self, names: Sequence[str]) -> tuple[list[Queue], list[Family]]:
        """Return the queues and the families with names and patterns; without any, all."""
        if not names:
            return self.listed()
        asked = self.queues_and_families(names)
        families = [one for one in asked if isinstance(one, Family)]
        return [one for one in asked if not isinstance(one, Family)], families

    def _summed(self, family: Family, minutes: int) -> FamilyRow:
        """Return the sums of the members of a family that have items, of so many at most.

        Of parts of queues, also those that have dead letters alone.
        """
        read = functools.partial(family_row, family, with_later=True)
        summed, names = run(self.catalog.database, read, read_only=True)
        rest = filter(family.has, family.names()) if family.has_parts else iter(names)
        rest = itertools.islice(rest, MOST_MEMBERS)
        while some := list(itertools.islice(rest, access.QUEUES_AT_ONCE)):
            for row in _read([self.catalog.queue(name) for name in some], minutes):
                summed.add(row)
        return summed


def _family_record(row: FamilyRow) -> dict[str, Any]:
    """Return the object for a line of JSON."""
    return {"queue": row.queue.name, **columns.record(FAMILY_STATS[1:], row)}


def _record(row: QueueRow, more: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the object for a line of JSON."""
    return {"queue": row.queue.name, **columns.record(STATS[1:], row), **more}


def _read(queues: Sequence[Queue], minutes: int) -> list[QueueRow]:
    """Read the figures of queues, with rates over some minutes, the present one included."""
    rows = [QueueRow(one, history_minutes=minutes, rate_minutes=minutes) for one in queues]
    reads = [(begin, rows) for begin in reads_of(STATS)]
    run(queues[0].database, lambda tr: fill(tr, reads), read_only=True)
    return rows


def _by_priority(queue: Queue) -> list[tuple[Priority, int]]:
    if queue.priority_type is None:
        return []
    found: list[tuple[Priority, int]] = []
    after = None
    while page := queue.by_priority(after=after, limit=_PAGE_PRIORITIES):
        found += page
        after = page[-1][0]
    return found


class _Part(NamedTuple):
    """What else is said of queues, if an option asks for it: a table of its own.

    Attributes:
        name: The option, and the field of JSON.
        columns: The columns, behind the queue's name.
        read: Returns the rows of a queue as JSON has them.
        cells: Returns the cells of a row.
    """

    name: str
    columns: tuple[TextColumn, ...]
    read: Callable[[Queue], list[Any]]
    cells: Callable[[Any], tuple[str, str]]


_PARTS = (
    _Part(
        "by_priority",
        (TextColumn("PRIORITY", "number"), TextColumn("READY", "number")),
        _by_priority,
        lambda one: (str(one[0]), f"{one[1]:,}"),
    ),
    _Part(
        "by_reason",
        (TextColumn("DEAD", "number"), TextColumn("REASON", fold="cut")),
        lambda queue: list(map(asdict, queue.dead_by_reason(limit=_MOST_REASONS))),
        lambda one: (f"{one['count']:,}", printable(one["reason"])),
    ),
)
