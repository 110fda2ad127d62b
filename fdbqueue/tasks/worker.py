"""The worker of one process: it leases tasks, runs them, and tells the project's receivers."""

from __future__ import annotations

import contextlib
import fnmatch
import logging
import math
import os
import queue as queues
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from django.db import close_old_connections

from fdbqueue.exceptions import EngineError, LeaseLost, OutcomeUnknown, text_of_error
from fdbqueue.service import Catalog, Item, Queue, SeveralQueues, Worker, error_code
from fdbqueue.tasks.compat import task_finished
from fdbqueue.tasks.ends import End
from fdbqueue.tasks.housekeeping import Housekeeping
from fdbqueue.tasks.runner import TaskRunner
from fdbqueue.tasks.source import TaskSource

logger = logging.getLogger(__name__)

#: How long a worker pauses after the engine has failed, at first and at most.
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 30.0
_BEAT_SECONDS = 0.5
#: How long a worker that ends waits for the receivers of ``task_finished``.
_TELLING_SECONDS = 60.0


class TaskWorker:
    """Run the tasks of one backend.

    Tasks are taken as their priorities say; those of several queues, from the first queue that has
    any. A worker waits without polling. It extends the leases of its tasks while they run. Where
    the engine fails, it finishes what runs, pauses, and tries again, unless it is not to wait.

    Args:
        backend: The backend.
        names: The queues as ``QUEUES`` names them, and patterns of names; empty for all.
        excluded: Queues to leave out, and patterns of names.
        threads: How many threads run tasks.
        prefetch: How many tasks are leased for each thread. More than one makes short tasks several
            times as fast, because they share commits; those that wait for a thread are RUNNING.
        limit: The most tasks.
        follow: Whether to wait for more when there are none.
        worker: The worker's id; None for the host's name and the process's number.
        catalog: The catalog of the queues; None for that of the setting.
        let_in: A context in which the caller's thread may be interrupted.
        on_end: Called with the end of each attempt once it is committed, one call at a time; with
            None where the lease was lost.
        on_stop: Called when an interrupt ends the work, with the number of running tasks.
        on_beat: Called at least every two seconds while the worker is alive.
    """

    def __init__(
        self,
        backend: Any,
        names: Sequence[str] = (),
        *,
        excluded: Sequence[str] = (),
        threads: int = 1,
        prefetch: int = 1,
        limit: float = math.inf,
        follow: bool = True,
        worker: str | None = None,
        catalog: Catalog | None = None,
        let_in: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        on_end: Callable[[End | None], None] = lambda _: None,
        on_stop: Callable[[int], None] = lambda _: None,
        on_beat: Callable[[], None] = lambda: None,
    ) -> None:
        self.backend = backend
        self.worker = f"{socket.gethostname()}:{os.getpid()}" if worker is None else worker
        self._threads = threads
        self._prefetch = prefetch
        self._limit = limit
        self._follow = follow
        self._let_in = let_in
        self._on_end = on_end
        self._on_stop = on_stop
        self._on_beat = on_beat
        options = backend.settings
        self.queue = _queue(backend, names, excluded, catalog or backend.catalog)
        self._source = TaskSource(
            self.queue,
            backend.records,
            lease_seconds=options.lease_seconds,
            keeps_successful=options.retention.successful != 0,
        )
        self._runner = TaskRunner(backend, self._source, self.worker)
        self._telling = _Telling(type(backend))
        self._house = Housekeeping(backend, catalog or backend.catalog)
        self._working: Worker | None = None
        self._is_stopped = False
        #: How many times in a row the engine has failed.
        self._failures = 0
        #: How many attempts succeeded, failed, or had lost their lease at the end.
        self.succeeded = self.failed = self.lost = 0

    def run(self) -> None:
        """Work until there is nothing to do, the limit is reached, or :meth:`stop` is called.

        After an interrupt, running tasks are finished first; a second one gives them back, so that
        other workers run them at once.
        """
        self._telling.start()
        try:
            self._keep_house()
            while self._goes_on():
                if self._work():
                    return
        except BaseException:
            running = [] if self._working is None else self._working.running()
            if self._source.give_back(running, self.worker):
                logger.warning("running tasks were given back", extra={"tasks": len(running)})
            raise
        finally:
            self._house.stop()
            self._telling.stop()
            self._runner.loop.close()

    def stop(self) -> None:
        """Lease nothing more; :meth:`run` returns once the running tasks are finished."""
        self._is_stopped = True
        if self._working is not None:
            self._working.stop()

    def _keep_house(self) -> None:
        """Keep schedules and retention from now on; a worker that does not stay does it once."""
        if self._follow:
            self._house.start()
        else:
            self._house.once()

    def _goes_on(self) -> bool:
        return not self._is_stopped and self._left() > 0

    def _left(self) -> float:
        return self._limit - self.succeeded - self.failed - self.lost

    def _work(self) -> bool:
        """Work until the work ends; return False where the engine has failed, and may return."""
        working = self._working = Worker(
            self._source,
            self._runner,
            concurrency=self._threads,
            prefetch=self._prefetch,
            seconds=self.backend.settings.lease_seconds,
            worker=self.worker,
            limit=self._left(),
            follow=self._follow,
            let_in=self._let_in,
            on_end=self._ended,
            on_stop=self._on_stop,
            on_beat=self._on_beat,
        )
        if self._is_stopped:
            return True
        try:
            working.run()
        except Exception as error:
            is_away = (
                isinstance(error, (EngineError, OutcomeUnknown)) or error_code(error) is not None
            )
            if not (is_away and self._follow):
                raise
            self._pause(error)
            return False
        self._failures = 0
        return True

    def _pause(self, error: Exception) -> None:
        """Pause after the engine has failed, each time for longer."""
        seconds = min(_FIRST_PAUSE_SECONDS * 2**self._failures, _MAX_PAUSE_SECONDS)
        self._failures += 1
        facts = {"worker": self.worker, "error": text_of_error(error), "seconds": seconds}
        logger.warning("the engine has failed; the worker will try again", extra=facts)
        deadline = time.monotonic() + seconds
        while self._goes_on() and time.monotonic() < deadline:
            self._on_beat()
            with self._let_in():
                time.sleep(_BEAT_SECONDS)

    def _ended(self, item: Item, error: BaseException | None) -> None:
        """Count an attempt that has ended, and tell the receivers."""
        end = self._source.forget(item)
        if end is None or not end.is_done:
            end = None
            self.lost += isinstance(error, LeaseLost)
            self.failed += not isinstance(error, LeaseLost)
        elif end.is_success:
            self.succeeded += 1
            self._failures = 0
        else:
            self.failed += 1
        if end is not None and (end.is_success or end.retry_seconds is None):
            self._telling.tell(end, error)
        self._log(item, end)
        _observe(end, item)
        self._on_end(end)

    def _log(self, item: Item, end: End | None) -> None:
        """Log the end of an attempt, without arguments."""
        facts: dict[str, Any] = {"queue": item.queue, "worker": self.worker}
        if end is None:
            facts |= {"item": item.id, "attempts": item.attempts + 1}
            logger.info("a task was not ended by this worker", extra=facts)
            return
        facts |= {"task": end.call.task, "id": end.call.id}
        facts |= {"attempts": len(end.attempts.workers), "seconds": seconds_of(end)}
        if end.is_success:
            logger.info("a task has succeeded", extra=facts)
        elif end.retry_seconds is not None:
            facts |= {"error": end.failure and end.failure.exception, "again": end.retry_seconds}
            logger.info("an attempt at a task has failed", extra=facts)
        else:
            facts |= {"error": end.failure and end.failure.exception}
            logger.info("a task has failed", extra=facts)


