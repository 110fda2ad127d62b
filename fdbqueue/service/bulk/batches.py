"""Take many items at once to bring them elsewhere: lease them as a batch, or move them.

A batch is stored as a handoff is: its items leave the ready ones and are written whole into a
few rows. They return to their places unchanged when the batch is requeued or expires. That
costs a small part of as many leases, and counts no attempt, because no worker has tried the
items. Until they are acknowledged they count as ready.

A row of its own names the batch that an owner holds, so that a process started after a crash
finds the batch of the process before it.

A move takes items from one queue and puts them into another in one transaction, so exactly once.
An item keeps its value, its order and its attempts and, when the target stores them, its priority
and the time of its push. A FIFO queue has no priorities: an item that moves there keeps only its
order, and an item that moves from there to a priority queue needs a priority.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import InvalidInput, LeaseLost
from fdbqueue.service import instrumentation
from fdbqueue.service.assembly import QueueParts
from fdbqueue.service.bulk.remove import remove_places
from fdbqueue.service.clock import duration, now_us
from fdbqueue.service.consume.round import Effect, TakeRequest
from fdbqueue.service.items import Duration, Item
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.handoffs import (
    BatchHold,
    Handoff,
    begin_handoff,
    parse_handoff,
    read_hold,
    remove_pieces,
    write_pieces,
)
from fdbqueue.service.storage.item_keys import End, Loaded
from fdbqueue.service.storage.tables import HANDOFF_NAME_BYTES, Kind
from fdbqueue.service.transactions import run, unlimited

OWNER_BYTES = 16
#: Two values of ``Codec.holds``: such codecs have no values in common.
_INCOMPATIBLE_VALUES = {"json", "bytes"}


class Batch(list[Item]):
    """Items that are leased together, in their order, by ``Queue.lease_batch``."""

    def __init__(self, items: Iterable[Item], loaded: Sequence[Loaded], hold: BatchHold) -> None:
        super().__init__(items)
        self.loaded = loaded
        self.hold = hold

    @classmethod
    def empty(cls) -> Batch:
        """Return a batch of no items, which has no lease."""
        return cls([], (), BatchHold(b"", b"", 0))

    @property
    def size_bytes(self) -> int:
        """The total length of the stored values."""
        return sum([item.size_bytes for item in self])


class Batches:
    """Lease, acknowledge and requeue the batches of one queue.

    Args:
        parts: The queue's parts.
    """

    def __init__(self, parts: QueueParts) -> None:
        self._runner = parts.runner
        self._store = parts.store
        self._group = parts.group

    def lease(self, count: int, end: End, seconds: Duration, owner: bytes | None) -> Batch:
        """Lease items from one end under one token; return an empty batch when there are none."""
        queue = self._store.queue
        lasting = duration(queue, "seconds", seconds)
        owned = os.urandom(OWNER_BYTES) if owner is None else _owner_of(queue, owner)
        request = TakeRequest(end, count, self._effect(owned, lasting), requeue=self._requeue_all)
        submit = self._group.poppers[end].combiner.submit
        items = instrumentation.observed(
            "lease_batch", queue, functools.partial(submit, request, self._runner.database)
        )
        return items if isinstance(items, Batch) else Batch.empty()

    def _requeue_all(self, batch: Batch) -> None:
        requeue = functools.partial(self._requeue, batch=batch)
        run(unlimited(self._runner.database), requeue, wrote=lambda _: True)

    def ack(self, batch: Batch, tr: Transaction | None) -> None:
        """Remove a batch's items for good.

        Raises:
            LeaseLost: The batch has expired, or was acknowledged or requeued before.
        """
        if batch:
            self._runner.write("ack_batch", tr, functools.partial(self._ack, batch=batch))

    def requeue(self, batch: Batch, tr: Transaction | None) -> None:
        """Return a batch's items to their places.

        Raises:
            LeaseLost: The batch has expired, or was acknowledged or requeued before.
        """
        if batch:
            self._runner.write("return_batch", tr, functools.partial(self._requeue, batch=batch))

    def settle(self, owner: bytes, done_ids: Iterable[str]) -> int:
        """Remove the done items of an owner's batch, in any state, and requeue the others.

        Returns:
            How many were removed.
        """
        owner, place_named = _owner_of(self._store.queue, owner), self._store.keys.place_named
        done = dict.fromkeys(place_named(item_id) for item_id in done_ids)
        finish = functools.partial(self._finish, owner=owner, done=done.keys())
        return run(self._runner.database, finish) + remove_places(
            self._runner.database, self._store, done
        )

    # In a transaction

    def _effect(self, owner: bytes, lasting_us: int) -> Effect:
        """Return the effect of a take request that leases the taken items as one batch."""
        hold = BatchHold(owner, os.urandom(HANDOFF_NAME_BYTES), now_us() + lasting_us)

        def lease(count_change: CountChange, loaded: Sequence[Loaded]) -> list[Item]:
            tr = count_change.tr
            retried = any(one.has_attempts for one in loaded)
            held = Handoff([one.row for one in loaded], False, retried)
            write_pieces(tr, self._store.tables, hold.name, held)
            tr[self._store.tables.due(hold.deadline, Kind.BATCH, hold.name)] = b""
            tr[self._store.tables.batch(owner)] = hold.packed()
            for one in loaded:
                self._store.note_hidden(count_change, one.position)
            return Batch([one.item for one in loaded if isinstance(one.item, Item)], loaded, hold)

        return lease

    def _ack(self, tr: Transaction, batch: Batch) -> int:
        self._release(tr, batch.hold)
        count_change = self._store.count_change(tr)
        for loaded in batch.loaded:
            self._store.remove_taken(count_change, loaded)
        count_change.write()
        return len(batch)

    def _requeue(self, tr: Transaction, batch: Batch) -> int:
        self._store.format.check(tr)
        self._release(tr, batch.hold)
        count_change = self._store.count_change(tr)
        self._store.requeue_rows(count_change, [loaded.row for loaded in batch.loaded])
        count_change.write()
        return len(batch)

    def _finish(self, tr: Transaction, owner: bytes, done: Collection[bytes]) -> int:
        """Remove the items of an owner's batch at some places, requeue the others; count those."""
        stored = tr[self._store.tables.batch(owner)]
        hold = read_hold(owner, bytes(stored)) if stored.present() else None
        if hold is None:
            return 0
        self._store.format.check(tr)
        held = parse_handoff(begin_handoff(tr, self._store.tables, hold.name))
        self._remove_hold(tr, hold)
        rows = [] if held is None else held.rows
        removed = [row for row in rows if row.place in done]
        count_change = self._store.count_change(tr)
        self._store.requeue_rows(count_change, [row for row in rows if row.place not in done])
        for loaded in self._store.load(tr, removed, retried=True):
            self._store.remove_taken(count_change, loaded)
        count_change.write()
        return len(removed)

    def _release(self, tr: Transaction, hold: BatchHold) -> None:
        """Remove the batch's rows, if its owner still holds it."""
        stored = tr[self._store.tables.batch(hold.owner)]
        piece = tr[self._store.tables.handoff(hold.name, 0)]
        if not piece.present() or not stored.present() or bytes(stored) != hold.packed():
            raise LeaseLost(queue=self._store.queue)
        self._remove_hold(tr, hold)

    def _remove_hold(self, tr: Transaction, hold: BatchHold) -> None:
        remove_pieces(tr, self._store.tables, hold.name)
        tr.clear(self._store.tables.due(hold.deadline, Kind.BATCH, hold.name))
        tr.clear(self._store.tables.batch(hold.owner))


