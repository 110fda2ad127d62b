"""``queue_peek``: print items of a queue and leave them there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fdbqueue.management.base import ItemsCommand
from fdbqueue.service import Item, Queue
from fdbqueue.service.storage.reader import End

#: Read in one transaction; more are read page by page.
PAGE_ITEMS = 500


class Command(ItemsCommand):
    help = (
        "Print the items that queue_pop would take, and leave them where they are. The table "
        "shows the beginning of each value; --json shows all of it."
    )
    only_shows = True
    examples = """\
examples:
  manage.py queue_peek mail
  manage.py queue_peek quakes --end max --limit 10
  manage.py queue_peek quakes --limit 1000000 --json > backup.ndjson
"""

    def handle(self, *args: Any, **options: Any) -> None:
        queue = self.queue(options["name"])
        lines = self.item_lines(options["as_json"])
        for items in _pages(queue, options["end"], options["limit"]):
            self.emit(lines(items))
        if not self.written and not options["as_json"]:
            self.note(f"The queue {queue.name!r} is empty.")


def _pages(queue: Queue, end: End, limit: int) -> Iterator[list[Item]]:
    after: str | None = None
    while limit > 0:
        page = queue.page(end=end, after=after, limit=min(limit, PAGE_ITEMS))
        yield page.items
        limit -= len(page.items)
        after = page.cursor
        if after is None:
            return
