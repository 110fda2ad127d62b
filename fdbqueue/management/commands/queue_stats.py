"""``queue_stats``: print the counts, the age and the rates of queues."""

from __future__ import annotations

import dataclasses
import datetime
import threading
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.management import arguments, formats
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.formats import Column, Painted, Table
from fdbqueue.service import (
    HISTORY_MINUTES,
    Counts,
    DeadReason,
    Ends,
    Minute,
    Pause,
    Priority,
    Queue,
    run,
)

COLUMNS = (
    Column("NAME", "name"),
    *(Column(name, "number") for name in ("READY", "LEASED", "DELAYED", "DEAD", "OLDEST")),
    Column("PUSHES/MIN", "number"),
    Column("POPS/MIN", "number"),
    formats.STATUS,
)
PRIORITY_COLUMNS = (
    Column("NAME", "name"),
    Column("PRIORITY", "number"),
    Column("READY", "number"),
)
REASON_COLUMNS = (
    Column("NAME", "name"),
    Column("DEAD", "number"),
    Column("REASON", fold="cut"),
)

_MAX_MINUTES = HISTORY_MINUTES - 1  # the current minute is counted too
_PAGE_PRIORITIES = 10_000
_MOST_REASONS = 100


class Command(QueueCommand):
    help = (
        "Print how many items of queues are ready, leased, delayed and dead, how old the oldest "
        "ready item is, how many items are pushed and popped per minute, and whether a queue is "
        "blocked by an item that cannot be decoded, or paused. The counts are stored, so this "
        "costs the same however long a queue is."
    )
    allows_closed_output = True
    examples = """\
examples:
  manage.py queue_stats
  manage.py queue_stats quakes --by-priority
  manage.py queue_stats mail --by-reason
  manage.py queue_stats --watch
  manage.py queue_stats mail --watch 10 --json
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
            type=arguments.seconds,
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
                    now = formats.short_time(datetime.datetime.now(datetime.timezone.utc))
                    title = f"Every {seconds:g} s; {now} UTC; Ctrl-C ends this."
                    self.console.draw([title, "", *lines])
                else:
                    self.console.print_lines(lines)
                pause.wait(seconds)

    def _lines(self, options: dict[str, Any]) -> list[str]:
        stats = [
            queue_stats(
                queue,
                by_priority=options["by_priority"],
                by_reason=options["by_reason"],
                minutes=options["minutes"],
            )
            for queue in self.queues(options["names"])
        ]
        if options["as_json"]:
            return [formats.json_line(each.record()) for each in stats]
        return self._tables(stats)

    def _tables(self, stats: list[QueueStats]) -> list[str]:
        look = self.console.look
        lines = Table(COLUMNS, look).lines(each.row() for each in stats)
        by_priority = [row for each in stats for row in each.priority_rows()]
        if by_priority:
            lines += ["", *Table(PRIORITY_COLUMNS, look).lines(by_priority)]
        by_reason = [row for each in stats for row in each.reason_rows()]
        if by_reason:
            lines += ["", *Table(REASON_COLUMNS, look).lines(by_reason)]
        return lines


@dataclasses.dataclass(frozen=True)
class QueueStats:
    """The counts, the age and the rates of one queue.

    Attributes:
        queue: The queue's name.
        counts: How many items are in each state.
        oldest: When the oldest ready item was pushed, if that is known.
        pushes_a_minute: How many items were pushed.
        pops_a_minute: How many items were popped, or leased and acknowledged.
        ends: At which ends the queue is blocked by an item that cannot be decoded.
        pause: Since when and why the queue is paused, None if it is not.
        by_priority: The number of ready items of each priority, if requested.
        by_reason: The number of dead letters of each reason, if requested.
    """

    queue: str
    counts: Counts
    oldest: datetime.datetime | None
    pushes_a_minute: float
    pops_a_minute: float
    ends: Ends
    pause: Pause | None
    by_priority: list[tuple[Priority, int]] | None
    by_reason: list[DeadReason] | None

    def record(self) -> dict[str, Any]:
        """Return the object for a line of JSON."""
        record: dict[str, Any] = {
            "queue": self.queue,
            **dataclasses.asdict(self.counts),
            "oldest": formats.timestamp(self.oldest),
            "age_seconds": self.oldest and formats.seconds_since(self.oldest),
            "pushes_a_minute": round(self.pushes_a_minute, 2),
            "pops_a_minute": round(self.pops_a_minute, 2),
            **formats.status_record(self.ends, self.pause),
        }
        if self.by_priority is not None:
            record["by_priority"] = self.by_priority
        if self.by_reason is not None:
            record["by_reason"] = [dataclasses.asdict(one) for one in self.by_reason]
        return record

    def row(self) -> tuple[str, ...]:
        """Return the row for :data:`COLUMNS`."""
        counts = self.counts
        return (
            self.queue,
            *(f"{number:,}" for number in (counts.ready, counts.leased, counts.delayed)),
            Painted.of(f"{counts.dead:,}", "ERROR" if counts.dead else None),
            formats.age_of(self.oldest),
            f"{self.pushes_a_minute:,.1f}",
            f"{self.pops_a_minute:,.1f}",
            formats.status_cell(self.ends, self.pause),
        )

    def priority_rows(self) -> list[tuple[str, ...]]:
        """Return a row for :data:`PRIORITY_COLUMNS` for each priority."""
        return [(self.queue, str(level), f"{number:,}") for level, number in self.by_priority or ()]

    def reason_rows(self) -> list[tuple[str, ...]]:
        """Return a row for :data:`REASON_COLUMNS` for each reason."""
        found = self.by_reason or ()
        return [(self.queue, f"{one.count:,}", formats.visible(one.reason)) for one in found]


def queue_stats(queue: Queue, *, by_priority: bool, by_reason: bool, minutes: int) -> QueueStats:
    """Read the counts, the age and the rates of a queue.

    Args:
        queue: The queue.
        by_priority: Whether to read the counts of each priority.
        by_reason: Whether to read the counts of dead letters by reason.
        minutes: Over how many minutes the rates are, besides the current one.
    """

    def read(tr: Any) -> tuple[Counts, datetime.datetime | None, list[Minute], Ends, Pause | None]:
        begin = queue.overview
        counts, history = begin.begin_counts(tr), begin.begin_history(tr, minutes + 1)
        ends, pause, oldest = begin.begin_ends(tr), begin.begin_pause(tr), begin.begin_oldest(tr)
        return counts(), oldest()(), history(), ends(), pause()

    counts, oldest, history, ends, pause = run(queue.database, read, read_only=True)
    passed = minutes + max(0.0, formats.seconds_since(history[-1].at) / 60)
    return QueueStats(
        queue=queue.name,
        counts=counts,
        oldest=oldest,
        pushes_a_minute=_total(history, "pushes") / passed,
        pops_a_minute=_total(history, "pops") / passed,
        ends=ends,
        pause=pause,
        by_priority=_by_priority(queue) if by_priority else None,
        by_reason=queue.dead_by_reason(limit=_MOST_REASONS) if by_reason else None,
    )


def _total(history: list[Minute], what: str) -> int:
    return sum(getattr(minute, what) for minute in history)


def _by_priority(queue: Queue) -> list[tuple[Priority, int]]:
    if queue.priority_type is None:
        return []
    found: list[tuple[Priority, int]] = []
    after = None
    while page := queue.by_priority(after=after, limit=_PAGE_PRIORITIES):
        found += page
        after = page[-1][0]
    return found
