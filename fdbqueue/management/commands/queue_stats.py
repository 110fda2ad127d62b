"""``queue_stats``: print what the counts and the history say of queues."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.management import rendering
from fdbqueue.management.base import QueueCommand, count_to, seconds
from fdbqueue.management.figures import COLUMNS, PRIORITY_COLUMNS, Figures, figures
from fdbqueue.service import Queue
from fdbqueue.service.storage.counts import HISTORY_MINUTES

_CLEARED = "\x1b[H\x1b[2J"


class Command(QueueCommand):
    help = (
        "Print how many items of queues are ready, leased, delayed and dead, how old the oldest "
        "is, and how many are pushed and popped a minute. Nothing is counted for it: it costs "
        "the same however long a queue is."
    )
    only_shows = True
    examples = """\
examples:
  manage.py queue_stats
  manage.py queue_stats quakes --by-priority
  manage.py queue_stats --watch
  manage.py queue_stats mail --watch 10 --json
"""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "names", metavar="NAME", nargs="*", help="the queues (default: all there are)"
        )
        parser.add_argument(
            "--by-priority", action="store_true", help="show the ready items of each priority, too"
        )
        parser.add_argument(
            "--minutes",
            type=count_to(HISTORY_MINUTES - 1),  # that of now comes on top
            default=5,
            metavar="N",
            help="over how many minutes the rates are (default 5, at most 1439)",
        )
        parser.add_argument(
            "--watch",
            type=seconds,
            nargs="?",
            const=2.0,
            metavar="SECONDS",
            help="print them again every so often (2 seconds), until Ctrl-C",
        )
        self.add_json_argument(parser, each_line=True)

    def handle(self, *args: Any, **options: Any) -> None:
        names = dict.fromkeys(options["names"])
        queues = [self.queue(name) for name in names] if names else None
        shown = options["by_priority"], options["minutes"]
        pause = threading.Event()
        while True:
            found = _figures(queues or self.catalog.queues(), *shown)
            if options["as_json"]:
                self.emit(rendering.json_line(one.record()) for one in found)
            else:
                self._show(list(found), live=options["watch"] is not None)
            if options["watch"] is None:
                return
            pause.wait(options["watch"])

    def _show(self, found: list[Figures], *, live: bool) -> None:
        lines = rendering.Table(COLUMNS).lines(one.row() for one in found)
        ranked = [row for one in found for row in one.priority_rows()]
        if ranked:
            lines += ["", *rendering.Table(PRIORITY_COLUMNS).lines(ranked)]
        if live and self.stdout.isatty():
            lines = [_CLEARED + "\n".join(lines)]
        self.emit(lines)


def _figures(queues: list[Queue], by_priority: bool, minutes: int) -> Iterator[Figures]:
    for queue in queues:
        yield figures(queue, by_priority=by_priority, minutes=minutes)
