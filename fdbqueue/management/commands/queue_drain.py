"""``queue_drain``: take all items off a queue: to a file, a queue or a function."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.management import arguments, drain, pauses, transfer, worker
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import usage_error
from fdbqueue.management.formats import item_count
from fdbqueue.management.items_file import FileExists
from fdbqueue.service import Queue, SeveralQueues

#: Options that need another one.
_ONLY_WITH = {
    "resume": "output",
    "force": "output",
    "priority": "to",
    "concurrency": "handler",
    "retry_delay": "handler",
    "fair": "handler",
    "worker": "handler",
    "no_input": "discard",
}
#: Options that another one makes meaningless.
_NOT_WITH = {"batch": "handler", "lease_seconds": "to"}
_LEASE_SECONDS = 60


class Command(QueueCommand):
    help = (
        "Take items off a queue until it is empty, in batches. Each batch is leased, written to "
        "its destination, and only then removed from the queue, so no item is lost, whenever the "
        "command stops. Without a destination the items are printed, one JSON object per line, as "
        "by --output -."
    )
    examples = """\
examples:
  manage.py queue_drain quakes --output quakes.ndjson
  manage.py queue_drain quakes --output quakes.ndjson --resume
  manage.py queue_drain mail | gzip > mail.ndjson.gz
  manage.py queue_drain mail --to archive
  manage.py queue_drain mail --handler shop.letters.send --concurrency 8 --follow
  manage.py queue_drain urgent 'mail-*' --handler shop.letters.send --follow
  manage.py queue_drain mail --discard --limit 1000
"""

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_several_queues(parser)
        targets = parser.add_mutually_exclusive_group()
        targets.add_argument(
            "--output", metavar="FILE", help="Write the items to FILE; - is standard output"
        )
        targets.add_argument(
            "--to", metavar="QUEUE", help="Move the items to another queue, each exactly once"
        )
        targets.add_argument(
            "--handler",
            metavar="PATH",
            help="Call the function at this dotted path with each item, such as shop.letters.send",
        )
        targets.add_argument(
            "--discard", action="store_true", help="Remove the items for good; asks first"
        )
        transfer.add_arguments(parser)
        parser.add_argument(
            "--follow",
            action="store_true",
            help="Wait for more items when the queue is empty, until Ctrl-C",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="Only print how many items would be drained"
        )
        parser.add_argument(
            "--lease-seconds",
            type=arguments.seconds,
            metavar="N",
            help=f"Requeue what a killed drain held after N seconds (default: {_LEASE_SECONDS})",
        )
        files = parser.add_argument_group("with --output")
        files = files.add_mutually_exclusive_group()
        files.add_argument(
            "--resume", action="store_true", help="Continue the file if it already exists"
        )
        files.add_argument(
            "--force", action="store_true", help="Overwrite the file if it already exists"
        )
        worker.add_arguments(parser)
        arguments.add_no_input(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        _check_usage(options)
        queue = self._source(options["names"], fair=options["fair"])
        if options["lease_seconds"] is None:
            options["lease_seconds"] = _LEASE_SECONDS
        if isinstance(queue, Queue):
            drain_queue, destination = self._destination(queue, argparse.Namespace(**options))
        elif options["handler"] is None:
            raise usage_error("Several queues can be drained only with --handler.")
        else:
            drain_queue, destination = self._handler(queue, argparse.Namespace(**options))
        pauses.note_pause(queue, self.console)
        if options["dry_run"]:
            number = transfer.expected(queue, options["limit"])
            self.console.report(
                {**worker.named(queue), "would_drain": number, "to": destination},
                f"Would drain {item_count(number)} from {queue.name!r} to {destination}.",
                as_json=options["as_json"],
            )
            return
        drain_queue()

    def _source(self, names: list[str], *, fair: bool) -> Queue | SeveralQueues:
        """Return the queue, or several where more than one name or a pattern is given."""
        if len(names) > 1 or "*" in names[0] or fair:
            return self.several(names, fair=fair)
        return self.queue(names[0])

    def _handler(
        self, queue: Queue | SeveralQueues, options: argparse.Namespace
    ) -> tuple[Callable[[], None], str]:
        """Return what calls the function with each item, and the path of the function."""
        with worker.redirect_prints(as_json=options.as_json):
            handler = worker.import_handler(options.handler)
        return lambda: worker.work(queue, handler, options, self.console), options.handler

    def _destination(
        self, queue: Queue, options: argparse.Namespace
    ) -> tuple[Callable[[], None], str]:
        """Return what drains the queue, and where to; refuse a destination that cannot be used."""
        console = self.console
        if options.to is not None:
            target = self.queue(options.to)
            transfer.check_target(queue, target, options.priority)
            return lambda: transfer.move(queue, target, options, console), target.name
        if options.handler is not None:
            return self._handler(queue, options)
        if options.discard:
            return lambda: drain.discard(queue, options, console), "nowhere"
        if options.output in {None, "-"}:
            return lambda: drain.to_stream(queue, options, console), "standard output"
        if os.path.exists(options.output) and not (options.resume or options.force):
            raise usage_error(str(FileExists(file=options.output)))
        return lambda: drain.to_file(queue, options, console), options.output


def _check_usage(options: dict[str, Any]) -> None:
    options = {**options, "no_input": not options["interactive"]}
    for option, needed in _ONLY_WITH.items():
        if _is_given(options[option]) and not _is_given(options[needed]):
            raise usage_error(f"{_flag(option)} can be used only with {_flag(needed)}.")
    for option, other in _NOT_WITH.items():
        if _is_given(options[option]) and _is_given(options[other]):
            raise usage_error(f"{_flag(option)} cannot be used with {_flag(other)}.")
    if (options["resume"] or options["force"]) and options["output"] == "-":
        raise usage_error("--resume and --force need a file, not standard output.")


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _is_given(value: Any) -> bool:
    return value is not None and value is not False
