"""Batches: many items leased at once under one token, for whoever moves them elsewhere.

A batch is stored as a handoff is: its items are off the ready ones, whole, in a few rows, and
go back to their places unchanged when it is given up or expires. That costs a small part of
what as many leases would, and counts no attempt, because no worker has tried the items. Until
they are acknowledged they count as ready.

A row of its own names the batch that an owner holds, so that a process started after a crash
finds what the one before it held.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import fdb.tuple

from fdbqueue.exceptions import LeaseLost
from fdbqueue.service import tuples
from fdbqueue.service.clock import now_us
from fdbqueue.service.consume.requests import Effect
from fdbqueue.service.items import Item
from fdbqueue.service.storage.counts import Tally
from fdbqueue.service.storage.handoffs import (
    Handoff,
    answer_handoff,
    ask_handoff,
    remove_pieces,
    write_pieces,
)
from fdbqueue.service.storage.reader import Loaded
from fdbqueue.service.storage.store import Stock
from fdbqueue.service.storage.tables import HANDOFF_NAME_BYTES, JobKeys, Kind

OWNER_BYTES = 16


class Hold(NamedTuple):
    """Which batch an owner holds, and until when, in microseconds."""

    owner: bytes
    name: bytes
    deadline: int

    def packed(self) -> bytes:
        """Return what is stored under the owner."""
        return fdb.tuple.pack((self.name, self.deadline))


class Batch(list[Item]):
    """Items that are leased together, in their order; ``size_bytes`` is that of their values.

    Made by ``Queue.lease_batch``.
    """

    def __init__(self, items: Iterable[Item], loaded: Sequence[Loaded], hold: Hold) -> None:
        super().__init__(items)
        self.loaded = loaded
        self.hold = hold

    @classmethod
    def empty(cls) -> Batch:
        """Return the batch of no items, which nobody holds."""
        return cls([], (), Hold(b"", b"", 0))

    @property
    def size_bytes(self) -> int:
        """How long the stored values are together."""
        return sum([item.size_bytes for item in self])


class Batches:
    """Lease, acknowledge and give back the batches of one queue.

    Each takes part in the transaction it is given.

    Args:
        stock: The queue's items.
    """

    def __init__(self, stock: Stock) -> None:
        self._stock = stock
        self.jobs = JobKeys(stock.meta)

    def effect(self, owner: bytes, lasting_us: int) -> Effect:
        """Return what leases items that were taken, all together."""
        hold = Hold(owner, os.urandom(HANDOFF_NAME_BYTES), now_us() + lasting_us)

        def lease(tr: Any, tally: Tally, loaded: Sequence[Loaded]) -> list[Item]:
            retried = any(one.has_attempts for one in loaded)
            held = Handoff([one.row for one in loaded], False, retried)
            write_pieces(tr, self._stock.meta, hold.name, held)
            tr[self._stock.meta.due(hold.deadline, Kind.BATCH, hold.name)] = b""
            tr[self.jobs.batch(owner)] = hold.packed()
            for one in loaded:
                self._stock.note_hidden(tally, one.position)
            return Batch([one.item for one in loaded if isinstance(one.item, Item)], loaded, hold)

        return lease

    def ack(self, tr: Any, batch: Batch) -> None:
        """Remove a batch's items for good.

        Raises:
            LeaseLost: It is not held any more.
        """
        self._release(tr, batch.hold)
        tally = self._stock.tally()
        for loaded in batch.loaded:
            self._stock.remove(tr, tally, loaded)
        tally.write(tr)

    def give_back(self, tr: Any, batch: Batch) -> None:
        """Put a batch's items back to their places.

        Raises:
            LeaseLost: It is not held any more.
        """
        self._release(tr, batch.hold)
        self._stock.requeue(tr, [loaded.row for loaded in batch.loaded])

    def settle(self, tr: Any, owner: bytes, done: Collection[bytes]) -> int:
        """Remove those of an owner's items for good that are done, and put the others back.

        Args:
            tr: The transaction.
            owner: Whose.
            done: The places of items that are done.

        Returns:
            How many were removed.
        """
        stored = tr[self.jobs.batch(owner)]
        hold = read_hold(owner, bytes(stored)) if stored.present() else None
        if hold is None:
            return 0
        held = answer_handoff(ask_handoff(tr, self._stock.meta, hold.name))
        self._remove_hold(tr, hold)
        rows = [] if held is None else held.rows
        removed = [row for row in rows if row.place in done]
        self._stock.requeue(tr, [row for row in rows if row.place not in done])
        tally = self._stock.tally()
        for loaded in self._stock.reader.load(tr, removed, retried=True):
            self._stock.remove(tr, tally, loaded)
        tally.write(tr)
        return len(removed)

    def _release(self, tr: Any, hold: Hold) -> None:
        """Remove the batch, if it is as it was made."""
        stored = tr[self.jobs.batch(hold.owner)]
        piece = tr[self._stock.meta.handoff(hold.name, 0)]
        if not piece.present() or not stored.present() or bytes(stored) != hold.packed():
            raise LeaseLost(queue=self._stock.queue)
        self._remove_hold(tr, hold)

    def _remove_hold(self, tr: Any, hold: Hold) -> None:
        remove_pieces(tr, self._stock.meta, hold.name)
        tr.clear(self._stock.meta.due(hold.deadline, Kind.BATCH, hold.name))
        tr.clear(self.jobs.batch(hold.owner))


def read_hold(owner: bytes, stored: bytes) -> Hold | None:
    """Return what is stored under an owner, None where that is no hold."""
    try:
        name, deadline = tuples.unpack(stored)
    except ValueError:
        return None
    if not isinstance(name, bytes) or not isinstance(deadline, int):
        return None
    return Hold(owner, name, deadline) if len(name) == HANDOFF_NAME_BYTES else None