def _owner_of(queue: str, owner: Any) -> bytes:
    """Return the owner of a batch.

    Raises:
        InvalidInput: It is not sixteen bytes.
    """
    if isinstance(owner, bytes) and len(owner) == OWNER_BYTES:
        return owner
    raise InvalidInput(queue=queue, owner=owner, allowed=f"{OWNER_BYTES} bytes")


def check_move(source: QueueParts, target: QueueParts, priority: Any = None) -> None:
    """Refuse a move that is impossible for any item.

    Raises:
        InvalidInput: Both are one queue, or their databases differ; the codecs have no values
            in common; or a priority is missing, or given for a FIFO queue.
        InvalidPriority: The target cannot have that priority.
    """
    one, other = source.store, target.store
    names = {"queue": one.queue, "to": other.queue}
    if one.keys.subspace.key() == other.keys.subspace.key():
        raise InvalidInput(**names, reason="it is the same queue")
    if source.runner.database is not target.runner.database:
        raise InvalidInput(**names, reason="one transaction cannot reach both databases")
    if {one.codec.holds, other.codec.holds} == _INCOMPATIBLE_VALUES:
        codecs = f"{one.codec.name} to {other.codec.name}"
        raise InvalidInput(**names, reason=f"values are not converted from {codecs}")
    if not other.keys.has_priorities and priority is not None:
        raise InvalidInput(**names, reason="a FIFO queue takes no priority")
    if other.keys.has_priorities and not one.keys.has_priorities and priority is None:
        raise InvalidInput(**names, reason="the items have no priority, and need one")
    target.pusher.encoder.priorities.bound(priority)


#: How many items were moved, how long their values are; and of none, whether there may be some
#: behind the leases that had expired.
Moved = tuple[int, int, bool]


def move(
    tr: Transaction, source: QueueParts, target: QueueParts, count: int, end: End, priority: Any
) -> Moved:
    """Move items from one end.

    Args:
        tr: The transaction.
        source: The queue they come from.
        target: The queue they go to.
        count: Move at most this many.
        end: Which end.
        priority: The priority they get; None to keep their own.

    Raises:
        CorruptItem: One of them cannot be decoded; all stay where they are.
        InvalidInput: The target cannot hold one of them.
    """
    items, is_cut = source.taker.take(tr, source.consumer.pop_request(end, count, None))
    if items:
        target.pusher.put(tr, [target.pusher.encoder.of_moved(item, priority) for item in items])
    return len(items), sum([item.size_bytes for item in items]), is_cut


def move_now(
    source: QueueParts,
    target: QueueParts,
    count: int,
    end: End,
    priority: Any,
    tr: Transaction | None = None,
) -> tuple[int, int]:
    """Move items from one end, as :func:`move` does; return their number and their values' length.

    Without a transaction of the caller's, after one that has only buried expired leases there is
    another.
    """
    some = functools.partial(
        move, source=source, target=target, count=count, end=end, priority=priority
    )
    while True:
        moved, size_bytes, is_cut = source.runner.write("move", tr, some)
        if tr is not None or not is_cut:
            return moved, size_bytes
