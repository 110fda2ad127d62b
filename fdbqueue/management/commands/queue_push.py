"""``queue_push``: push NDJSON into a queue."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from django.core.management.base import CommandError, CommandParser

from fdbqueue.exceptions import FdbQueueError
from fdbqueue.management import ndjson
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exits import FAILED, USAGE, command_error
from fdbqueue.management.interrupts import held_interrupts
from fdbqueue.management.progress import Progress, terminal_bar
from fdbqueue.management.prompts import items
from fdbqueue.service import Load, Queue

#: So many bad lines are told of one by one.
_TOLD_LINES = 20


class Command(QueueCommand):
    help = (
        "Push NDJSON, one JSON value a line, into a queue. In a queue of bytes each value is "
        "a string holding base64. Blank lines are skipped; a bad line stops the command."
    )
    examples = """\
examples:
  manage.py queue_push mail letters.ndjson
  manage.py queue_push mail letters.ndjson --resume
  manage.py queue_push quakes quakes.ndjson --priority-field magnitude --continue
  echo '{"place": "Hualian"}' | manage.py queue_push quakes --priority 6.4
  manage.py queue_push quakes drained.ndjson --items
  zcat letters.ndjson.gz | manage.py queue_push mail --job letters --resume
"""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the queue's name")
        parser.add_argument(
            "file", metavar="FILE", nargs="?", default="-", help="default: -, standard input"
        )
        priorities = parser.add_mutually_exclusive_group()
        priorities.add_argument(
            "--priority", type=ndjson.number, metavar="N", help="the priority of all (default 0)"
        )
        priorities.add_argument(
            "--priority-field",
            metavar="FIELD",
            help="the field that holds an item's priority; a dot leads into an object: a.b",
        )
        forms = parser.add_mutually_exclusive_group()
        forms.add_argument(
            "--items",
            action="store_const",
            const="items",
            dest="form",
            help="lines are items, as queue_drain, queue_pop --json and queue_peek --json write "
            "them: values, priorities, times of pushes and attempts; ids are new",
        )
        forms.add_argument(
            "--values",
            action="store_const",
            const="values",
            dest="form",
            help="lines are values, also where they look like such items, which are refused else",
        )
        parser.add_argument(
            "--continue",
            action="store_true",
            dest="continues",
            help="skip bad lines, count them, and end with 1 where there were any",
        )
        parser.add_argument(
            "--resume",
            action="store_true",
            help="go on where an earlier push of the same file stopped",
        )
        parser.add_argument(
            "--job",
            metavar="TEXT",
            help="what a push is known by for --resume (default: the file's path)",
        )
        self.add_json_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        options_ = argparse.Namespace(**options)
        queue = self.queue(options_.name)
        _check_usage(queue, options_)
        self._skipped = 0
        with self._opened(options_.file) as stream:
            load = Load(queue, _job(options_))
            pushed = self._push(queue, load, stream, options_)
        record = {"queue": queue.name, "pushed": pushed}
        if options_.continues:
            record["skipped"] = self._skipped
        text = f"Pushed {items(pushed)} into {queue.name!r}."
        self.report(record, text, as_json=options_.as_json)
        if self._skipped:
            raise CommandError(f"{self._skipped:,} bad lines were skipped.", returncode=FAILED)

    def _push(self, queue: Queue, load: Load, stream: BinaryIO, options: argparse.Namespace) -> int:
        begun = load.begun if options.resume else None
        with held_interrupts() as interrupts, self._progress(queue) as progress:
            lines = ndjson.Lines(stream, interrupts, ndjson.max_line_bytes(queue))
            source = ndjson.Items(
                queue,
                lines,
                0 if options.priority is None and options.form != "items" else options.priority,
                options.priority_field,
                form=options.form,
                skipped=self._skip if options.continues else None,
                pushed=begun.pushed if begun else 0,
            )
            try:
                if begun is not None:
                    lines.skip(begun)
                    self.note(
                        f"Going on behind line {begun.lines:,}: {items(begun.pushed)} are in."
                    )
                return load.push_all(source, pushed=_teller(progress, lines, stream))
            except FdbQueueError as error:
                message = source.explain(error)
                if source.is_usage(error):
                    raise CommandError(message, returncode=USAGE) from error
                raise command_error(error, message) or error from error

    def _progress(self, queue: Queue) -> Progress:
        draws = self.verbosity > 0 and self._from_shell and not _is_terminal(sys.stdin)
        return Progress(self.note, None, terminal_bar(queue.name, None) if draws else None)

    def _skip(self, reason: str) -> None:
        self._skipped += 1
        if self._skipped <= _TOLD_LINES:
            self.note(f"{reason}. Skipped.")
        if self._skipped == _TOLD_LINES:
            self.note("More bad lines are counted, and not told of.")

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


def _teller(progress: Progress, lines: ndjson.Lines, stream: BinaryIO) -> Callable[[int], None]:
    """Return what tells how far a push is: of a file, how many there will be by its size."""
    begun_bytes = lines.size_bytes
    left_bytes = _size_of(stream) - begun_bytes

    def tell(count: int) -> None:
        progress.advance(count)
        if left_bytes > 0:
            read = min(1.0, (lines.size_bytes - begun_bytes) / left_bytes)
            progress.expect(round(progress.done / read))

    return tell


def _size_of(stream: BinaryIO) -> int:
    """Return how long a file is, 0 for what is none."""
    try:
        found = os.fstat(stream.fileno())
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _is_terminal(stream: Any) -> bool:
    return stream is not None and stream.isatty()


def _job(options: argparse.Namespace) -> str | None:
    """Return what the push is known by."""
    if options.job is not None:
        return f"job {options.job}"
    path = os.path.realpath(options.file)
    return f"file {path}" if options.file != "-" and os.path.isfile(path) else None


def _check_usage(queue: Queue, options: argparse.Namespace) -> None:
    name, field = queue.name, options.priority_field
    message = None
    if queue.kind == "fifo" and (options.priority is not None or field is not None):
        message = f"{name!r} is a FIFO queue: it takes no --priority or --priority-field."
    elif field is not None and queue.codec.name == "bytes":
        message = f"{name!r} is a queue of bytes, which have no --priority-field."
    elif field is not None and options.form == "items":
        message = "--items have their own priorities: --priority-field is for values."
    elif queue.codec.name == "tuple" and options.form == "items":
        message = f"{name!r} is a queue of tuples, whose values --items would not all bring back."
    elif options.resume and _job(options) is None:
        message = "What is no file has no name: --resume needs the --job of both pushes."
    if message:
        raise CommandError(message, returncode=USAGE)
