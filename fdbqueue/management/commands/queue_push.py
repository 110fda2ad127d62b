"""``queue_push``: push NDJSON into a queue."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
import sys
from collections.abc import Callable
from io import BufferedReader
from typing import Any, cast

from django.core.management.base import CommandError

from fdbqueue.columns.text import counted
from fdbqueue.management import arguments, ndjson
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.console import ProgressMeter
from fdbqueue.management.exit_codes import failure, usage_error
from fdbqueue.management.formats import item_count
from fdbqueue.management.signals import defer_interrupts
from fdbqueue.service import UNIQUE_WHILE, Queue
from fdbqueue.service.tools.keyed_push import KeyedPush

#: Further bad lines are only counted.
_SHOWN_BAD_LINES = 20


class Command(QueueCommand):
    help = (
        "Push NDJSON, one JSON value per line, into a queue. In a queue of bytes each value is a "
        "string with base64. A bad line stops the command."
    )
    examples = """\
examples:
  manage.py queue_push mail letters.ndjson
  manage.py queue_push mail letters.ndjson --resume
  manage.py queue_push quakes quakes.ndjson --priority-field mag --continue
  echo '{"place": "Hualian"}' | manage.py queue_push quakes --priority 6.4
  manage.py queue_push quakes drained.ndjson --items
  zcat letters.ndjson.gz | manage.py queue_push mail --job letters --resume
  echo '{"report": "daily"}' | manage.py queue_push mail --unique daily-report
"""

    takes = (
        arguments.QUEUE,
        arguments.Argument(
            "file",
            metavar="FILE",
            nargs="?",
            default="-",
            help="File to read (default: -, standard input)",
        ),
        arguments.OneOf(
            arguments.Argument(
                "--priority",
                type=arguments.json_number,
                metavar="N",
                help="Priority of all items (default: 0; with --items each keeps its own)",
            ),
            arguments.Argument(
                "--priority-field",
                metavar="FIELD",
                help="Take each item's priority from this field; a.b is the field b of the object "
                "a",
            ),
        ),
        arguments.OneOf(
            arguments.Argument(
                "--items",
                action="store_const",
                const="items",
                dest="form",
                help="The lines are items, as queue_drain and --json print them",
            ),
            arguments.Argument(
                "--values",
                action="store_const",
                const="values",
                dest="form",
                help="Push lines that look like items as values; otherwise they are refused",
            ),
        ),
        arguments.flag(
            "--continue",
            "Skip and count bad lines; the exit code is 1 if there were any",
            dest="continues",
        ),
        arguments.flag(
            "--resume",
            "Push each line once, however often the command is repeated within a week: continue "
            "where an earlier one stopped",
        ),
        arguments.Argument(
            "--job",
            metavar="TEXT",
            help="Name of the push, by which --resume finds it (default: the file's path)",
        ),
        arguments.Argument(
            "--unique",
            type=arguments.unique_key,
            metavar="KEY",
            help="Push the only value of the input, unless an item of the queue has this unique "
            "key: then print the id of that item",
        ),
        arguments.Argument(
            "--unique-while",
            choices=UNIQUE_WHILE,
            help="How long the item has the unique key: until it is done, dead or removed "
            "(pending, the default), or until it is popped or leased (ready)",
        ),
        arguments.JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        given = argparse.Namespace(**options)
        queue = self.queue(given.name)
        _check_usage(queue, given)
        if given.unique is not None:
            self._push_unique(queue, given)
            return
        self._skipped = 0
        with self._opened(given.file) as stream:
            pushed = self._push(queue, stream, given)
        record = {"queue": queue.name, "pushed": pushed}
        if given.continues:
            record["skipped"] = self._skipped
        text = f"Pushed {item_count(pushed)} into {queue.name!r}."
        self.console.report(record, text)
        if self._skipped:
            raise failure(f"Skipped {counted(self._skipped, 'bad line')}.")

    def _push(self, queue: Queue, stream: BufferedReader, given: argparse.Namespace) -> int:
        push = KeyedPush(queue, _job(given) if given.resume else None)
        begun = push.reached
        draws = given.file != "-" or not sys.stdin.isatty()  # else lines are typed there
        with (
            defer_interrupts() as interrupts,
            self.console.progress_meter(None, overwrites=draws) as progress,
        ):
            lines = ndjson.Lines(queue, stream, interrupts)
            items = ndjson.Items(
                queue,
                lines,
                given.priority,
                given.priority_field,
                form=given.form,
                skipped=self._skip if given.continues else None,
                pushed=begun.pushed,
            )
            with items.explain_errors(lambda: push.reached.lines):
                if begun.lines:
                    lines.skip(begun)
                    self.console.note(
                        f"Resuming after line {begun.lines:,}: {item_count(begun.pushed)} "
                        "pushed before."
                    )
                return push.push_all(items, pushed=_reporter(progress, lines, stream))

    def _push_unique(self, queue: Queue, given: argparse.Namespace) -> None:
        with self._opened(given.file) as stream, defer_interrupts() as interrupts:
            lines = ndjson.Lines(queue, stream, interrupts)
            items = ndjson.Items(
                queue, lines, given.priority, given.priority_field, form=given.form
            )
            with items.explain_errors():
                value, priority = items.only()
                item = queue.push(
                    value,
                    priority,
                    unique=given.unique,
                    unique_while=given.unique_while or "pending",
                )
        record = {"pushed": int(not item.existing), "existing": item.existing, "id": item.id}
        text = f"Pushed 1 item into {queue.name!r}."
        if item.existing:
            text = (
                f"Pushed nothing: {queue.name!r} has an item with this unique key, {item.id}, "
                f"which is {item.state}."
            )
        self.console.report({"queue": queue.name, **record}, text)

    def _skip(self, reason: str) -> None:
        self._skipped += 1
        if self._skipped <= _SHOWN_BAD_LINES:
            self.console.note(f"{reason}. Skipped.")
        if self._skipped == _SHOWN_BAD_LINES:
            self.console.note("Further bad lines are counted, but not shown.")

    def _opened(self, file: str) -> contextlib.AbstractContextManager[BufferedReader]:
        if file != "-":
            try:
                return open(file, "rb")
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                message = f"The file {file!r} cannot be read: {reason}."
                if isinstance(error, FileNotFoundError):
                    message += " To push a value itself, write it to standard input."
                raise CommandError(message) from error
        if sys.stdin is None:
            raise CommandError("Standard input is closed.")
        if sys.stdin.isatty():
            self.console.note("Reading JSON lines from standard input; press Ctrl-D to end.")
        return contextlib.nullcontext(cast("BufferedReader", sys.stdin.buffer))


def _reporter(
    progress: ProgressMeter, lines: ndjson.Lines, stream: BufferedReader
) -> Callable[[int], None]:
    """Return a function that counts pushed items; a file's total follows from its size."""
    begun_bytes = lines.size_bytes
    left_bytes = _size_of(stream) - begun_bytes

    def report(count: int) -> None:
        progress.advance(count)
        if left_bytes > 0:
            read = min(1.0, (lines.size_bytes - begun_bytes) / left_bytes)
            progress.expect(round(progress.done / read))

    return report


