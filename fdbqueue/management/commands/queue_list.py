"""``queue_list``: print the queues there are, and what they hold; or the workers."""

from __future__ import annotations

import datetime
import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from fdbqueue.columns import Column, record
from fdbqueue.columns.families import (
    COMMAND_FAMILY_COLUMNS,
    COMMAND_FAMILY_FIGURES,
    MAX_MEMBERS,
    FamilyRow,
    family_row,
)
from fdbqueue.columns.queue_rows import BeginRead, QueueRow, begin_first, read_rows
from fdbqueue.columns.queues import COMMAND_COLUMNS, COMMAND_RATE_COLUMNS, QueueColumn, reads_of
from fdbqueue.columns.text import printable, seconds_since, short_time, timestamp
from fdbqueue.columns.workers_and_reasons import WORKER_COLUMNS
from fdbqueue.management import arguments, formats
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import usage_error
from fdbqueue.management.formats import Table, TextColumn
from fdbqueue.service import HISTORY_MINUTES, Family, Item, Priority, Queue, run

_MINUTES = 5
_MAX_MINUTES = HISTORY_MINUTES - 1  # the current minute is counted too
_PAGE_PRIORITIES = 10_000
_MAX_REASONS = 100
#: The options that ask for something of queues.
_OF_QUEUES = ("names", "family", "rates", "minutes", "by_priority", "by_reason")


