"""FoundationDB's published recipes for queues and priority queues, as data for tests.

Transcribed from its documentation; only the way a function is run in a transaction and
the subspace are the caller's. They lose and repeat items where a commit's outcome is
unknown; here they show that both sides read what the other wrote.
"""

from __future__ import annotations

import os
from typing import Any

import fdb.tuple

from fdbqueue.service import transactional


class PythonQueue:
    """The Python recipe "Queues"."""

    def __init__(self, database: Any, subspace: Any) -> None:
        self._database = database
        self._queue = subspace

    def enqueue(self, value: bytes) -> None:
        """Put a value at the end."""

        @transactional
        def write(tr: Any) -> None:
            tr[self._queue[self._last_index(tr) + 1][os.urandom(20)]] = value

        write(self._database)

    def dequeue(self) -> bytes | None:
        """Take the first value."""

        @transactional
        def take(tr: Any) -> bytes | None:
            found = self._queue.range()
            for item in tr.get_range(found.start, found.stop, limit=1):
                del tr[item.key]
                return item.value
            return None

        return take(self._database)

    def _last_index(self, tr: Any) -> int:
        found = self._queue.range()
        for key, _ in tr.snapshot.get_range(found.start, found.stop, limit=1, reverse=True):
            return self._queue.unpack(key)[0]
        return 0


class PythonPriorityQueue:
    """The Python recipe "Priority Queues"."""

    def __init__(self, database: Any, subspace: Any) -> None:
        self._database = database
        self._pq = subspace

    def push(self, value: bytes, priority: float) -> None:
        """Put a value behind those of its priority."""

        @transactional
        def write(tr: Any) -> None:
            tr[self._pq[priority][self._next_count(tr, priority)][os.urandom(20)]] = value

        write(self._database)

    def pop(self, max: bool = False) -> bytes | None:
        """Take the value at one end."""

        @transactional
        def take(tr: Any) -> bytes | None:
            found = self._pq.range()
            for item in tr.get_range(found.start, found.stop, limit=1, reverse=max):
                del tr[item.key]
                return item.value
            return None

        return take(self._database)

    def peek(self, max: bool = False) -> bytes | None:
        """Return the value at one end."""

        @transactional
        def look(tr: Any) -> bytes | None:
            found = self._pq.range()
            for item in tr.get_range(found.start, found.stop, limit=1, reverse=max):
                return item.value
            return None

        return look(self._database)

    def _next_count(self, tr: Any, priority: float) -> int:
        found = self._pq[priority].range()
        for key, _ in tr.snapshot.get_range(found.start, found.stop, limit=1, reverse=True):
            return self._pq[priority].unpack(key)[0] + 1
        return 0


class JavaPriorityQueue(PythonPriorityQueue):
    """The Java recipe "Priority Queues": the same keys, values packed in a tuple."""

    def push(self, value: Any, priority: float) -> None:
        """Put a value behind those of its priority."""
        super().push(fdb.tuple.pack((value,)), priority)

    def pop(self, max: bool = False) -> Any:
        """Take the value at one end."""
        data = super().pop(max)
        return None if data is None else fdb.tuple.unpack(data)[0]
