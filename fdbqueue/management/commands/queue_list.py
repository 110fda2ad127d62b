"""``queue_list``: print the queues there are."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

from django.core.management.base import CommandParser

from fdbqueue.management import arguments, formats, pauses, status
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.tables import Column, Table
from fdbqueue.service import Ends, Item, Pause, Queue, run

COLUMNS = (
    Column("NAME", "name"),
    Column("KIND"),
    Column("CODEC"),
    Column("PRIORITIES"),
    Column("HEAD", "number"),
    Column("AGE", "number"),
    status.COLUMN,
)


class Command(QueueCommand):
    help = (
        "Print the queues: those that the setting names, and those that match one of its patterns "
        "and have been pushed to. HEAD is the priority of the item that queue_pop would take, AGE "
        "how long ago that item was pushed. STATUS says at which ends the queue is blocked by an "
        "item that cannot be decoded, and for how long it has been paused, and why."
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
        now = datetime.datetime.now(datetime.timezone.utc)
        queues = [(queue, _look(queue)) for queue in self.catalog.queues()]
        if options["as_json"]:
            lines = [formats.json_line(_record(*each, now)) for each in queues]
        else:
            table = Table(COLUMNS, self.console.look)
            lines = table.lines(_row(*each, now) for each in queues)
        self.console.print_lines(lines)


class _Look(NamedTuple):
    """What a queue shows: its first item, even one that cannot be decoded, and its status."""

    head: Item | None
    ends: Ends
    pause: Pause | None


def _look(queue: Queue) -> _Look:
    """Read what is listed of a queue, in one transaction."""

    def read(tr: Any) -> _Look:
        pause, ends = queue.overview.begin_pause(tr), queue.overview.begin_ends(tr)
        return _Look(next(iter(queue.page(limit=1, tr=tr).items), None), ends(), pause())

    return run(queue.database, read, read_only=True)


def _record(queue: Queue, look: _Look, now: datetime.datetime) -> dict[str, Any]:
    head = look.head
    return {
        "name": queue.name,
        "kind": queue.kind,
        "codec": queue.codec.name,
        "priority_type": queue.priority_type,
        "head": head
        and {
            "id": head.id,
            "priority": head.priority,
            "pushed_at": formats.timestamp(head.pushed_at),
            "age_seconds": _age_seconds(head, now),
        },
        "blocked": look.ends.undecodable,
        "paused": pauses.record(look.pause),
    }


def _row(queue: Queue, look: _Look, now: datetime.datetime) -> tuple[str, ...]:
    head = look.head
    seconds = None if head is None else _age_seconds(head, now)
    return (
        queue.name,
        queue.kind,
        queue.codec.name,
        formats.or_dash(queue.priority_type),
        "empty" if head is None else formats.or_dash(head.priority),
        "-" if seconds is None else formats.age(seconds),
        status.cell(look.ends, look.pause),
    )


def _age_seconds(item: Item, now: datetime.datetime) -> float | None:
    return None if item.pushed_at is None else (now - item.pushed_at).total_seconds()
