"""The public API as users write it; only type-checked, never run."""

from __future__ import annotations

import datetime
from typing import Any

from fdb.subspace_impl import Subspace

import fdbqueue
from fdbqueue.engines import embedded, foundationdb
from fdbqueue.exceptions import FdbQueueError
from fdbqueue.service import (
    FifoQueue,
    Item,
    Once,
    Page,
    PriorityQueue,
    Push,
    Queue,
    run,
    transactional,
)
from fdbqueue.service.counters import Counts, Minute
from fdbqueue.service.receipts import sweep

queue: Queue = fdbqueue.queue("quakes")
pushed: Item = queue.push({"place": "Hualian"}, priority=6.4)
count: int = queue.push_many([({"place": "Hualian"}, 6.4)])
popped: Item | None = queue.pop_max()
items: list[Item] = queue.pop_many(100, end="max")
page: Page = queue.page(end="min", after=pushed.id, limit=10)
code: str = FdbQueueError.code

later: datetime.datetime = datetime.datetime.now(datetime.timezone.utc)
delayed: Item = queue.push("x", priority=1, delay=0.5)
timed: int = queue.push_many(["x"], not_before=later)
waited: Item | None = queue.pop_min(wait=20)
waited_for: list[Item] = queue.pop_many(100, wait=0.5)

leased: Item | None = queue.lease_max(seconds=30, wait=1)
several: list[Item] = queue.lease_many(10, end="max", seconds=30)
queue.ack(several[0])
queue.ack(several[0].lease or "")
held: int = queue.ack_many(several)
queue.nack(several[0], delay=1.5, reason="busy")
extended: Item = queue.extend(several[0], 60)
with queue.leased(seconds=60) as work:
    worked_on: Item | None = work
queue.bury("id", reason="bad")
redriven: int = queue.redrive(limit=10) + queue.redrive(["id"])
dead: Page = queue.page(state="dead")

size: int = queue.size()
counts: Counts = queue.counts()
recounted: Counts = queue.recount()
levels: list[tuple[int | float, int]] = queue.by_priority(after=3, limit=10)
oldest: datetime.datetime | None = queue.oldest()
minutes: list[Minute] = queue.history(60)

database: embedded.Database = embedded.open("queues.sqlite3", durability="full")
cluster: foundationdb.Database = foundationdb.open("fdb.cluster")
swept: int = sweep(database, older_than_seconds=86_400)
own: PriorityQueue = PriorityQueue(
    database,
    Subspace(("P",)),
    priority_type=float,
    codec="bytes",
    order="commit",
    contention="relaxed",
    claim_timeout_seconds=0.5,
    max_attempts=None,
    max_value_bytes=5_000_000,
)
FifoQueue(database, Subspace(("F",)), priority_type="int")  # type: ignore[call-arg]  # it has none


batch: list[Item] = queue.push_batch(
    [Push("one", priority=1), Push("two", delay=60)], once=Once("key", kept_seconds=60)
)
again: list[Item] = queue.pop_many(1, once="key", wait=1, waits_while=lambda: True)
leased_again: list[Item] = queue.lease_many(1, once="key")


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
