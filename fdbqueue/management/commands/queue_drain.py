"""``queue_drain``: take all items off a queue: to a file, a queue or a function."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError, CommandParser

from fdbqueue.management import drains
from fdbqueue.management.base import count_to, seconds
from fdbqueue.management.exits import USAGE, command_error
from fdbqueue.management.handlers import (
    MAX_CONCURRENCY,
    WorkingCommand,
    imported,
    printing_aside,
)
from fdbqueue.management.interrupts import held_interrupts
from fdbqueue.management.outputs import FileExists, ItemsFile
from fdbqueue.management.prompts import items
from fdbqueue.management.taking import take_all
from fdbqueue.service import Batch, Batcher, Queue
from fdbqueue.service.tools.streams import BATCH_ITEMS

#: What needs which of the targets.
_ONLY_WITH = {
    "resume": "output",
    "force": "output",
    "priority": "to",
    "concurrency": "handler",
    "retry_delay": "handler",
    "no_input": "discard",
}
#: What means nothing to which of them.
_NOT_WITH = {"batch": "handler", "lease_seconds": "to"}
_LEASE_SECONDS = 60.0


class Command(WorkingCommand):
    help = (
        "Take items off a queue until it is empty, a batch at a time: leased, brought where they "
        "shall be, and only then removed. So nothing is lost, whenever it is stopped. Without a "
        "target they are printed, one JSON object a line, as by --output -."
    )
    examples = """\
examples:
  manage.py queue_drain quakes --output quakes.ndjson
  manage.py queue_drain quakes --output quakes.ndjson --resume
  manage.py queue_drain mail | gzip > mail.ndjson.gz
  manage.py queue_drain mail --to archive
  manage.py queue_drain mail --handler shop.letters.send --concurrency 8 --follow
  manage.py queue_drain mail --discard --limit 1000
