"""A clock that tests set."""

from __future__ import annotations

import time


class Clock:
    """Takes the place of the module ``time`` for :func:`fdbqueue.service.clock.now_us`."""

    def __init__(self) -> None:
        self._advanced_ns = 0
        self._start_ns = time.time_ns()

    def time_ns(self) -> int:
        """Return the time, as ``time.time_ns`` does; it stands still."""
        return self._start_ns + self._advanced_ns

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._advanced_ns += int(seconds * 1_000_000_000)
