"""``queue_drain``: take all items off a queue: to a file, a queue or a function."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.management import arguments, drain
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import usage_error
from fdbqueue.management.formats import item_count
from fdbqueue.management.item_lines import FileExists
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
#: More threads than this would wait for each other.
_MAX_CONCURRENCY = 256


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
  manage.py queue_drain mail --handler shop.letters.send --concurrency 8
  manage.py queue_drain urgent 'mail-*' --handler shop.letters.send --follow
  manage.py queue_drain mail --discard --limit 1000
"""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "names",
            metavar="NAME",
            nargs="+",
            help="Name of the queue; with --handler also several names, or patterns such as "
            "'mail-*', in the order in which to look for items",
        )
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
        arguments.add_batches(parser)
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
        _add_handler_options(parser)
        arguments.add_no_input(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        given = argparse.Namespace(**options)
        _check_usage(options)
        source = self._source(given.names, fair=given.fair)
        if given.lease_seconds is None:
            given.lease_seconds = _LEASE_SECONDS
        drain_source, destination = self._destination(source, given)
        self.console.note_pauses(source)
        if given.dry_run:
            number = drain.expected(source, given.limit)
            self.console.report(
                {**drain.named(source), "would_drain": number, "to": destination},
                f"Would drain {item_count(number)} from {source.name!r} to {destination}.",
                as_json=given.as_json,
            )
            return
        drain_source()

    def _source(self, names: list[str], *, fair: bool | None) -> Queue | SeveralQueues:
        """Return the queue, or several if more than one name or a pattern is given."""
        if len(names) > 1 or "*" in names[0] or fair:
            return self.several(names, fair=fair)
        return self.queue(names[0])

    def _destination(
        self, source: Queue | SeveralQueues, given: argparse.Namespace
    ) -> tuple[Callable[[], None], str]:
        """Return what drains the queues, and where to.

        Raises:
            CommandError: The destination cannot be used.
        """
        console = self.console
        if given.handler is not None:
            with drain.redirect_prints(as_json=given.as_json):
                handler = drain.import_handler(given.handler)
            return lambda: drain.work(source, handler, given, console), given.handler
        if not isinstance(source, Queue):
            raise usage_error("Several queues can be drained only with --handler.")
        if given.to is not None:
            target = self.queue(given.to)
            drain.check_target(source, target, given.priority)
            return lambda: drain.move(source, target, given, console), target.name
        if given.discard:
            return lambda: drain.discard(source, given, console), "nowhere"
        if given.output in {None, "-"}:
            return lambda: drain.to_stream(source, given, console), "standard output"
        if os.path.exists(given.output) and not (given.resume or given.force):
            raise usage_error(str(FileExists(file=given.output)))
        return lambda: drain.to_file(source, given, console), given.output


def _add_handler_options(parser: CommandParser) -> None:
    """Add the options that only a function has."""
    group = parser.add_argument_group("with --handler")
    group.add_argument(
        "--concurrency",
        type=arguments.whole_number(most=_MAX_CONCURRENCY),
        metavar="N",
        help=f"Call the function in N threads (default: 1, at most {_MAX_CONCURRENCY})",
    )
    group.add_argument(
        "--retry-delay",
        type=arguments.seconds,
        metavar="SECONDS",
        help="Hide an item for SECONDS after the function raised an exception "
        f"(default: {drain.RETRY_DELAY_SECONDS})",
    )
    group.add_argument(
        "--fair",
        action=argparse.BooleanOptionalAction,
        help="Take from several queues in turn, not from the first that has items (default: in "
        "turn if a pattern is given)",
    )
    group.add_argument(
        "--worker",
        type=arguments.worker_name,
        metavar="TEXT",
        help="Name of this worker, shown with each item that it holds (default: HOST:PID)",
    )


def _check_usage(options: dict[str, Any]) -> None:
    """Refuse options that say nothing together."""
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
