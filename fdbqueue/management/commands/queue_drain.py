"""``queue_drain``: take all items off a queue: to a file, to standard output, or nowhere."""

from __future__ import annotations

import os
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.management import arguments, former
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.drain import Drain
from fdbqueue.management.emptying import Emptying
from fdbqueue.management.exit_codes import usage_error
from fdbqueue.management.formats import item_count
from fdbqueue.management.item_lines import FileExists


class Command(QueueCommand):
    help = (
        "Take items off a queue until it is empty, in batches. Each batch is leased, written, and "
        "only then removed from the queue, so no item is lost, whenever the command stops. "
        "Without a destination the items are printed, one JSON object per line."
    )
    examples = """\
examples:
  manage.py queue_drain quakes --output quakes.ndjson
  manage.py queue_drain quakes --output quakes.ndjson --resume
  manage.py queue_drain mail | gzip > mail.ndjson.gz
  manage.py queue_drain mail --discard --limit 1000
"""

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_queues(parser, required=True)
        targets = parser.add_mutually_exclusive_group()
        targets.add_argument(
            "--output", metavar="FILE", help="Write the items to FILE; - is standard output"
        )
        targets.add_argument(
            "--discard", action="store_true", help="Remove the items for good; asks first"
        )
        former.add_drain_options(parser, targets)
        arguments.add_end(parser)
        arguments.add_limit(parser)
        arguments.add_batch(parser)
        arguments.add_follow(parser)
        parser.add_argument(
            "--dry-run", action="store_true", help="Only print how many items would be drained"
        )
        arguments.add_lease_seconds(parser, "Requeue what a killed drain held")
        files = parser.add_argument_group("with --output").add_mutually_exclusive_group()
        files.add_argument(
            "--resume", action="store_true", help="Continue the file if it already exists"
        )
        files.add_argument(
            "--force", action="store_true", help="Overwrite the file if it already exists"
        )
        arguments.add_no_input(parser)
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if former.drains_elsewhere(self, options):
            return
        output = None if options["output"] == "-" else options["output"]
        _check_usage(options, output)
        queue = self.queue(options["names"][0])
        emptying = Emptying(queue, self.console, limit=options["limit"], follow=options["follow"])
        self.console.note_pauses(queue)
        if options["dry_run"]:
            to = "nowhere" if options["discard"] else output or "standard output"
            emptying.report_expected(to, as_json=options["as_json"])
            return
        drain = Drain(
            queue,
            self.console,
            emptying,
            end=options["end"],
            batch_items=options["batch"],
            lease_seconds=options["lease_seconds"],
        )
        if options["discard"]:
            question = f"Remove {item_count(emptying.expected)} from {queue.name!r} for good?"
            self.console.confirm(question, interactive=options["interactive"])
            done, to, verb = drain.discard(), "nowhere", "Discarded"
        elif output is None:
            done = drain.to_stream()
            self.console.note(f"Drained {item_count(done)} from {queue.name!r}.")
            return
        else:
            done = drain.to_file(output, resume=options["resume"], force=options["force"])
            to, verb = output, "Drained"
        text = f"{verb} {item_count(done)} from {queue.name!r}"
        self.console.report(
            {"queue": queue.name, "drained": done, "to": to},
            f"{text}." if options["discard"] else f"{text} to {to}.",
            as_json=options["as_json"],
        )


def _check_usage(options: dict[str, Any], output: str | None) -> None:
    """Refuse options that say nothing together, and a file that exists."""
    if not options["interactive"] and not options["discard"]:
        raise usage_error("--no-input can be used only with --discard.")
    goes_on = options["resume"] or options["force"]
    if goes_on and output is None:
        raise usage_error("--resume and --force need a file: --output FILE.")
    if output is not None and os.path.exists(output) and not goes_on:
        raise usage_error(str(FileExists(file=output)))
