"""The public API as users write it; only type-checked, never run."""

# ruff: noqa: F841  # the names are there for their types

from __future__ import annotations

import datetime
import unittest
from collections.abc import Callable
from typing import Any

from fdb.subspace_impl import Subspace

import fdbqueue
from fdbqueue import testing
from fdbqueue.engines import embedded, foundationdb
from fdbqueue.exceptions import FdbQueueError
from fdbqueue.service import (
    Catalog,
    Counts,
    DeadReason,
    Duration,
    Failure,
    FifoQueue,
    Held,
    IdempotencyKey,
    Item,
    Minute,
    Page,
    PriorityQueue,
    Push,
    Queue,
    SeveralQueues,
    arun,
    run,
    transactional,
)
from fdbqueue.service.tools.examination import sweep

queue: Queue = fdbqueue.queue("quakes")
pushed: Item = queue.push({"place": "Hualian"}, priority=6.4)
count: int = queue.push_many([({"place": "Hualian"}, 6.4)])
popped: Item | None = queue.pop_max()
items: list[Item] = queue.pop_many(100, end="max")
page: Page = queue.page(end="min", after=pushed.id, limit=10)
code: str = FdbQueueError.code

later: datetime.datetime = datetime.datetime.now(datetime.timezone.utc)
delayed: Item = queue.push("x", priority=1, delay=0.5)
delayed = queue.push("x", delay=datetime.timedelta(hours=1))
duration: Duration = datetime.timedelta(minutes=1)
lasting: Item | None = queue.lease(seconds=duration)
timed: int = queue.push_many(["x"], not_before=later)
waited: Item | None = queue.pop_min(wait=20)
waited_for: list[Item] = queue.pop_many(100, wait=0.5)

from_several: Item | None = fdbqueue.pop_from(["a", "b-*"], wait=1)
fdbqueue.pop_from(["a"], seconds=1)  # type: ignore[call-arg]  # a pop has none
from_one: list[Item] = fdbqueue.several(["a"], fair=True).lease_many(10, seconds=30)
both: SeveralQueues = fdbqueue.several(["a", "b"], fair=True)
both.nack(from_one[0], delay=1.5, reason="busy")
both.ack(from_one[0], dealy=1)  # type: ignore[call-arg]  # no such option
still: Item = both.extend(from_one[0], 60, once="key")
of_both: Item | None = both.lease(seconds=30, wait=1)
which: str = pushed.queue
both.ack(pushed)

leased: Item | None = queue.lease_max(seconds=30, wait=1)
several: list[Item] = queue.lease_many(10, end="max", seconds=30)
queue.ack(several[0])
queue.ack(several[0].lease or "")
held: Held = queue.ack_many(several, once="key")
how_many: int = held
lost: tuple[str, ...] = held.lost
queue.ack(several[0], once=IdempotencyKey("key"))
queue.nack(several[0], once="key")
held = queue.nack_many(several, delay=1.5, reason="busy", once="key")
held = queue.extend_many([item.lease or "" for item in several], 60, once="key")
queue.nack(several[0], delay=1.5, reason="busy")
extended: Item = queue.extend(several[0], 60)
with queue.leased(seconds=60) as work:
    worked_on: Item | None = work
queue.bury("id", reason="bad")
redriven: int = queue.redrive(limit=10) + queue.redrive(["id"])
redriven += queue.redrive(reason="bad", limit=1, on_redriven=lambda count: None)
given_back: int = queue.give_back(worker="mail1:4711") + queue.give_back(["id"], spend=False)
made_ready: int = queue.run_now(["id"], limit=1) + queue.run_now()
dead: Page = queue.page(state="dead")
reasons: list[DeadReason] = queue.dead_by_reason(limit=10)
failures: tuple[Failure, ...] = dead.items[0].failures
died_at: datetime.datetime | None = dead.items[0].died_at
worker: str | None = queue.lease_many(1, worker="mail1:4711")[0].worker
queue.lease(worker=3)  # type: ignore[arg-type]  # a name is a text
queue.remove("id")
cleared: int = queue.clear_state("dead", limit=10)

