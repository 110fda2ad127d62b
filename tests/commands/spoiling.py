"""Spoil stored values, as a foreign writer or a fault might."""

from __future__ import annotations

from fdbqueue.service import Item, Queue, run


def spoil(queue: Queue, item: Item) -> None:
    """Make the stored JSON of a ready item a text that is not JSON, and leave the rest of it."""
    key = queue.overview.key_of(item)

    def write(tr):
        stored = bytes(tr[key])
        tr[key] = stored[:1] + b"{not" + stored[1:]

    run(queue.database, write)
