"""Bound what the bodies of requests take of a process's memory while they are worked on.

JSON of 5 MB can be more than 100 MB of Python's objects. So the bodies that a process has parsed
and not finished with are no longer together than one may be; what comes meanwhile waits for its
turn, as bytes. Threads lose little by it: parsing and encoding hold the interpreter's lock.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator

from fdbqueue.exceptions import DeadlineExceeded

#: Shorter bodies do not wait: all threads' together are not much.
SMALL_BYTES = 20_000


class Room:
    """So many bytes for all threads of a process, given out in the order they are asked for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._line: deque[object] = deque()
        self._used_bytes = 0

    @contextlib.contextmanager
    def taken(self, size: int, limit_bytes: int, timeout_seconds: float) -> Iterator[None]:
        """Wait until there is room for a body, and keep it for the length of a ``with`` block.

        Args:
            size: The body's length in bytes.
            limit_bytes: How much room there is; a longer body has all of it for itself.
            timeout_seconds: How long to wait.

        Raises:
            DeadlineExceeded: There was no room in time.
        """
        if size <= SMALL_BYTES:
            yield
            return
        size = min(size, limit_bytes)
        self._enter(size, limit_bytes, timeout_seconds)
        try:
            yield
        finally:
            with self._changed:
                self._used_bytes -= size
                self._changed.notify_all()

    def _enter(self, size: int, limit_bytes: int, timeout_seconds: float) -> None:
        turn = object()

        def is_my_turn() -> bool:
            return self._line[0] is turn and self._used_bytes + size <= limit_bytes

        with self._changed:
            self._line.append(turn)
            try:
                if not self._changed.wait_for(is_my_turn, timeout_seconds):
                    raise DeadlineExceeded
                self._used_bytes += size
            finally:
                self._line.remove(turn)
                self._changed.notify_all()
