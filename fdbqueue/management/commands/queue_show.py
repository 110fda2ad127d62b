"""``queue_show``: print everything about one item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser

from fdbqueue.exceptions import InvalidInput, ItemNotFound
from fdbqueue.management import arguments, formats, item_lines
from fdbqueue.management.base import QueueCommand
from fdbqueue.management.exit_codes import failure, usage_error
from fdbqueue.service import Item, Queue


class Command(QueueCommand):
    help = (
        "Print everything about one item, whether it is ready, leased, delayed or dead, and leave "
        "it as it is."
    )
    allows_closed_output = True
    examples = """\
examples:
  manage.py queue_show mail FgEVFAd1bnR...
  manage.py queue_show mail FgEVFAd1bnR... --json
"""

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_queue(parser)
        parser.add_argument(
            "id", metavar="ID", help="Id of the item, as queue_peek and the pages show it"
        )
        arguments.add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        queue = self.queue(options["name"])
        item = _found(queue, options["id"])
        if options["as_json"]:
            lines = [item_lines.item_line(queue.codec, item, detailed=True)]
        else:
            rows = dict(_rows(item))
            width = max(map(len, rows))
            lines = [f"{name.ljust(width)}  {shown}" for name, shown in rows.items()]
        self.console.print_lines(lines)


def _found(queue: Queue, item_id: str) -> Item:
    """Return the item with an id.

    Raises:
        CommandError: It is not an id of this queue, or the item is not there.
    """
    try:
        return queue.get(item_id)
    except InvalidInput as error:
        shown = formats.clipped(repr(item_id))
        raise usage_error(f"{shown} is not the id of an item of {queue.name!r}.") from error
    except ItemNotFound as error:
        raise failure(
            f"{queue.name!r} has no item {item_id!r}: it was taken or removed, or a drain holds it."
        ) from error


def _rows(item: Item) -> Iterator[tuple[str, str]]:
    """Yield the names and the texts of all that there is to say; the value is the last."""
    yield "ID", item.id
    yield "STATE", item.state
    if item.until is not None:
        is_over = formats.seconds_since(item.until) >= 0
        expired = " (expired: the next pop or lease requeues it)" if is_over else ""
        yield "UNTIL (UTC)", formats.short_time(item.until) + expired
    if item.worker is not None:
        yield "WORKER", formats.visible(item.worker)
    if item.died_at is not None:
        yield "DIED (UTC)", formats.short_time(item.died_at)
    if item.reason is not None:
        yield "REASON", formats.visible(item.reason)
    yield "PRIORITY", formats.or_dash(item.priority)
    yield "PUSHED (UTC)", formats.short_time(item.pushed_at)
    yield "ATTEMPTS", f"{item.attempts:,}"
    for failed in item.failures:
        worker = "" if failed.worker is None else f" {formats.visible(failed.worker)}:"
        when = formats.short_time(failed.at)
        yield f"FAILURE {failed.attempt:,}", f"{when}{worker} {formats.visible(failed.reason)}"
    yield "SIZE", formats.counted(item.size_bytes, "byte")
    yield "VALUE", formats.visible(formats.value_text(item.value))
