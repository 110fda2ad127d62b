"""What a worker process does beside its tasks: schedules and retention, in a thread of its own.

The thread uses the engine as any client does, and holds up no task. It looks at each slot of the
schedules; and about once a minute, at random moments, it asks whether it is its turn to prune.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import Any

from fdbqueue.service import Catalog
from fdbqueue.tasks.periodic import Periodic, is_engines
from fdbqueue.tasks.retention import Pruned, may_prune, prune

logger = logging.getLogger(__name__)

#: How long there is between two questions whether to prune: this, and up to as much again.
_PRUNE_SECONDS = 40.0
#: For how long a worker prunes at a time, and how it goes about it: it pauses four times as long
#: as each transaction took.
_MAX_PRUNE_SECONDS = 30.0
_PAUSE_FACTOR = 4
_STOP_SECONDS = 5.0
#: The thread looks up this much after a slot, so that not all workers do it at the same moment.
_SPREAD_SECONDS = 0.05


class Housekeeping:
    """Keep schedules and retention of a backend, from :meth:`start` to :meth:`stop`.

    Args:
        backend: The backend.
        catalog: Where its queues are.
    """

    def __init__(self, backend: Any, catalog: Catalog) -> None:
        self._backend = backend
        self._catalog = catalog
        self._periodic = Periodic(backend, catalog)
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="fdbqueue-tasks-house", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, once the transaction that is under way has ended; not later than five seconds."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def once(self) -> None:
        """Do what is due now, for a worker that does not stay."""
        self._periodic.enqueue_due()
        self._prune()

    def _run(self) -> None:
        prune_at = time.monotonic() + random.uniform(0, _PRUNE_SECONDS)
        while not self._is_over.is_set():
            self._periodic.enqueue_due()
            if time.monotonic() >= prune_at:
                self._prune()
                prune_at = time.monotonic() + random.uniform(1, 2) * _PRUNE_SECONDS
            left = self._periodic.seconds_left() + random.uniform(0, _SPREAD_SECONDS)
            self._is_over.wait(min(left, max(0.0, prune_at - time.monotonic())))

    def _prune(self) -> None:
        """Prune where it is this worker's turn; what prevents it is logged, and tried again."""
        try:
            if not may_prune(self._backend, self._catalog):
                return
            retention = self._backend.settings.retention
            pruned = prune(
                self._backend, retention, catalog=self._catalog, goes_on=self._paced().goes_on
            )
        except Exception as error:
            if is_engines(error):
                facts = {"error": type(error).__name__}
                logger.warning("the engine has failed; tasks are pruned later", extra=facts)
            else:
                logger.exception("ended tasks could not be removed")
            return
        if pruned.successful or pruned.failed:
            numbers = {"successful": pruned.successful, "failed": pruned.failed}
            alias = {"backend": self._backend.alias}
            logger.info("ended tasks were removed", extra={**numbers, **alias})

    def _paced(self) -> _Pace:
        return _Pace(self._is_over, self._periodic)


class _Pace:
    """How fast a worker prunes.

    Args:
        is_over: Set when the worker ends.
        periodic: The schedules, which come first.
    """

    def __init__(self, is_over: threading.Event, periodic: Periodic) -> None:
        self._is_over = is_over
        self._periodic = periodic
        self._deadline = time.monotonic() + _MAX_PRUNE_SECONDS
        self._since = time.monotonic()

    def goes_on(self, pruned: Pruned) -> bool:
        """Pause after a transaction, and tell whether there may be another."""
        now = time.monotonic()
        pause = _PAUSE_FACTOR * (now - self._since)
        if pruned.gave_way or now >= self._deadline or self._is_over.wait(pause):
            return False
        self._periodic.enqueue_due()
        self._since = time.monotonic()
        return True
