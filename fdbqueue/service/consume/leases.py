"""Lease items: hide them while a worker processes them.

A lease is known by the item's place and a random secret.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeGuard

from fdbqueue.engines.protocols import Transaction
from fdbqueue.exceptions import CorruptItem, InvalidInput
from fdbqueue.service.clock import moment, now_us
from fdbqueue.service.items import Item
from fdbqueue.service.sizes import (
    MAX_REASON_CHARACTERS,
    MAX_WORKER_CHARACTERS,
)
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.handoffs import LeaseKey
from fdbqueue.service.storage.item_keys import (
    Loaded,
    text_of,
)
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.storage.tables import SECRET_BYTES, Hidden, State

#: What the key of a lease takes in the row of a help request, besides the place.
LEASE_KEY_BYTES = SECRET_BYTES + 3
#: What follows the name of a worker in a lease that it got together with others, ahead.
AHEAD = " (ahead)"


class Leases:
    """Lease, acknowledge, give up and extend the items of one queue.

    Each method takes part in the transaction it is given.

    Args:
        store: The queue's items.
    """

    def __init__(self, store: ItemStore) -> None:
        self.store = store

    def lease(
        self,
        count_change: CountChange,
        loaded: Sequence[Loaded],
        lasting_us: int,
        worker: bytes,
    ) -> list[Hidden]:
        """Lease items that were taken, from now on; the caller clears their rows."""
        now = now_us()
        until, size = now + lasting_us, SECRET_BYTES
        secrets = os.urandom(size * len(loaded))
        return [
            self.store.lease(
                count_change, one, until, secrets[i * size : (i + 1) * size], worker, now
            )
            for i, one in enumerate(loaded)
        ]

    def lease_items(
        self,
        count_change: CountChange,
        loaded: Sequence[Loaded],
        *,
        lasting_us: int,
        worker: bytes,
    ) -> list[Item]:
        """Lease items as :meth:`lease` does, and return them."""
        leases = self.lease(count_change, loaded, lasting_us, worker)
        return [*map(_leased, loaded, leases)]

    def items_of(
        self, tr: Transaction, keys: Sequence[LeaseKey]
    ) -> dict[LeaseKey, Item | CorruptItem]:
        """Return the items of the leases that are still held.

        Those that this process cannot decode, although another has, are requeued as they were, and
        stand there as errors.
        """
        reads = [self.store.begin_read(tr, State.LEASED, place) for place, _ in keys]
        held = {
            (place, secret): lease
            for (place, secret), read in zip(keys, reads, strict=True)
            if _is_held(lease := self.store.parse(State.LEASED, place, read), secret)
        }
        rows = [lease.row for lease in held.values()]
        loaded = self.store.load(tr, rows, retried=False)
        corrupt = [
            key for one, key in zip(loaded, held, strict=True) if isinstance(one.item, CorruptItem)
        ]
        if corrupt:
            self.requeue_keys(tr, corrupt)
        return {
            key: _leased(one, lease) if isinstance(one.item, Item) else one.item
            for one, (key, lease) in zip(loaded, held.items(), strict=True)
        }

    def any_held(self, tr: Transaction, keys: Sequence[LeaseKey]) -> bool:
        """Tell whether one of the leases is held."""
        found = self.store.facts(tr, State.LEASED, [place for place, _ in keys])
        pairs = zip(found, keys, strict=True)
        return any(_is_held(lease, secret) for lease, (_, secret) in pairs)

    def put_back(self, count_change: CountChange, held: Hidden) -> None:
        """Requeue a leased item as it was."""
        tr = count_change.tr
        self.store.reveal(count_change, held)
        self.store.take_key_again(tr, held.row.place)
        row = self.store.requeued_row(tr, held, held.attempts)
        self.store.requeue_hidden(count_change, held, row)

    def requeue_keys(self, tr: Transaction, keys: Sequence[LeaseKey]) -> None:
        """Requeue leased items as they were; those whose lease was lost are skipped."""
        count_change = self.store.count_change(tr)
        stored = self.store.format.begin_read(tr)
        read = [self.store.begin_read(tr, State.LEASED, place) for place, _ in keys]
        stored()
        for (place, secret), rows in zip(keys, read, strict=True):
            hidden = self.store.parse(State.LEASED, place, rows)
            if _is_held(hidden, secret):
                self.put_back(count_change, hidden)
        count_change.write()


def ahead(worker: str) -> str:
    """Return the name under which a worker leases what it cannot begin yet."""
    return worker[: MAX_WORKER_CHARACTERS - len(AHEAD)] + AHEAD


def reason_of(queue: str, reason: Any) -> str:
    """Return a reason, clipped at 1,000 characters.

    Raises:
        InvalidInput: It is not a string.
    """
    if not isinstance(reason, str):
        raise InvalidInput(queue=queue, reason=f"a text is needed, not {type(reason).__name__}")
    return reason[:MAX_REASON_CHARACTERS]


def worker_of(queue: str, worker: Any) -> bytes:
    """Return the name of a worker in UTF-8.

    Raises:
        InvalidInput: It is not a text of 1 to 200 characters, all of them printable.
    """
    if (
        isinstance(worker, str)
        and 1 <= len(worker) <= MAX_WORKER_CHARACTERS
        and worker.isprintable()
    ):
        return worker.encode()
    shown = worker[:MAX_WORKER_CHARACTERS] if isinstance(worker, str) else type(worker).__name__
    allowed = f"1 to {MAX_WORKER_CHARACTERS} printable characters"
    raise InvalidInput(queue=queue, worker=shown, allowed=allowed)


def _is_held(lease: Hidden | None, secret: bytes) -> TypeGuard[Hidden]:
    """Tell whether what was read at a place is the lease with a secret."""
    return lease is not None and lease.secret == secret


def _leased(loaded: Loaded, lease: Hidden) -> Item:
    """Return an item that was taken as the item of its lease."""
    item = loaded.item
    assert isinstance(item, Item)
    return Item(  # several times as fast as replace()
        item.value,
        item.priority,
        item.id,
        item.pushed_at,
        lease.attempts,
        item.size_bytes,
        "leased",
        f"{item.id}.{text_of(lease.secret)}",
        moment(lease.until),
        queue=item.queue,
        worker=lease.worker.decode() or None,
    )
