"""Batches: many items leased at once under one token, for whoever moves them elsewhere.

A batch is a claim: its items are off the ready ones, whole, in a few rows, and go back to
their places unchanged when it is given up or its time is over. That costs a small part of
what as many leases would, and counts no attempt: nobody has tried the items. Until they are
acknowledged they count as ready.

A row of its own names the claim that an owner holds, so that a process started after a crash
finds what the one before it held.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import fdb.tuple

from fdbqueue.exceptions import LeaseLost
from fdbqueue.service import tuples
from fdbqueue.service.claims import (
    Claim,
    Request,
    answer_claim,
    ask_claim,
    remove_claim,
    write_claim,
)
from fdbqueue.service.clock import now_us
from fdbqueue.service.counters import Tally
from fdbqueue.service.items import Item
from fdbqueue.service.keyspace.jobs import JobKeys
from fdbqueue.service.keyspace.meta import CLAIM_NAME_BYTES
from fdbqueue.service.reading import Loaded, Row
from fdbqueue.service.stock import Stock
from fdbqueue.service.wants import Effect

OWNER_BYTES = 16


class Hold(NamedTuple):
    """Which claim somebody holds, and until when, in microseconds."""

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
        moment = now_us()
        hold = Hold(owner, os.urandom(CLAIM_NAME_BYTES), moment + lasting_us)

        def lease(tr: Any, tally: Tally, loaded: Sequence[Loaded]) -> list[Item]:
            request = Request(hold.name, moment, hold.deadline, (len(loaded), 0))
            retried = any(one.has_attempts for one in loaded)
            claim = Claim(([one.row for one in loaded], []), False, retried)
            write_claim(tr, self._stock.meta, request, claim)
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
        self._put_back(tr, [loaded.row for loaded in batch.loaded])

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
        claim = answer_claim(ask_claim(tr, self._stock.meta, hold.name))
        self._remove_hold(tr, hold)
        rows = [] if claim is None else [*claim.rows[0], *claim.rows[1]]
        removed = [row for row in rows if row.place in done]
        self._put_back(tr, [row for row in rows if row.place not in done])
        tally = self._stock.tally()
        for loaded in self._stock.reader.load(tr, removed, retried=True):
            self._stock.remove(tr, tally, loaded)
        tally.write(tr)
        return len(removed)

    def _release(self, tr: Any, hold: Hold) -> None:
        """Remove the claim, if it is as it was made."""
        stored = tr[self.jobs.batch(hold.owner)]
        claim = tr[self._stock.meta.claim(hold.name, 0)]
        if not claim.present() or not stored.present() or bytes(stored) != hold.packed():
            raise LeaseLost(queue=self._stock.queue)
        self._remove_hold(tr, hold)

    def _remove_hold(self, tr: Any, hold: Hold) -> None:
        remove_claim(tr, self._stock.meta, hold.deadline, hold.name)
        tr.clear(self.jobs.batch(hold.owner))

    def _put_back(self, tr: Any, rows: Iterable[Row]) -> None:
        for row in rows:
            tr[self._stock.keys.key(row.place)] = row.value


def read_hold(owner: bytes, stored: bytes) -> Hold | None:
    """Return what is stored under an owner, None where that is no hold."""
    try:
        name, deadline = tuples.unpack(stored)
    except ValueError:
        return None
    if not isinstance(name, bytes) or not isinstance(deadline, int):
        return None
    return Hold(owner, name, deadline) if len(name) == CLAIM_NAME_BYTES else None
