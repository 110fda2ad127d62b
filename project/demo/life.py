"""Life: what goes on in the queues while the demo serves, at a small and even pace."""

from __future__ import annotations

import itertools
import logging
import random
import threading
from collections.abc import Callable, Sequence

from fdbqueue.exceptions import FdbQueueError
from fdbqueue.tasks.worker import TaskWorker
from project import tasks
from project.demo import jobs
from project.demo.flows import Stream

logger = logging.getLogger(__name__)

#: How often there is something new in each queue, and a new task.
_STEP_SECONDS = 5.0
#: How long a failing engine is left alone.
_PAUSE_SECONDS = 10.0
_STOP_SECONDS = 10.0


class Life:
    """Threads that push, take and finish items, and a worker that runs tasks.

    Args:
        streams: The work on each queue.
        chance: Decides what happens next.
    """

    def __init__(self, streams: Sequence[Stream], chance: random.Random) -> None:
        self._streams = streams
        self._chance = chance
        self._over = threading.Event()
        self._worker = TaskWorker(jobs.backend())
        self._threads = [
            threading.Thread(target=self._live, name="demo-queues", daemon=True),
            threading.Thread(target=self._worker.run, name="demo-tasks", daemon=True),
        ]

    def start(self) -> None:
        """Begin, in threads of its own."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End: what is under way is finished first."""
        self._over.set()
        tasks.closing.set()
        self._worker.stop()
        for thread in self._threads:
            thread.join(_STOP_SECONDS)

    def _live(self) -> None:
        steps = [self._step_of(stream) for stream in self._streams]
        steps.append(lambda: jobs.enqueue_some(self._chance))
        for step in itertools.cycle(steps):
            if self._over.wait(_STEP_SECONDS / len(steps)):
                return
            try:
                step()
            except FdbQueueError:
                logger.warning("the demo's life pauses, because the engine fails", exc_info=True)
                self._over.wait(_PAUSE_SECONDS)

    @staticmethod
    def _step_of(stream: Stream) -> Callable[[], None]:
        return lambda: stream.step(_STEP_SECONDS / 60)