size: int = queue.size()
counts: Counts = queue.counts()
recounted: Counts = queue.recount()
levels: list[tuple[int | float, int]] = queue.by_priority(after=3, limit=10)
oldest: datetime.datetime | None = queue.oldest()
minutes: list[Minute] = queue.history(60)

database: embedded.Database = embedded.open("queues.sqlite3", durability="full")
cluster: foundationdb.Database = foundationdb.open("fdb.cluster")
swept: int = sweep(database, older_than_seconds=86_400)

transaction: embedded.Transaction = database.create_transaction()
transaction.options.set_timeout(1_000)
transaction.add(b"k", b"\x01")
transaction.add(b"k")  # type: ignore[call-arg]  # and what is to be added
committed: None = transaction.commit().wait()
was_cancelled: bool = transaction.watch(b"k").cancelled()
own: PriorityQueue = PriorityQueue(
    database,
    Subspace(("P",)),
    priority_type=float,
    codec="bytes",
    order="commit",
    shards=16,
    choices=2,
    handoff_timeout_seconds=0.5,
    max_attempts=None,
    max_value_bytes=1_000_000,
)
FifoQueue(database, Subspace(("F",)), priority_type="int")  # type: ignore[call-arg]  # it has none


batch: list[Item] = queue.push_batch(
    [Push("one", priority=1), Push("two", delay=60)], once=IdempotencyKey("key", kept_seconds=60)
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

prepared: Callable[[Any], list[Item]] = queue.prepare(Push("x"), once="key")
fdbqueue.push_on_commit("mail", {"to": "a"}, using="default", once=IdempotencyKey("key"), delay=1.5)
fdbqueue.push_on_commit(queue, "x", 6.4, not_before=later, robust=True)
fdbqueue.push_batch_on_commit("mail", [Push("x")], using=None, once="key")
fdbqueue.push_on_commit("mail", "x", tr=1)  # type: ignore[call-arg]  # it has its own


async def awaited(target: PriorityQueue) -> None:
    """Await each operation."""
    pushed: Item = await queue.apush("x", priority=1, delay=0.5, not_before=None, once="key")
    count: int = await queue.apush_many([("x", 6.4)], delay=0.5)
    batch: list[Item] = await queue.apush_batch([Push("x")], once=IdempotencyKey("key"))
    one: Item | None = await queue.apop(wait=20)
    one = await queue.apop_min(wait=20) or await queue.apop_max(wait=None)
    many: list[Item] = await queue.apop_many(10, end="max", wait=1.5, once="key")
    leased: Item | None = await queue.alease(seconds=30, wait=1)
    leased = await queue.alease_min() or await queue.alease_max(seconds=1)
    many = await queue.alease_many(10, end="min", seconds=30, wait=1, once="key")
    await queue.aack(pushed)
    held: Held = await queue.aack_many(many, once="key")
    held = await queue.anack_many(many, delay=1, reason="busy", once="key")
    held = await queue.aextend_many(many, 60, once="key")
    await queue.anack(pushed.lease or "", delay=1, reason="busy")
    extended: Item = await queue.aextend(pushed, 60)
    async with queue.aleased(end="max", seconds=60, wait=1) as work:
        worked_on: Item | None = work
    peeked: Item | None = await queue.apeek() or await queue.apeek_min() or await queue.apeek_max()
    many = await queue.apeek_many(10, end="max")
    ids: list[str] = [item.id async for item in queue]
    ids += [item.id async for item in queue.aiterate(end="max", state="dead")]
    size: int = await queue.asize()
    counts: Counts = await queue.acounts()
    moved: bool = await arun(database, lambda tr: move(tr, FifoQueue(database, Subspace()), target))
    await queue.apop(tr=1)  # type: ignore[call-arg]  # no transaction can be taken part in
    wrong: int = await queue.apop()  # type: ignore[assignment]  # it is an item, or None


with testing.empty_queues({"mail": {"kind": "fifo"}}) as catalog:
    own_catalog: Catalog = catalog
    found_values: list[Any] = testing.values("mail", state="dead", end="max")
    found_values = testing.values(queue)


class Tests(testing.EmptyQueuesMixin, unittest.TestCase):
    """A test case."""

    fdbqueue_queues = {"mail": {"kind": "fifo"}}  # noqa: RUF012  # as users write it
