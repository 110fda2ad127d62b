"""``queue_show``: print everything about one item."""

from __future__ import annotations

from typing import Any

from fdbqueue import columns
from fdbqueue.columns.items import FACTS, ItemRow, read_row, shown
from fdbqueue.columns.text import clipped, printable
from fdbqueue.exceptions import InvalidInput, ItemNotFound
from fdbqueue.management import formats, item_lines
from fdbqueue.management.arguments import JSON, QUEUE, Argument
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import failure, usage_error
from fdbqueue.service import Queue, run


class Command(QueueCommand):
    help = "Print everything about one item, in any state, and leave it as it is."
    allows_closed_output = True
    examples = """\
examples:
  manage.py queue_show mail FgEVFAd1bnR...
  manage.py queue_show mail FgEVFAd1bnR... --json
"""

    takes = (
        QUEUE,
        Argument("id", metavar="ID", help="Id of the item, as queue_peek and the pages show it"),
        JSON,
    )

    def handle(self, *args: Any, **options: Any) -> None:
        queue = self.queue(options["name"])
        row = _read_item(queue, options["id"])
        item = row.item
        if self.console.as_json:
            lines = [item_lines.item_line(queue, item, detailed=True)]
        else:
            found = columns.line_texts(shown(FACTS, queue, item.state), row)
            value = printable(formats.value_text(item.value))
            lines = formats.facts([*found, ("VALUE", value)])
        self.console.print_lines(lines)


def _read_item(queue: Queue, item_id: str) -> ItemRow:
    """Read all about the item with an id.

    Raises:
        CommandError: It is not an id of this queue, or the item is not there.
    """
    try:
        return run(queue.database, lambda tr: read_row(queue, item_id, tr), read_only=True)
    except InvalidInput as error:
        text = clipped(repr(item_id))
        raise usage_error(f"{text} is not the id of an item of {queue.name!r}.") from error
    except ItemNotFound as error:
        raise failure(
            f"{queue.name!r} has no item {item_id!r}: it was taken or removed, or is on its way."
        ) from error
