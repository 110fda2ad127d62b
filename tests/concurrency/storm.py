"""A process whose main thread is interrupted by signals while it works on a queue with others."""

from __future__ import annotations

import random
import signal
import threading
import time
from types import FrameType
from typing import Any

from fdb.subspace_impl import Subspace

from fdbqueue.exceptions import OutcomeUnknown
from fdbqueue.service import Queue, SeveralQueues
from tests.concurrency.kinds import Kind

#: How long after the last signal threads may take to be done.
_DEADLINE_SECONDS = 60
#: future_not_set
_NOT_READY = 2015


#: Where alarms come: anywhere else they would end the storm itself.
_INTERRUPTED = {one.__code__ for one in (Queue.pop_many, SeveralQueues.pop_many, Queue.push)}


class Alarm(Exception):
    """What the signal handler raises: an ordinary exception, as a job's timeout is."""


def start_alarms(dice: random.Random, longest_seconds: float) -> None:
    """Raise an alarm in the main thread again and again, at random moments of what it calls."""

    def ring(_: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, max(1e-5, dice.random() * longest_seconds))
        while frame is not None:
            if frame.f_code in _INTERRUPTED:
                raise Alarm
            frame = frame.f_back

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, longest_seconds)


def _is_not_ready(error: Exception) -> bool:
    """Tell whether an alarm was lost in a callback of the binding: then its future is not ready."""
    if isinstance(error, OutcomeUnknown):
        return error.context.get("fdb_code") == _NOT_READY
    return getattr(error, "code", None) == _NOT_READY


class Storm:
    """What the main thread and others took, and what the main thread was told."""

    def __init__(self, kind: Kind, queue: Queue | SeveralQueues, seed: int) -> None:
        self._kind = kind
        self._queue = queue
        self._dice = random.Random(seed)
        self.taken: list[str] = []
        self.errors: list[str] = []
        self.interrupted = 0
        self.unknown = 0

    def run(self, seconds: float, threads: int, longest_seconds: float) -> dict[str, Any]:
        """Work for a time, and return what came of it."""
        stop = threading.Event()
        others = [
            threading.Thread(target=self._work, args=(stop, n), daemon=True) for n in range(threads)
        ]
        for other in others:
            other.start()
        end = time.monotonic() + seconds
        start_alarms(self._dice, longest_seconds)
        while time.monotonic() < end:
            self._take_interrupted()
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        stop.set()
        for other in others:
            other.join(_DEADLINE_SECONDS)
        return {
            "taken": self.taken,
            "errors": self.errors,
            "interrupted": self.interrupted,
            "unknown": self.unknown,
            "hung": sum(other.is_alive() for other in others),
        }

    def _take_interrupted(self) -> None:
        items = None
        self.unknown += 1  # until it is known
        try:
            items = self._queue.pop_many(1, end=self._dice.choice(["min", "max"]))
        except Exception as error:
            if not isinstance(error, Alarm) and not _is_not_ready(error):
                raise
            self.interrupted += 1
            if getattr(error, "outcome_known", False) is True:
                self.unknown -= 1
            return
        self.taken += [self._kind.text(item.value) for item in items]
        self.unknown -= 1

    def _work(self, stop: threading.Event, number: int) -> None:
        dice = random.Random(number)
        try:
            while not stop.is_set():
                end = dice.choice(["min", "max"])
                for item in self._queue.pop_many(1, end=end):
                    self.taken.append(self._kind.text(item.value))
        except BaseException as error:  # noqa: BLE001  # told of
            self.errors.append(repr(error))


def rage(
    kind: Kind,
    database: Any,
    subspace: Subspace,
    seconds: float,
    threads: int,
    longest_seconds: float,
    seed: int,
    items: int,
) -> dict[str, Any]:
    """Pop from a full queue in a storm, and return what came of it."""
    queue = kind.open(database, subspace)
    texts = [str(number) for number in range(items)]
    priorities = [kind.priorities[n % len(kind.priorities)] for n in range(items)]
    queue.push_many(kind.pairs([kind.value(text) for text in texts], priorities))
    return Storm(kind, queue, seed).run(seconds, threads, longest_seconds)
