"""Requeue items that were taken for a thread or a task that no longer waits for them.

They return to their own places as they were, and no attempt is counted. More than 500 items or
1,000,000 bytes take several transactions.
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
from fdbqueue.service.storage.reader import Loaded
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.transactions import run

#: A pop only clears what it takes, so it may take more than one transaction can write.
_MAX_ITEMS = 500


class Popped(list[Item]):
    """Popped items, with the stored rows that requeue them."""

    def __init__(self, items: Iterable[Item], loaded: Sequence[Loaded]) -> None:
        super().__init__(items)
        self.loaded = loaded


class Requeuer:
    """Requeue the items of one queue, in transactions without a time limit.

    Requeued items are removed from the given list, so after an error it holds the others.

    Args:
        database: Anything with ``create_transaction()``.
        store: The queue's items.
        leases: The queue's leases.
    """

    def __init__(self, database: Database, store: ItemStore, leases: Leases) -> None:
        self._database = patient(database)
        self._store = store
        self._leases = leases

    def requeue_popped(self, items: Popped) -> None:
        """Requeue popped items."""
        while items:
            count = _fitting_count(items)
            self._run(functools.partial(self._requeue, loaded=items.loaded[:count]))
            items.loaded = items.loaded[count:]
            del items[:count]

    def requeue_leased(self, items: list[Item]) -> None:
        """Requeue leased items; those whose lease was lost are skipped."""
        while items:
            count = _fitting_count(items)
            tokens = [token_of(item) for item in items[:count]]
            self._run(functools.partial(self._leases.requeue, tokens=tokens))
            del items[:count]

    def _requeue(self, tr: Transaction, loaded: Sequence[Loaded]) -> None:
        count_change = self._store.count_change()
        for one in loaded:
            self._store.requeue_taken(tr, count_change, one)
        count_change.write(tr)

    def _run(self, function: Callable[[Transaction], None]) -> None:
        instrumentation.observed(
            "return",
            self._store.queue,
            lambda: run(self._database, function, wrote=lambda _: True),
        )


def _fitting_count(items: Sequence[Item]) -> int:
    """Return how many items one transaction requeues: at least one."""
    size = 0
    for count, item in enumerate(items[:_MAX_ITEMS]):
        size += item.size_bytes
        if count and size > BATCH_BYTES:
            return count
    return min(len(items), _MAX_ITEMS)
