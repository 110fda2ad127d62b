"""``queue_peek``: print items of a queue and leave them there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fdbqueue.management import arguments, item_lines
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import usage_error
from fdbqueue.service import ITEM_STATES, ORDERS, Item, Queue

#: Read in one transaction; more are read page by page.
PAGE_ITEMS = 500


class Command(QueueCommand):
    help = (
        "Print the items that queue_pop would take, or items in another state, and leave them "
        "where they are. The table cuts long values; --json prints all."
    )
    allows_closed_output = True
    examples = """\
examples:
  manage.py queue_peek mail
  manage.py queue_peek quakes --end max --limit 10
  manage.py queue_peek mail --state dead --limit 20
  manage.py queue_peek mail --state dead --order time --end max --limit 5
  manage.py queue_peek mail --state leased --worker mail1:4711 --limit 20
  manage.py queue_peek quakes --limit 1000000 --json > backup.ndjson
"""

    takes = (
        arguments.QUEUE,
        arguments.END,
        arguments.ONE_UNLESS_LIMIT,
        arguments.Argument(
            "--state",
            choices=ITEM_STATES,
            default="ready",
            help="Print the items in this state (default: ready)",
        ),
        arguments.Argument(
            "--order",
            choices=ORDERS,
            default="place",
            help="Print the items by their places (default), or by time: leased and delayed items "
            "by when that ends, dead letters by when they died; with --end max, the latest first",
        ),
        arguments.Argument(
            "--worker",
            metavar="NAME",
            help="Print only items that the worker with this name has leased; needs --state leased",
        ),
        arguments.JSON_LINES,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        queue = self.queue(options["name"])
        state, as_json = options["state"], self.console.as_json
        if state == "ready" and options["order"] == "time":
            raise usage_error("--order time needs --state leased, delayed or dead.")
        worker = options["worker"]
        if worker is not None and state != "leased":
            raise usage_error("--worker needs --state leased: other items have no worker.")
        lines = item_lines.printer(queue, self.console.paint, as_json=as_json, state=state)
        which = {"end": options["end"], "state": state, "order": options["order"]}
        for items in _pages(queue, options["limit"], which, worker):
            self.console.print_lines(lines(items))
        if not self.console.lines_printed and not as_json:
            what = "is empty" if state == "ready" else f"has no {state} items"
            what += "" if worker is None else " of this worker"
            self.console.note(f"The queue {queue.name!r} {what}.")


def _pages(
    queue: Queue, limit: int, which: dict[str, Any], worker: str | None
) -> Iterator[list[Item]]:
    after: str | None = None
    while limit > 0:
        at_once = PAGE_ITEMS if worker is not None else min(limit, PAGE_ITEMS)
        page = queue.page(after=after, limit=at_once, **which)
        items = [item for item in page.items if worker is None or item.worker == worker][:limit]
        yield items
        limit -= len(items)
        after = page.cursor
        if after is None:
            return
