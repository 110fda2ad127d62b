"""Bound the memory that parsed bodies take in a process.

JSON of 5 MB can become more than 100 MB of Python objects. So the bodies that a process has parsed
and not finished with are together no longer than one body may be; a further body waits for its
turn, unparsed. Threads lose little by it: parsing and encoding hold the interpreter's lock.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator

from fdbqueue.exceptions import DeadlineExceeded

#: Shorter bodies do not wait: those of all threads together are not much.
SMALL_BYTES = 20_000


class _Reservation:
    """A body's part of the memory; its gate is locked until it is its turn."""

    def __init__(self, size: int, limit_bytes: int) -> None:
        self.size = size
        self.limit_bytes = limit_bytes
        self.gate = threading.Lock()
        self.gate.acquire()


class BodyMemory:
    """A number of bytes that all threads of a process share: first come, first served.

    The mutex is held by ``with`` alone and never while waiting, because a signal handler may raise
    an exception in a worker's main thread at any point. Each thread waits for a lock of its own.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._line: deque[_Reservation] = deque()
        self._held: set[_Reservation] = set()

    @contextlib.contextmanager
    def reserved(self, size: int, limit_bytes: int, timeout_seconds: float) -> Iterator[None]:
        """Wait until there is memory for a body, and keep it reserved during a ``with`` block.

        Args:
            size: The body's length in bytes.
            limit_bytes: How much memory there is; a longer body reserves all of it.
            timeout_seconds: How long to wait.

        Raises:
            DeadlineExceeded: There was not enough memory in time.
        """
        if size <= SMALL_BYTES:
            yield
            return
        reservation = _Reservation(min(size, limit_bytes), limit_bytes)
        try:
            with self._mutex:
                self._line.append(reservation)
                self._admit()
            if not reservation.gate.acquire(timeout=timeout_seconds):
                raise DeadlineExceeded
            yield
        finally:
            with self._mutex:
                self._held.discard(reservation)
                if reservation in self._line:
                    self._line.remove(reservation)
                self._admit()

    @property
    def _used_bytes(self) -> int:
        return sum(reservation.size for reservation in self._held)

    def _admit(self) -> None:
        """Let the first in line go on, as long as there is memory for it."""
        while self._line:
            first = self._line[0]
            if self._used_bytes + first.size > first.limit_bytes:
                return
            self._held.add(first)
            self._line.popleft()
            first.gate.release()
