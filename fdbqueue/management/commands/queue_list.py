"""``queue_list``: print the queues there are."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.core.management.base import CommandParser

from fdbqueue.management import arguments, formats
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.formats import Column, Table
from fdbqueue.service import Ends, Item, Pause, Queue, run

COLUMNS = (
    Column("NAME", "name"),
    Column("KIND"),
    Column("CODEC"),
    Column("PRIORITIES"),
    Column("HEAD", "number"),
    Column("AGE", "number"),
    formats.STATUS,
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
        queues = [_listed(queue) for queue in self.catalog.queues()]
        if options["as_json"]:
            lines = [formats.json_line(each.record()) for each in queues]
        else:
            lines = Table(COLUMNS, self.console.look).lines(each.row() for each in queues)
        self.console.print_lines(lines)


class _Listed(NamedTuple):
    """What is listed of a queue: its first item, decodable or not, and its status."""

    queue: Queue
    head: Item | None
    ends: Ends
    pause: Pause | None

    def record(self) -> dict[str, Any]:
        """Return the object for a line of JSON."""
        queue, head = self.queue, self.head
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
                "age_seconds": head.pushed_at and formats.seconds_since(head.pushed_at),
            },
            **formats.status_record(self.ends, self.pause),
        }

    def row(self) -> tuple[str, ...]:
        """Return the row for :data:`COLUMNS`."""
        queue, head = self.queue, self.head
        return (
            queue.name,
            queue.kind,
            queue.codec.name,
            formats.or_dash(queue.priority_type),
            "empty" if head is None else formats.or_dash(head.priority),
            "-" if head is None else formats.age_of(head.pushed_at),
            formats.status_cell(self.ends, self.pause),
        )


def _listed(queue: Queue) -> _Listed:
    """Read what is listed of a queue, in one transaction."""

    def read(tr: Any) -> _Listed:
        pause, ends = queue.overview.begin_pause(tr), queue.overview.begin_ends(tr)
        head = next(iter(queue.page(limit=1, tr=tr).items), None)
        return _Listed(queue, head, ends(), pause())

    return run(queue.database, read, read_only=True)
