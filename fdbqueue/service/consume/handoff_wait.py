"""Decide when to look for what another process was asked to take, and when to take over."""

from __future__ import annotations

import time
from collections.abc import Callable

#: A process whose request is the oldest takes over when no process has taken anything for as long
#: as this many commits take; and the bounds of that time in seconds.
_PATIENCE_COMMITS = 4.0
_MIN_PATIENCE_SECONDS, _MAX_PATIENCE_SECONDS = 0.004, 0.5
#: When to look for a handoff, in parts of the time it usually takes.
_FIRST_LOOK, _NEXT_LOOK = 0.6, 0.25
#: A process that has waited this long takes over, whatever others take.
_MAX_WAIT_SECONDS = 1.0


class HandoffWait:
    """Decide when to look for a handoff, and when no process seems to be at work.

    Args:
        usual_seconds: How long it took until now.
        commit_seconds: How long a commit takes.
    """

    def __init__(self, usual_seconds: float, commit_seconds: float) -> None:
        patience = _PATIENCE_COMMITS * commit_seconds
        #: For how long no process must have taken anything.
        self._patience = min(max(patience, _MIN_PATIENCE_SECONDS), _MAX_PATIENCE_SECONDS)
        self._pause = usual_seconds * _FIRST_LOOK
        self._next_pause = usual_seconds * _NEXT_LOOK
        self._taken: int | None = None
        self._began = self._since = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return time.monotonic() - self._began

    def pause(self) -> None:
        """Sleep until it is worth looking."""
        time.sleep(min(self._pause, _MAX_PATIENCE_SECONDS))
        self._pause = self._next_pause
        self._next_pause *= 1.2

    def is_over(self, taken: int, place: Callable[[], int]) -> bool:
        """Tell whether for too long no process has taken anything, or nothing for this one.

        Args:
            taken: How many items were ever taken.
            place: Returns how many help requests are older; each has its time to take over.
        """
        now = time.monotonic()
        if taken != self._taken:
            self._taken, self._since = taken, now
        if now - self._began > _MAX_WAIT_SECONDS:
            return True
        idle = now - self._since
        return idle > self._patience and idle > self._patience * (1 + place())
