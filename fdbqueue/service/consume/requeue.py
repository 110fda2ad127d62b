"""Requeue: put items back that were taken for a thread, or a task, that has gone.

They come back to their own places as they were, and no attempt is counted. More than 500, or
1,000,000 bytes, are put back in several transactions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.service import instrumentation
from fdbqueue.service.consume.leases import Leases, token_of
from fdbqueue.service.items import Item
from fdbqueue.service.limits import BATCH_BYTES
from fdbqueue.service.runner import patient
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.reader import Loaded
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.transactions import run

#: A pop only clears what it takes, so it may take more than one transaction can write.
_MAX_ITEMS = 500


class Popped(list[Item]):
    """Items that were popped, with what it takes to put them back."""

    def __init__(self, items: Iterable[Item], loaded: Sequence[Loaded]) -> None:
        super().__init__(items)
        self.loaded = loaded


def pop(
    store: ItemStore, tr: Transaction, count_change: CountChange, loaded: Sequence[Loaded]
) -> Popped:
    """Remove items for good: what a pop does to what it takes."""
    items = []
    for one in loaded:
        store.remove(tr, count_change, one)
        assert isinstance(one.item, Item)
        items.append(one.item)
    return Popped(items, loaded)


def pop_for_a_task(
    store: ItemStore, tr: Transaction, count_change: CountChange, loaded: Sequence[Loaded]
) -> Popped:
    """Remove items that may come back, for a task that may be cancelled."""
    for one in loaded:  # later pushes go behind what may come back
        store.note_hidden(count_change, one.position)
    return pop(store, tr, count_change, loaded)


class Requeuer:
    """Put back the items of one queue, in transactions without a time limit.

    What is put back is removed from the list that was given, so that after an error it holds
    what is not back.

    Args:
        database: Anything with ``create_transaction()``.
        store: The queue's items.
        leases: Its leases.
    """

    def __init__(self, database: Database, store: ItemStore, leases: Leases) -> None:
        self._database = patient(database)
        self._store = store
        self._leases = leases

    def requeue_popped(self, items: Popped) -> None:
        """Put popped items back."""
        while items:
            count = _fitting(items)
            self._run(functools.partial(self._restore, loaded=items.loaded[:count]))
            items.loaded = items.loaded[count:]
            del items[:count]

    def requeue_leased(self, items: list[Item]) -> None:
        """Give leases back, those that are still held."""
        while items:
            count = _fitting(items)
            tokens = [token_of(item) for item in items[:count]]
            self._run(functools.partial(self._leases.requeue, tokens=tokens))
            del items[:count]

    def _restore(self, tr: Transaction, loaded: Sequence[Loaded]) -> None:
        count_change = self._store.count_change()
        for one in loaded:
            self._store.restore(tr, count_change, one)
        count_change.write(tr)

    def _run(self, function: Callable[[Transaction], None]) -> None:
        instrumentation.observed(
            "return",
            self._store.queue,
            lambda: run(self._database, function, wrote=lambda _: True),
        )


def _fitting(items: Sequence[Item]) -> int:
    """Return how many items one transaction puts back: at least one."""
    size = 0
    for count, item in enumerate(items[:_MAX_ITEMS]):
        size += item.size_bytes
        if count and size > BATCH_BYTES:
            return count
    return min(len(items), _MAX_ITEMS)