def _size_of(stream: BufferedReader) -> int:
    """Return the size of a file, 0 for what is not a file."""
    try:
        found = os.fstat(stream.fileno())
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _job(given: argparse.Namespace) -> str | None:
    """Return the name by which ``--resume`` finds the push."""
    if given.job is not None:
        return f"job {given.job}"
    path = os.path.realpath(given.file)
    return f"file {path}" if given.file != "-" and os.path.isfile(path) else None


def _check_usage(queue: Queue, given: argparse.Namespace) -> None:
    name, field = queue.name, given.priority_field
    message = None
    if queue.priority_type is None and (given.priority is not None or field is not None):
        message = f"{name!r} is a FIFO queue: --priority and --priority-field cannot be used."
    elif field is not None and queue.codec.holds == "bytes":
        message = f"{name!r} is a queue of bytes, which have no fields for --priority-field."
    elif field is not None and given.form == "items":
        message = "Items have their own priorities: --priority-field cannot be used with --items."
    elif given.resume and _job(given) is None:
        message = "--resume needs a file, or a --job that names the push."
    elif given.job is not None and not given.resume:
        message = "--job names the push for --resume: use both."
    elif given.unique is None and given.unique_while is not None:
        message = "--unique-while needs --unique."
    elif given.unique is not None:
        others = {"--items": given.form == "items", "--continue": given.continues}
        others |= {"--resume": given.resume}
        used = [name for name, is_used in others.items() if is_used]
        message = f"--unique pushes one value: {used[0]} cannot be used." if used else None
    if message:
        raise usage_error(message)
