"""Queues in a subspace of their own, on the engine under test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fdbqueue.service import FifoQueue, PriorityQueue


@pytest.fixture
def fifo(database: Any, subspace: Any) -> FifoQueue:
    """An empty FIFO queue."""
    return FifoQueue(database, subspace, name="fifo")


@pytest.fixture
def floats(database: Any, subspace: Any) -> PriorityQueue:
    """An empty priority queue whose priorities are floats."""
    return PriorityQueue(database, subspace, priority_type="float", name="floats")


@pytest.fixture
def ints(database: Any, subspace: Any) -> PriorityQueue:
    """An empty priority queue whose priorities are integers."""
    return PriorityQueue(database, subspace, name="ints")


@pytest.fixture
def rows(database: Any, subspace: Any) -> Callable[[], list[tuple[bytes, bytes]]]:
    """The rows of ready items: keys without the subspace's prefix, and values."""

    def read() -> list[tuple[bytes, bytes]]:
        prefix = subspace.key()
        transaction = database.create_transaction()
        found = transaction.get_range(prefix, prefix + b"\xff")
        return [(row.key[len(prefix) :], row.value) for row in found]

    return read
