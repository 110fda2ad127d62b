"""``queue_list``: print the queues there are, and what they hold; or the workers."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from fdbqueue.columns import Column, record
from fdbqueue.columns.families import (
    COMMAND_FAMILY_FIGURES,
    MAX_MEMBERS,
    FamilyRow,
    family_row,
)
from fdbqueue.columns.queue_rows import BeginRead, QueueRow, begin_first, read_rows
from fdbqueue.columns.queues import COMMAND_COLUMNS, COMMAND_RATE_COLUMNS, QueueColumn, reads_of
from fdbqueue.columns.text import printable, seconds_since, timestamp
from fdbqueue.columns.workers_and_reasons import WORKER_COLUMNS
from fdbqueue.management import arguments, formats
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import usage_error
from fdbqueue.management.formats import Table, TextColumn
from fdbqueue.service import HISTORY_MINUTES, DeadReason, Family, Item, Queue, run

_MINUTES = 5
_MAX_MINUTES = HISTORY_MINUTES - 1  # the current minute is counted too
_MAX_REASONS = 100
_REASON_COLUMNS = (TextColumn("NAME"), TextColumn("DEAD", is_number=True), TextColumn("REASON"))
#: The options that ask for something of queues.
_OF_QUEUES = ("names", "rates", "minutes", "by_reason")


class Command(QueueCommand):
    help = (
        "Print queues with their counts by state, and the age of the oldest ready item. STATUS "
        "says why a queue does not move; queue_doctor says what helps. Limited tasks, and a "
        "pattern that you name, such as 'user-*', are one row each: the sums of up to "
        f"{MAX_MEMBERS:,} queues."
    )
    allows_closed_output = True
    examples = """\
examples:
  manage.py queue_list
  watch -n 2 python manage.py queue_list --rates
  manage.py queue_list mail --by-reason
  manage.py queue_list mail --rates --json
  manage.py queue_list 'user-*'
  manage.py queue_list --workers
"""

    takes = (
        arguments.QUEUES_OR_ALL,
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
        arguments.flag(
            "--by-reason",
            f"Also print the {_MAX_REASONS} most frequent reasons of dead letters",
        ),
        arguments.JSON_LINES,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        names = options["names"]
        if options["workers"] and any(options[one] for one in _OF_QUEUES):
            raise usage_error("--workers prints workers: it goes with --json alone.")
        view = _View(
            has_rates=options["rates"] or options["minutes"] is not None,
            minutes=1 + (options["minutes"] or _MINUTES),
            has_reasons=options["by_reason"],
        )
        if options["workers"]:
            self.console.print_lines(self._workers())
        elif self.console.as_json:
            self.console.print_lines(self._json_lines(names, view))
        else:
            self.console.print_lines(self._table_lines(names, view))

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
            line = _line(view.columns, row)
            if view.has_reasons:
                line["by_reason"] = list(map(asdict, _reasons(row.queue)))
            if not view.has_rates:
                line["head"] = row.first and _head(row.first)
            yield formats.json_line(line)
        for family in families:
            yield formats.json_line(_line(COMMAND_FAMILY_FIGURES, family))

    def _table_lines(self, names: Sequence[str], view: _View) -> Iterator[str]:
        queues, families = self._named(names, view)
        rows = list(self._rows(queues, view, reads_of(view.columns)))
        yield from formats.table_of(view.columns, self.console.paint)(rows)
        summed = list(families)
        if not rows and not summed:
            yield "There are no queues."
        if summed:
            sums = formats.table_of(COMMAND_FAMILY_FIGURES, self.console.paint)(summed)
            yield from ["", *sums] if rows else sums
        if view.has_reasons:
            cells = [
                (row.queue.name, f"{one.count:,}", printable(one.reason))
                for row in rows
                for one in _reasons(row.queue)
            ]
            if cells:
                yield from ["", *Table(_REASON_COLUMNS, self.console.paint).lines(cells)]

    def _named(self, names: Sequence[str], view: _View) -> tuple[list[Queue], Iterator[FamilyRow]]:
        """Return the queues and the families to print; all queues if there are no names."""
        patterns = dict.fromkeys(name for name in names if "*" in name)
        if patterns and view.has_reasons:
            raise usage_error("--by-reason is of single queues, not of patterns.")
        if not names:
            queues, families = self.listed()
        else:
            queues = [self.queue(name) for name in dict.fromkeys(names) if name not in patterns]
            families = [self.family(name) for name in patterns]
        return queues, (self._summed(family, view) for family in families)

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


def _reasons(queue: Queue) -> list[DeadReason]:
    return queue.dead_by_reason(limit=_MAX_REASONS)


def _line(described: Sequence[Column[Any]], row: Any) -> dict[str, Any]:
    """Return the object for a line of JSON."""
    return {"name": row.queue.name, **record(described[1:], row)}


class _View(NamedTuple):
    """What is asked for.

    Attributes:
        has_rates: Whether rates are listed.
        minutes: Over how many minutes they are means, the present one included.
        has_reasons: Whether the reasons of dead letters are, too.
    """

    has_rates: bool
    minutes: int
    has_reasons: bool

    @property
    def columns(self) -> tuple[QueueColumn, ...]:
        return COMMAND_RATE_COLUMNS if self.has_rates else COMMAND_COLUMNS