"""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the queue's name")
        targets = parser.add_mutually_exclusive_group()
        targets.add_argument(
            "--output", metavar="FILE", help="write to a file; - is standard output"
        )
        targets.add_argument("--to", metavar="QUEUE", help="move to another queue, exactly once")
        targets.add_argument("--handler", metavar="PATH", help="call a function: dotted.path.to.it")
        targets.add_argument("--discard", action="store_true", help="remove them for good")
        self.add_taking_arguments(parser)
        parser.add_argument("--follow", action="store_true", help="wait for more; ends by Ctrl-C")
        parser.add_argument("--dry-run", action="store_true", help="say what would be done")
        parser.add_argument(
            "--lease-seconds",
            type=seconds,
            metavar="N",
            help="how soon items come back whose drain was killed (default 60)",
        )
        files = parser.add_argument_group("to a file")
        files = files.add_mutually_exclusive_group()
        files.add_argument(
            "--resume", action="store_true", help="go on with the file, if it is there"
        )
        files.add_argument(
            "--force", action="store_true", help="overwrite the file, if it is there"
        )
        workers = parser.add_argument_group("to a function")
        workers.add_argument(
            "--concurrency",
            type=count_to(MAX_CONCURRENCY),
            metavar="N",
            help=f"how many threads call it (default 1, at most {MAX_CONCURRENCY})",
        )
        workers.add_argument(
            "--retry-delay",
            type=seconds,
            metavar="SECONDS",
            help="how long an item is hidden for which it raised (default 60)",
        )
        self.add_prompt_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        _check_usage(options)
        queue = self.queue(options["name"])
        self._options = argparse.Namespace(**options)
        if self._options.lease_seconds is None:
            self._options.lease_seconds = _LEASE_SECONDS
        drained, target = self._target(queue)
        if options["dry_run"]:
            self._say_what_would_be_done(queue, target)
            return
        drained(queue)

    def _target(self, queue: Queue) -> tuple[Callable[[Queue], None], str]:
        """Return what drains, and where to; what is wrong with that is refused here."""
        options = self._options
        if options.to is not None:
            target = self.checked_target(queue, options.to, options.priority)
            return lambda source: self.move(source, target, options), target.name
        if options.handler is not None:
            with printing_aside(as_json=options.as_json):
                handler = imported(options.handler)
            return lambda source: self.work(source, handler, options), options.handler
        if options.discard:
            return self._discard, "nowhere"
        if options.output in {None, "-"}:
            return self._to_stream, "standard output"
        if os.path.exists(options.output) and not (options.resume or options.force):
            raise CommandError(str(FileExists(file=options.output)), returncode=USAGE)
        return self._to_file, options.output

    def _say_what_would_be_done(self, queue: Queue, target: str) -> None:
        number = self.expected(queue, self._options.limit)
        record = {"queue": queue.name, "would_drain": number, "to": target}
        text = f"Would drain {items(number)} of {queue.name!r} to {target}."
        self.report(record, text, as_json=self._options.as_json)

    def _to_file(self, queue: Queue) -> None:
        options = self._options
        try:
            file = ItemsFile(options.output, resume=options.resume, force=options.force)
        except FileExists as error:
            raise CommandError(str(error), returncode=USAGE) from error
        with file:
            settled = drains.begin(queue, file)
            if file.size:
                self.note(f"Going on with {file.path} behind line {file.count_lines():,}.")
            if settled:
                self.note(f"Removed {items(settled)} that the file held already.")
            sink = drains.FileSink(queue, file)
            done = self._drain(queue, sink, owner=file.owner)
        self._report_end(queue, done, options.output)

    def _to_stream(self, queue: Queue) -> None:
        def write(text: str) -> None:
            self.check_output()
            self.emit([text.rstrip("\n")])

        done = self._drain(queue, drains.StreamSink(queue, write), bar=not self.stdout.isatty())
        self.note(f"Drained {items(done)} of {queue.name!r}.")

    def _discard(self, queue: Queue) -> None:
        number = self.expected(queue, self._options.limit)
        deed = f"Remove {items(number)} from {queue.name!r} for good?"
        self.confirm(deed, interactive=self._options.interactive)
        self._report_end(queue, self._drain(queue, drains.Discard(queue)), "nowhere")

    def _drain(
        self, queue: Queue, sink: drains.Sink, *, owner: bytes | None = None, bar: bool = True
    ) -> int:
        """Drain into a sink, and return how many items came there."""
        options = self._options
        batcher = Batcher(
            queue,
            end=options.end,
            limit=options.limit or math.inf,
            batch_items=options.batch or BATCH_ITEMS,
            seconds=options.lease_seconds,
            owner=owner,
        )
        with held_interrupts() as interrupts, self.progress(queue, options, bar=bar) as progress:

            def take(batch: Batch) -> None:
                sink.take(batch)
                progress.advance(len(batch))

            try:
                take_all(queue, batcher, take, follow=options.follow, let_in=interrupts.let_in)
            except (Exception, KeyboardInterrupt) as error:
                message = drains.explain(error, progress.done, queue, sink)
                raise command_error(error, message) or error from error
        left = queue.size()
        if left > 0 and options.limit is None:
            self.note(f"The counts know of {items(left)} more: held by others, or just pushed.")
        self.check_buried(queue, batcher.buried, progress.done)
        return progress.done

    def _report_end(self, queue: Queue, done: int, target: str) -> None:
        record = {"queue": queue.name, "drained": done, "to": target}
        text = f"Drained {items(done)} of {queue.name!r} to {target}."
        self.report(record, text, as_json=self._options.as_json)


def _check_usage(options: dict[str, Any]) -> None:
    options = {**options, "no_input": not options["interactive"]}
    for option, target in _ONLY_WITH.items():
        if _is_given(options[option]) and not _is_given(options[target]):
            name = option.replace("_", "-")
            raise CommandError(f"--{name} is for --{target} alone.", returncode=USAGE)
    for option, target in _NOT_WITH.items():
        if _is_given(options[option]) and _is_given(options[target]):
            name = option.replace("_", "-")
            raise CommandError(f"--{name} is not for --{target}.", returncode=USAGE)
    if (options["resume"] or options["force"]) and options["output"] == "-":
        raise CommandError("Standard output is no file to go on with.", returncode=USAGE)


def _is_given(value: Any) -> bool:
    return value is not None and value is not False