class Command(QueueCommand):
    help = (
        "Print queues with their counts by state, and the age of the oldest ready item. STATUS "
        "says whether a queue is paused, has an end that is blocked by an item that cannot be "
        "decoded, or has tasks that wait without a worker. Limited tasks, and a pattern that "
        "you name, such as 'user-*', are one row each: the sums of up to "
        f"{MAX_MEMBERS:,} queues that have items."
    )
    allows_closed_output = True
    examples = """\
examples:
  manage.py queue_list
  manage.py queue_list --rates --watch
  manage.py queue_list quakes --by-priority
  manage.py queue_list mail --by-reason
  manage.py queue_list mail --rates --watch 10 --json
  manage.py queue_list 'user-*'
  manage.py queue_list --family
  manage.py queue_list --workers --watch
"""

    takes = (
        arguments.QUEUES_OR_ALL,
        arguments.flag(
            "--family",
            "Print the families instead: how many members of each pattern have something to take "
            f"now, counted up to {MAX_MEMBERS:,}",
        ),
        arguments.flag(
            "--workers",
            "Print the workers of tasks and queue_work instead, alive or lost within an hour",
        ),
        arguments.flag(
            "--rates",
            "Print pushes and pops per minute, in place of the kind, codec and priorities",
        ),
        arguments.Argument(
            "--minutes",
            type=arguments.whole_number(most=_MAX_MINUTES),
            metavar="N",
            help=f"Print the rates, averaged over N minutes (default: {_MINUTES}, at most "
            f"{_MAX_MINUTES})",
        ),
        arguments.flag("--by-priority", "Also print the ready items of each priority"),
        arguments.flag(
            "--by-reason",
            f"Also print the {_MAX_REASONS} most frequent reasons of dead letters",
        ),
        arguments.Argument(
            "--watch",
            type=arguments.positive_seconds,
            nargs="?",
            const=2.0,
            metavar="SECONDS",
            help="Print again every SECONDS (2 if not given) until Ctrl-C",
        ),
        arguments.JSON_LINES,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        names, as_json, seconds = options["names"], self.console.as_json, options["watch"]
        if options["workers"] and any(options[one] for one in _OF_QUEUES):
            raise usage_error("--workers prints workers: it goes with --watch and --json alone.")
        if options["family"] and names:
            raise usage_error("--family prints all families; a pattern's name, its sums.")
        view = _View(
            is_of_families=options["family"],
            has_rates=options["rates"] or options["minutes"] is not None,
            minutes=1 + (options["minutes"] or _MINUTES),
            parts=[part for part in _PARTS if options[part.name]],
        )
        lines = self._json_lines if as_json else self._table_lines
        read: Callable[[], Iterable[str]] = functools.partial(lines, names, view)
        if options["workers"]:
            read = self._workers
        if seconds is None:
            self.console.print_lines(read())
        else:
            self._watch(read, seconds, draws=self.console.is_terminal and not as_json)

    def _watch(self, read: Callable[[], Iterable[str]], seconds: float, *, draws: bool) -> None:
        """Print again and again, at a terminal each time over what was printed before."""
        pause = threading.Event()
        with self.console.ended_by_interrupts():
            while True:
                lines = list(read())
                if draws:
                    now = short_time(datetime.datetime.now(datetime.timezone.utc))
                    title = f"Every {seconds:g} s; {now} UTC; Ctrl-C ends this."
                    self.console.draw([title, "", *lines])
                else:
                    self.console.print_lines(lines)
                pause.wait(seconds)

    def _workers(self) -> list[str]:
        """Return the lines of the workers, the living ones first."""
        found = self.catalog.presences.read()
        if not found.is_complete:
            self.console.note("There are more workers than were read.")
        if self.console.as_json:
            return [formats.json_line(record(WORKER_COLUMNS, row)) for row in found.rows]
        if not found.rows:
            return ["No worker is alive, and none was lost in the last hour."]
        return formats.table_of(WORKER_COLUMNS, self.console.paint)(found.rows)

    def _json_lines(self, names: Sequence[str], view: _View) -> Iterator[str]:
        queues, families = self._named(names, view)
        reads = [*reads_of(view.columns), *([] if view.has_rates else [begin_first])]
        for row in self._rows(queues, view, reads):
            more: dict[str, Any] = {part.name: part.read(row.queue) for part in view.parts}
            if not view.has_rates:
                more["head"] = row.first and _head(row.first)
            yield formats.json_line({**view.record(view.columns, row), **more})
        for family in families:
            yield formats.json_line(view.record(view.family_columns, family))

    def _table_lines(self, names: Sequence[str], view: _View) -> Iterator[str]:
        queues, families = self._named(names, view)
        rows = list(self._rows(queues, view, reads_of(view.columns)))
        yield from formats.table_of(view.columns, self.console.paint)(rows)
        summed = list(families)
        if not rows and not summed:
            yield "There are no families." if view.is_of_families else "There are no queues."
        if summed:
            sums = formats.table_of(view.family_columns, self.console.paint)(summed)
            yield from ["", *sums] if rows else sums
        for part in view.parts:
            cells = [
                (row.queue.name, *part.cells(one)) for row in rows for one in part.read(row.queue)
            ]
            if cells:
                headings = (TextColumn("NAME"), *part.columns)
                yield from ["", *Table(headings, self.console.paint).lines(cells)]

    def _named(self, names: Sequence[str], view: _View) -> tuple[list[Queue], Iterator[FamilyRow]]:
        """Return the queues and the families to print; all queues if there are no names."""
        if view.is_of_families:
            return [], self._families()
        patterns = dict.fromkeys(name for name in names if "*" in name)
        if patterns and view.parts:
            raise usage_error(
                "--by-priority and --by-reason are of single queues, not of patterns."
            )
        if not names:
            queues, families = self.listed()
        else:
            queues = [self.queue(name) for name in dict.fromkeys(names) if name not in patterns]
            families = [self.family(name) for name in patterns]
        return queues, (self._summed(family, view) for family in families)

    def _families(self) -> Iterator[FamilyRow]:
        """Yield the row of each family."""
        for family in self.families_there():
            read = functools.partial(family_row, family)
            yield run(self.catalog.database, read, read_only=True)[0]

    def _summed(self, family: Family, view: _View) -> FamilyRow:
        """Add up the members of a family that have items, at most MAX_MEMBERS of them.

        Of parts of queues, also those that have dead letters alone.
        """
        read = functools.partial(family_row, family, with_later=True)
        summed, busy = run(self.catalog.database, read, read_only=True)
        names = filter(family.has, family.names()) if family.has_parts else iter(busy)
        members = map(self.catalog.queue, itertools.islice(names, MAX_MEMBERS))
        for row in self._rows(members, view, reads_of(COMMAND_RATE_COLUMNS)):
            summed.add(row)
        return summed

    def _rows(
        self, queues: Iterable[Queue], view: _View, reads: Iterable[BeginRead]
    ) -> Iterator[QueueRow]:
        """Yield the facts of each queue."""
        minutes = {"history_minutes": view.minutes, "rate_minutes": view.minutes}
        return read_rows(self.catalog.database, queues, reads, **minutes)


def _head(item: Item) -> dict[str, Any]:
    at = item.pushed_at
    return {
        "id": item.id,
        "priority": item.priority,
        "pushed_at": at and timestamp(at),
        "age_seconds": at and seconds_since(at),
    }


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
    """A table of its own that an option asks for.

    Attributes:
        name: The option, and the field of JSON.
        columns: The columns after the queue's name.
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
        (TextColumn("PRIORITY", is_number=True), TextColumn("READY", is_number=True)),
        _by_priority,
        lambda one: (str(one[0]), f"{one[1]:,}"),
    ),
    _Part(
        "by_reason",
        (TextColumn("DEAD", is_number=True), TextColumn("REASON")),
        lambda queue: list(map(asdict, queue.dead_by_reason(limit=_MAX_REASONS))),
        lambda one: (f"{one['count']:,}", printable(one["reason"])),
    ),
)


class _View(NamedTuple):
    """What is asked for.

    Attributes:
        is_of_families: Whether families are listed in place of queues.
        has_rates: Whether rates are.
        minutes: Over how many minutes they are means, the present one included.
        parts: What else is printed of each queue.
    """

    is_of_families: bool
    has_rates: bool
    minutes: int
    parts: Sequence[_Part]

    @property
    def columns(self) -> tuple[QueueColumn, ...]:
        return COMMAND_RATE_COLUMNS if self.has_rates else COMMAND_COLUMNS

    @property
    def family_columns(self) -> tuple[Column[Any], ...]:
        return COMMAND_FAMILY_COLUMNS if self.is_of_families else COMMAND_FAMILY_FIGURES

    def record(self, described: Sequence[Column[Any]], row: Any) -> dict[str, Any]:
        """Return the object for a line of JSON."""
        return {"name": row.queue.name, **record(described[1:], row)}
