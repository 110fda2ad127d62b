"""Whose turn it is: which queue gives next, and which thread takes from all queues at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from fdbqueue.locks import RLock
from fdbqueue.service.consume.consumer import Consumer
from fdbqueue.service.consume.wakeups import ItemWatch

#: For how long after a conflict a process takes from one queue at a time.
_CONTENDED_SECONDS = 0.25


class Consumers(NamedTuple):
    """The queues to take from, in the order that was given.

    Attributes:
        consumers: What takes from each.
        watches: The watch of each.
        stale_at: When to ask for them anew, by :func:`time.monotonic`.
    """

    consumers: tuple[Consumer, ...]
    watches: tuple[ItemWatch, ...]
    stale_at: float


class Turns:
    """What the calls of this process on the same several queues share: who is at work, whose turn.

    Args:
        fair: Whether each call begins behind the queue that gave last.
    """

    def __init__(self, *, fair: bool) -> None:
        self._fair = fair
        self._last = ""
        self._mutex = RLock()  # a signal handler may run in the thread that holds it
        self._at_work = threading.Lock()
        self._until = 0.0

    def begins(self, own: threading.Lock) -> bool:
        """Tell whether the calling thread may take from all queues in one transaction.

        It may until it releases its lock ``own``.
        """
        if time.monotonic() < self._until:
            return False
        with self._mutex:
            if self._at_work.locked():
                return False
            self._at_work = own
            return True

    def note_conflict(self) -> None:
        """Take from one queue at a time, for a while."""
        self._until = time.monotonic() + _CONTENDED_SECONDS

    def note_turn(self, name: str) -> None:
        """Note which queue gave last."""
        self._last = name

    def in_turn(self, consumers: Sequence[Consumer]) -> Sequence[Consumer]:
        """Return the queues in the order in which a call that begins now looks at them."""
        if not self._fair or not self._last:
            return consumers
        at = 1 + next((n for n, one in enumerate(consumers) if one.name == self._last), -1)
        return [*consumers[at:], *consumers[:at]]
