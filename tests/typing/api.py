"""The public API as users write it; only type-checked, never run."""

from __future__ import annotations

from typing import Any

import fdbqueue
from fdbqueue.engines import embedded, foundationdb
from fdbqueue.exceptions import FdbQueueError
from fdbqueue.service import FifoQueue, Item, Page, PriorityQueue, Queue, run, transactional

queue: Queue = fdbqueue.queue("quakes")
pushed: Item = queue.push({"place": "Hualian"}, priority=6.4)
count: int = queue.push_many([({"place": "Hualian"}, 6.4)])
popped: Item | None = queue.pop_max()
items: list[Item] = queue.pop_many(100, end="max")
page: Page = queue.page(end="min", after=pushed.id, limit=10)
code: str = FdbQueueError.code

database: embedded.Database = embedded.open("queues.sqlite3", durability="full")
cluster: foundationdb.Database = foundationdb.open("fdb.cluster")


@transactional
def move(tr: Any, source: FifoQueue, target: PriorityQueue) -> bool:
    """Move an item and tell whether there was one."""
    item = source.pop(tr=tr)
    if item is None:
        return False
    target.push(item.value, 1, tr=tr)
    return True


moved: bool = move(database, queue, queue)  # type: ignore[arg-type]  # a Queue is neither kind
also: int = run(database, lambda tr: len(tr[b"key"]))
