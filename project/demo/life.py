"""Life: what goes on in the queues while the demo serves, at a small and even pace."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)

#: How often each step is done.
STEP_SECONDS = 5.0
#: How long an engine that fails is left alone.
PAUSE_SECONDS = 10.0
_STOP_SECONDS = 30.0


class Life:
    """A thread that does steps in turn, each as often as the others.

    Args:
        steps: What to do.
        every_seconds: How often each is done.
        pause_seconds: How long to pause when one has failed.
    """

    def __init__(
        self,
        steps: Sequence[Callable[[], None]],
        every_seconds: float = STEP_SECONDS,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._steps = steps
        self._gap_seconds = every_seconds / len(steps)
        self._pause_seconds = pause_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live, name="demo-life", daemon=True)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """End, once the step that is under way is done."""
        self._over.set()
        self._thread.join(_STOP_SECONDS)

    def _live(self) -> None:
        for step in itertools.cycle(self._steps):
            if self._over.wait(self._gap_seconds):
                return
            try:
                step()
            except Exception:
                facts = {"seconds": self._pause_seconds}
                logger.exception("the demo's life pauses after an error", extra=facts)
                self._over.wait(self._pause_seconds)