def seconds_of(end: End) -> float:
    """Return how long an attempt took."""
    began = end.attempts.latest
    return 0.0 if began is None else max(0, end.moment - began) / 1_000_000


#: What is called with each end of an attempt, None where its lease was lost, and its item.
observers: list[Callable[[End | None, Item], None]] = []


def _observe(end: End | None, item: Item) -> None:
    for observer in observers:
        try:
            observer(end, item)
        except Exception:
            logger.exception("an observer of tasks has failed")


class _Told(NamedTuple):
    """An end to tell of, and its error."""

    end: End
    error: BaseException | None


class _Telling:
    """Send ``task_finished`` once the end of a task is committed, in a thread of its own.

    So receivers that take their time hold up no worker; they are called one at a time, and all of
    them before the worker ends, which waits for a minute at most.

    Args:
        sender: The class of the backend.
    """

    def __init__(self, sender: type) -> None:
        self._sender = sender
        self._told: queues.SimpleQueue[_Told | None] = queues.SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._send_all, name="fdbqueue-tasks-signals")
        self._thread.daemon = True
        self._thread.start()

    def tell(self, end: End, error: BaseException | None) -> None:
        self._told.put(_Told(end, error))

    def stop(self) -> None:
        self._told.put(None)
        if self._thread is not None:
            self._thread.join(_TELLING_SECONDS)

    def _send_all(self) -> None:
        while (told := self._told.get()) is not None:
            close_old_connections()
            try:
                self._send(told)
            except Exception:
                facts = {"task": told.end.call.task, "id": told.end.call.id}
                logger.exception("a receiver of task_finished has failed", extra=facts)
            finally:
                close_old_connections()

    def _send(self, told: _Told) -> None:
        if told.error is None:
            task_finished.send(self._sender, task_result=told.end.result)
            return
        try:
            raise told.error  # Django's own receiver logs the exception that is being handled
        except BaseException:  # noqa: BLE001  # the one raised above
            task_finished.send(self._sender, task_result=told.end.result)


def _queue(
    backend: Any, names: Sequence[str], excluded: Sequence[str], catalog: Catalog
) -> Queue | SeveralQueues:
    """Return the queue with the tasks of some names, or several."""
    prefix = backend.queue_prefix
    wanted = [prefix + name for name in names] or backend.names()
    left_out = [prefix + name for name in excluded]

    def is_in(name: str) -> bool:
        return not any(fnmatch.fnmatchcase(name, one) for one in left_out)

    wanted = [name for name in wanted if is_in(name)]
    if len(wanted) == 1 and "*" not in wanted[0]:
        return catalog.queue(wanted[0])
    several = catalog.several(wanted)
    return several.limited_to(is_in) if left_out else several
