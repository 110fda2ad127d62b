"""``queue_push``: push NDJSON into a queue."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import Any, BinaryIO

from django.core.management.base import CommandError, CommandParser

from fdbqueue.exceptions import FdbQueueError, InvalidInput, InvalidPriority
from fdbqueue.management import ndjson, rendering
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exits import USAGE, OutputFailed, command_error
from fdbqueue.management.interrupts import held_interrupts
from fdbqueue.service import Queue


class Command(QueueCommand):
    help = (
        "Push NDJSON, one JSON value a line, into a queue. In a queue of bytes each value is "
        "a string holding base64. Blank lines are skipped; a bad line stops the command."
    )
    examples = """\
examples:
  manage.py queue_push mail letters.ndjson
  manage.py queue_push quakes quakes.ndjson --priority-field magnitude
  echo '{"place": "Hualian"}' | manage.py queue_push quakes --priority 6.4
"""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the queue's name")
        parser.add_argument(
            "file", metavar="FILE", nargs="?", default="-", help="default: -, standard input"
        )
        priorities = parser.add_mutually_exclusive_group()
        priorities.add_argument(
            "--priority", type=_number, metavar="N", help="the priority of all (default 0)"
        )
        priorities.add_argument(
            "--priority-field",
            metavar="FIELD",
            help="the field that holds an item's priority; a dot leads into an object: a.b",
        )
        parser.add_argument(
            "--json", action="store_true", dest="as_json", help="print the result as JSON"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name, priority, field = options["name"], options["priority"], options["priority_field"]
        queue = self.queue(name)
        _check_usage(queue, priority, field)
        with self._opened(options["file"]) as stream, held_interrupts() as interrupts:
            lines = ndjson.Lines(stream, interrupts)
            pushed = _push(queue, ndjson.Items(queue, lines, priority or 0, field), field)
        text = f"Pushed {pushed} items into {name!r}."
        try:
            result = rendering.json_line({"queue": name, "pushed": pushed})
            self.emit([result if options["as_json"] else text])
        except OutputFailed as error:
            raise command_error(error, f"{text} {error}.") or error from error

    def _opened(self, file: str) -> contextlib.AbstractContextManager[BinaryIO]:
        if file != "-":
            try:
                return open(file, "rb")
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise CommandError(f"The file {file!r} cannot be read: {reason}.") from error
        if sys.stdin is None:
            raise CommandError("Standard input is closed.")
        if sys.stdin.isatty():
            self.note("Reading JSON lines from standard input; Ctrl-D ends them.")
        return contextlib.nullcontext(sys.stdin.buffer)


def _push(queue: Queue, items: ndjson.Items, field: str | None) -> int:
    try:
        return queue.push_many(items)
    except FdbQueueError as error:
        if isinstance(error, InvalidPriority) and field is None:
            message = f"--priority: {error.context['reason']}."
            raise CommandError(message, returncode=USAGE) from error
        raise command_error(error, items.explain(error)) or error from error


def _check_usage(queue: Queue, priority: float | None, field: str | None) -> None:
    if queue.kind == "fifo" and (priority is not None or field is not None):
        message = f"{queue.name!r} is a FIFO queue: it takes no --priority or --priority-field."
        raise CommandError(message, returncode=USAGE)
    if field is not None and queue.codec.name == "bytes":
        message = f"{queue.name!r} is a queue of bytes, which have no --priority-field."
        raise CommandError(message, returncode=USAGE)


def _number(text: str) -> int | float:
    try:
        number = ndjson.parse(text)
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from error
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return number
