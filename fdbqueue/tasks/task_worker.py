"""The worker of one process: it leases tasks, runs them, and tells the project's receivers.

How it ends:

- *The first signal*, or :meth:`TaskWorker.stop`: nothing more is leased. What is leased runs, and
  ends; the receivers of ``task_finished`` are called for all that has ended.
- *The second signal*, a ``KeyboardInterrupt`` wherever the main thread is, but behind a commit of
  its own: :class:`TaskSource` closes. From then on no attempt begins, which one lock decides, and
  no lease is handed out. What has ended is committed, the rest is given back. Receivers that are
  not called by then are not.
- *An error* of the engine, if the worker is not to wait for it, or of its own, such as one that
  ends any of its threads (:mod:`fdbqueue.own_threads`): as a second signal.
- *A task* can do none of this, whatever it raises: its thread catches it (``runner.py``), and what
  a project's schedules, backoffs and receivers raise is logged by the thread that called them.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from fdbqueue.connections import left_in_order
from fdbqueue.exceptions import EngineError, LeaseLost, OutcomeUnknown, is_a, text_of_error
from fdbqueue.logs import get_logger
from fdbqueue.own_threads import WorkerThreads
from fdbqueue.service import (
    AlternatingLeases,
    Catalog,
    Item,
    Queue,
    SeveralQueues,
    Worker,
    WorkerCounts,
    error_code,
    is_among,
    share_a_name,
    worker_here,
)
from fdbqueue.steady import monotonic
from fdbqueue.tasks.compat import backends, task_finished
from fdbqueue.tasks.ends import AttemptEnd
from fdbqueue.tasks.housekeeping import Housekeeping
from fdbqueue.tasks.key_limit_queues import family_of
from fdbqueue.tasks.results import ended_result
from fdbqueue.tasks.runner import TaskRunner
from fdbqueue.tasks.source import AHEAD_SECONDS, MAX_LEASED_PER_THREAD, TaskSource
from fdbqueue.tasks.time_limits import LeftAttempt, Limit, ParentWatch

logger = get_logger(__name__)

#: How long a worker pauses after the engine has failed, at first and at most.
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 30.0
_BEAT_SECONDS = 0.5


class TaskWorker:
    """Run the tasks of one backend.

    Tasks are taken as their priorities say; those of several queues, from the first queue that has
    any. A worker waits without polling. It extends the leases of its tasks while they run. If
    the engine fails, it finishes what runs, pauses, and tries again, unless it is not to wait.

    Args:
        backend: The backend.
        names: The queues as ``QUEUES`` names them, and patterns of names; empty for all.
        excluded: Queues to leave out, and patterns of names.
        threads: How many threads run tasks.
        prefetch: How many tasks are leased for each thread; None for as many as take a tenth of a
            second, 16 at most. Short tasks share commits; those that wait for a thread are RUNNING.
        limit: The most tasks.
        follow: Whether to wait for more when there are none.
        worker: The worker's id; None for the host's name and the process's number.
        catalog: The catalog of the queues; None for that of the setting.
        let_in: A context in which the caller's thread may be interrupted.
        on_end: Called with the end of each attempt once it is committed, one call at a time; with
            None if the lease was lost.
        on_stop: Called when an interrupt ends the work, with the number of running tasks.
        watch: What is shared with a parent that ends this process if an attempt does not end.
        left: The attempts that the process before held when it was ended for that: first of all,
            those that are over fail, and the others are requeued.

    Attributes:
        is_to_be_replaced: Whether this process is to end because a task does not end in time.
    """

    def __init__(
        self,
        backend: Any,
        names: Sequence[str] = (),
        *,
        excluded: Sequence[str] = (),
        threads: int = 1,
        prefetch: int | None = None,
        limit: float = math.inf,
        follow: bool = True,
        worker: str | None = None,
        catalog: Catalog | None = None,
        let_in: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        on_end: Callable[[AttemptEnd | None], None] | None = None,
        on_stop: Callable[[int], None] = lambda _: None,
        watch: ParentWatch | None = None,
        left: Sequence[LeftAttempt] = (),
    ) -> None:
        if catalog is not None:
            backend = backend.over(catalog)
        catalog = backend.catalog
        self._home = catalog.home
        self.backend = backend
        self.worker = f"{socket.gethostname()}:{os.getpid()}" if worker is None else worker
        self._threads = threads
        self._prefetch = prefetch
        self._limit = limit
        self._follow = follow
        self._let_in = let_in
        self._on_end = on_end
        self._on_stop = on_stop
        options = backend.settings
        taken = _TakenQueues(backend, names, excluded)
        self.queue = taken.queue(catalog)
        self._beside = taken.beside(self.queue, catalog)
        self._source = TaskSource(
            self.queue,
            backend.records,
            lease_seconds=options.lease_seconds,
            threads=threads,
            keeps_successful=options.retention.successful != 0,
            backend=backend,
            beside=self._beside,
            watch=watch,
        )
        self._left = left
        self._is_watched = watch is not None
        self.is_to_be_replaced = False
        self._own_threads = WorkerThreads()
        self._source.threads = self._own_threads
        self._runner = TaskRunner(
            backend,
            self._source,
            self.worker,
            on_over=self._note_over,
            watch=watch,
            own_threads=self._own_threads,
        )
        self._presence = catalog.presences.of(
            worker_here(
                self.worker,
                "tasks",
                self.queue.name,
                threads=threads,
                serves=taken.wanted,
                left_out=taken.left_out,
            ),
            self._counts,
            self._runner.look_for_aborts,
            self._own_threads,
        )
        #: The ends, each with its error, whose receivers of ``task_finished`` are not called yet.
        self._untold: deque[tuple[AttemptEnd, BaseException | None]] = deque()
        self._source.ends_spent = self._ends_spent
        #: One end is counted at a time, whichever thread it comes from.
        self._ending = threading.RLock()
        self._house = Housekeeping(backend, catalog, self._own_threads)
        self._working: Worker | None = None
        self._is_stopped = False
        #: How many times in a row the engine has failed.
        self._failures = 0
        #: How many attempts succeeded, failed, or had lost their lease at the end; and how many of
        #: those that failed were not their task's last.
        self.succeeded = self.failed = self.lost = self.retried = 0

    def run(self) -> None:
        """Work until there is nothing to do, the limit is reached, or :meth:`stop` is called.

        After an interrupt, running tasks are finished first; a second one gives them back, so that
        other workers run them at once.

        Raises:
            ThreadDied: One of its threads has ended by an exception.
        """
        with self._own_threads, self._presence:
            self._run()

    def _run(self) -> None:
        try:
            for one in self._left:
                self._settle_left(one)
            self._keep_house()
            while self._goes_on():
                if self._work() and not self._has_more():
                    break
            self._own_threads.check()
            self._tell_finished()
        except BaseException:
            self._give_back()
            raise
        finally:
            self._house.stop()
            self._runner.close()
            if self._beside is not None:
                self._beside.close()

    def _counts(self) -> WorkerCounts:
        """Return what this worker says of its tasks to others."""
        running = 0 if self._working is None else len(self._working.running())
        return WorkerCounts(running, self.succeeded, self.failed)

    def stop(self) -> None:
        """Lease nothing more; :meth:`run` returns once the running tasks are finished."""
        self._is_stopped = True
        if self._working is not None:
            self._working.stop()

    def _give_back(self) -> None:
        """Give back what runs or waits for a thread."""
        for item in self._source.give_back(self.worker):
            self._ended(item, None)

    def _tell_finished(self) -> None:
        """Call the receivers of ``task_finished`` for what has ended, one after another."""
        sender = type(self.backend)
        while True:
            try:
                end, error = self._untold.popleft()
            except IndexError:
                return
            _send_finished(sender, end, error)
            del end, error  # not kept until the next

    def _keep_house(self) -> None:
        """Keep schedules and retention from now on; a worker that does not stay does it once."""
        self._house.start(once=not self._follow)
        if not self._follow:
            self._wait_for_house()

    def _wait_for_house(self) -> None:
        while self._house.is_at_work():
            self._own_threads.check()
            with self._let_in():
                self._house.join(_BEAT_SECONDS)

    def _has_more(self) -> bool:
        """Tell whether the outbox has more tasks, for a worker that does not stay."""
        moved = self._house.moved
        if self._follow or not self._goes_on() or not self._house.start_moving():
            return False
        self._wait_for_house()
        return self._house.moved > moved

    def _goes_on(self) -> bool:
        if self._is_stopped or self._own_threads.death is not None:
            return False
        return self.succeeded + self.failed + self.lost < self._limit

    def _work(self) -> bool:
        """Work until the work ends; return False if the engine has failed, and may return."""
        working = self._working = Worker(
            self._beside or self.queue,
            self._run_task,
            leases=self._source.leases(self.worker),
            threads=self._threads,
            prefetch=MAX_LEASED_PER_THREAD if self._prefetch is None else self._prefetch,
            ahead_seconds=AHEAD_SECONDS if self._prefetch is None else None,
            settle=self._source.settle,
            seconds=self.backend.settings.lease_seconds,
            limit=self._limit - self.succeeded - self.failed - self.lost,
            follow=self._follow,
            let_in=self._let_in,
            on_end=self._ended,
            on_free=self._tell_finished,
            on_stop=self._on_stop,
            home_of=self._home,
            own_threads=self._own_threads,
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
        deadline = monotonic() + seconds
        while self._goes_on() and monotonic() < deadline:
            with self._let_in():
                time.sleep(_BEAT_SECONDS)

    def _run_task(self, item: Item) -> None:
        with left_in_order():
            self._runner.run(item)

    def _ends_spent(self, item: Item) -> bool:
        """End a task whose attempts are used up, as soon as it is leased; tell whether it is one.

        If it waited for a thread, its lease might be lost once more.
        """
        if not self._runner.is_spent(item):
            return False
        self._end_without_run(item, functools.partial(self._runner.run, item))
        return True

    def _note_over(self, limit: Limit) -> None:
        """Have this process replaced, if it has a parent, because a task does not end in time."""
        call, queue = limit.attempt.call, limit.attempt.queue.home
        facts = {"task": call.task, "id": call.id, "queue": queue, "seconds": limit.seconds}
        with contextlib.suppress(Exception):  # what a handler raises ends no limits
            if limit.seconds:
                logger.warning("a task goes on after its time limit", extra=facts)
            else:
                logger.warning("an aborted task goes on", extra=facts)
        if not self._is_watched:
            return
        self.is_to_be_replaced = True
        self.stop()
        if limit.seconds:  # the wish of an abort is in the record already
            limit.attempt.over_seconds = limit.seconds
            self._source.note_change()

    def _settle_left(self, left: LeftAttempt) -> None:
        """End an attempt whose process was ended for it, or requeue one that it held beside that.

        If that fails, its lease expires.
        """
        try:
            item = self._source.take_over(left)
        except Exception as error:  # noqa: BLE001  # the engine is away, or others have the task
            facts = {"queue": self._home(left.queue), "error": type(error).__name__}
            logger.warning("an attempt of an ended process was left to its lease", extra=facts)
            return
        if left.is_over:
            self._end_without_run(item, functools.partial(self._runner.end_overdue, item, left))
        else:
            self._source.settle([item])

    def _end_without_run(self, item: Item, fail: Callable[[], None]) -> None:
        """End an attempt that the runner fails without calling the function."""
        error: BaseException | None = None
        try:
            fail()
        except Exception as raised:  # noqa: BLE001  # why it does not run; its end is noted
            error = raised
        try:
            self._source.end(item, error)
        except Exception as raised:  # noqa: BLE001  # then its lease expires
            error = raised
        self._ended(item, error)

    def _ended(self, item: Item, error: BaseException | None) -> None:
        """Count an attempt that has ended, and tell the receivers."""
        with self._ending:
            is_held, end = self._source.forget(item)
            if is_held:  # else it was given back
                self._count(item, end, error)
        if self._working is not None and not self._goes_on():  # not within the lock: it has one
            self._working.stop()

    def _count(self, item: Item, end: AttemptEnd | None, error: BaseException | None) -> None:
        if end is None or not end.is_done:
            end = None
            is_lost = is_a(error, LeaseLost)
            self.lost += is_lost
            self.failed += not is_lost
        else:
            if end.failure is None:
                self.succeeded += 1
                self._failures = 0
            else:
                self.failed += 1
                self.retried += end.retry_seconds is not None
            if end.retry_seconds is None:
                self._untold.append((end, error))
        if logger.isEnabledFor(logging.INFO):
            self._log(item, end)
        if observers:
            _observe(end, item)
        if self._on_end is not None:
            self._on_end(end)

    def _log(self, item: Item, end: AttemptEnd | None) -> None:
        """Log the end of an attempt, without arguments."""
        facts: dict[str, Any] = {"queue": self._home(item.queue), "worker": self.worker}
        if end is None:
            facts |= {"item": item.id, "attempts": item.attempts + 1}
            logger.info("a task was not ended by this worker", extra=facts)
            return
        facts |= {"task": end.call.task, "id": end.call.id}
        facts |= {"attempts": len(end.attempts.workers), "seconds": seconds_of(end)}
        if end.is_success:
            logger.info("a task has succeeded", extra=facts)
            return
        facts |= {"error": end.failure and end.failure.exception, "reason": end.message}
        if end.retry_seconds is not None:
            facts["again"] = end.retry_seconds
            logger.info("an attempt at a task has failed", extra=facts)
        else:
            logger.info("a task has failed", extra=facts)


def seconds_of(end: AttemptEnd) -> float:
    """Return how long an attempt took."""
    began = end.attempts.latest
    return 0.0 if began is None else max(0, end.moment - began) / 1_000_000


#: What is called with each end of an attempt, None if its lease was lost, and its item.
observers: list[Callable[[AttemptEnd | None, Item], None]] = []


def _observe(end: AttemptEnd | None, item: Item) -> None:
    for observer in observers:
        try:
            observer(end, item)
        except BaseException:
            with contextlib.suppress(BaseException):  # one that cannot be shown
                logger.exception("an observer of tasks has failed")


def _send_finished(sender: type, end: AttemptEnd, error: BaseException | None) -> None:
    """Send ``task_finished``; what a receiver raises is logged."""
    try:
        with left_in_order():
            result = ended_result(end)
            if error is None:
                task_finished.send(sender, task_result=result)
                return
            try:
                raise error  # Django's own receiver logs the exception that is being handled
            except BaseException:  # noqa: BLE001  # the one raised above
                task_finished.send(sender, task_result=result)
    except BaseException:
        facts = {"task": end.call.task, "id": end.call.id}
        with contextlib.suppress(BaseException):  # one that cannot be shown
            logger.exception("a receiver of task_finished has failed", extra=facts)
    finally:
        del error  # its traceback has this frame


class _TakenQueues:
    """Which queues a worker takes tasks from.

    Args:
        backend: The backend of the tasks.
        names: The queues as ``QUEUES`` names them, and patterns of names; empty for all.
        excluded: Queues to leave out, and patterns of names.
    """

    def __init__(self, backend: Any, names: Sequence[str], excluded: Sequence[str]) -> None:
        self._backend = backend
        self.wanted: list[str] = [backend.queue_prefix + one for one in names] or backend.names()
        self.left_out = [backend.queue_prefix + one for one in excluded]

    def has(self, name: str) -> bool:
        """Tell whether a queue is one of these, or may be if it is a pattern that is wanted."""
        is_one = is_among(name, self.wanted, self.left_out)
        return is_one and ("*" in name or self._backend.owns(name))

    def queue(self, catalog: Catalog) -> Queue | SeveralQueues:
        """Return the queue, or the queues.

        Those of one pattern are a family, of any size, and each of them has its turn. Of several
        names the first has its tasks run first; then a pattern stands for 1,000 queues at most.
        """
        wanted = [*filter(self.has, self.wanted)]
        if len(wanted) == 1 and "*" not in wanted[0]:
            return catalog.queue(wanted[0])
        if len(wanted) == 1 and not self.left_out and len(backends()) == 1:  # all are its own
            return catalog.several(wanted)
        return catalog.several(wanted, fair=False).limited_to(self.has)

    def beside(self, main: Queue | SeveralQueues, catalog: Catalog) -> AlternatingLeases | None:
        """Return the limited tasks of the same queues; None if none of these may have any."""
        asked = [*map(family_of, self.wanted)]
        families = [
            family
            for family in catalog.families()
            if family.has_parts and any(share_a_name(family.name, one) for one in asked)
        ]
        if not families:
            return None
        return AlternatingLeases(main, catalog, families, lambda name: self.has(catalog.home(name)))
