"""Call a function for each item of a queue, and acknowledge the item.

The caller's thread only waits: for threads to be free, for items, for the end. What it decides to
do, to lease items for all free threads, another thread does (the *aside*), so a signal handler that
raises in it ends a wait and nothing else. The other threads call the function, and one more extends
the leases of items that take long.

When the function has returned, the item is *done*. One thread collects: it acknowledges all items
that are done by then, and leases as many in the same transaction. It continues with the first of
these, and hands the others to the threads that wait. A thread whose item is done collects if no
other does; items that are done meanwhile are collected by the next free thread. A failed item is
given up by its own thread at once.

With ``prefetch`` more items are leased than there are threads. Then a thread collects only when no
leased item waits, or 50 ms after the first was done; and the thread aside acknowledges what has
been done for half a second, because all threads may be busy for long. It also puts back what is
not to wait (:mod:`fdbqueue.service.tools.line`), and all that waits if the work is to end.

An exception that ends a wait of the caller's thread (an interrupt) stops the leases. Then that
thread waits until nothing is being leased (``_asked``), which would run, and nothing runs
(``_running``): all that was done is acknowledged, and all else given up. A second exception ends
that wait, too: the leases of what runs expire, unless its threads go on to their end. The caller's
thread waits by functions in C that hold no lock, because an exception may come at any call. If one
of the other threads dies, all that is leased is given back (:mod:`fdbqueue.own_threads`).
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import queue as queues
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

from fdbqueue.exceptions import BatchTooLarge, CorruptItem, LeaseLost, type_name
from fdbqueue.locks import RLock
from fdbqueue.logs import get_logger
from fdbqueue.own_threads import OwnThread, ThreadDied, WorkerThreads
from fdbqueue.service.consume.consumer import MAX_ENDED
from fdbqueue.service.items import Item
from fdbqueue.service.queues import Queue
from fdbqueue.service.several import SeveralQueues
from fdbqueue.service.sizes import LEASE_SECONDS
from fdbqueue.service.storage.item_keys import End
from fdbqueue.service.tools.alternating import AlternatingLeases
from fdbqueue.service.tools.line import (
    Collect,
    Leased,
    LeaseExtender,
    Leases,
    Line,
    check_done,
    leases_of,
)
from fdbqueue.service.tools.presence import Presences, WorkerCounts, worker_here
from fdbqueue.steady import monotonic

logger = get_logger(__name__)

Outcome = Literal["handled", "failed", "lost"]

#: How long to wait for items that a limit keeps back, before looking whether it still does; and for
#: any, before letting in again what a signal raises: a finalizer may have swallowed that.
_WAIT_SECONDS, _LET_IN_SECONDS = 2.0, 20.0
#: How long one wait lasts at most: a signal right before it is handled only when it ends.
_SIGNAL_SECONDS = 0.5
#: How long a worker that one of its threads ends waits for what the others lease or end; and items
#: that are done for others, if items wait for a thread.
_CLOSING_SECONDS, _MOMENT_SECONDS = 5.0, 0.05


class Worker:
    """Work on the items of one queue, or of several.

    An item is acknowledged when the function returns. It is given up when the function raises,
    or returns an awaitable or a generator, which has not done anything yet: it is requeued
    after ``retry_delay_seconds``, and after the queue's ``max_attempts`` it is a dead letter.
    An item that cannot be decoded becomes a dead letter at once. With several queues the acks share
    transactions with each other, but not with the next lease, which may be of another queue.

    Args:
        queue: The queue, or several.
        handler: The function; ``threads`` threads call it, each time with an :class:`Item`.
        prefetch: How many items are leased for each thread, or at most, with ``ahead_seconds``.
        ahead_seconds: For how many seconds of work items are leased, as the latest say.
        settle: Called while items run or wait, all ``ahead_seconds`` or half a second, with those
            that wait and are not to: it requeues them as they were. None: what waits runs here.
        end: The end of the queue to take items from.
        seconds: How long items are leased, and so how soon those of a dead process are requeued.
        retry_delay_seconds: How long an item is hidden after it was given up.
        worker: The name that its leases have, of 1 to 200 printable characters; None for the
            host's name and the process's number, as in ``"mail1:4711"``.
        limit: The most items.
        follow: Whether to wait for more when the queue is empty.
        let_in: A context in which the caller's thread may be interrupted, because it only waits.
        on_end: Called with each item, and its error or None, one call at a time.
        on_free: Called by each thread that has reported ends, once it holds no lock; may not raise.
        on_stop: Called with the number of running items if something ends the work early.
        presences: ``catalog.presences``, for a row of this worker while it works; None for none.
        home_of: Returns, by a queue's name, what the log calls it.
        leases: How to lease items, extend and end them; None for the queue's verbs.
        own_threads: Those of the worker that this is a part of, which gives back what is leased.
    """

    def __init__(
        self,
        queue: Queue | SeveralQueues | AlternatingLeases,
        handler: Callable[[Item], Any],
        *,
        threads: int = 1,
        prefetch: int = 1,
        ahead_seconds: float | None = None,
        settle: Callable[[Sequence[Item]], None] | None = None,
        end: End = "min",
        seconds: float = LEASE_SECONDS,
        retry_delay_seconds: float = 60,
        worker: str | None = None,
        limit: float = math.inf,
        follow: bool = False,
        let_in: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        on_end: Callable[[Item, BaseException | None], None] = lambda *_: None,
        on_free: Callable[[], None] = lambda: None,
        on_stop: Callable[[int], None] = lambda _: None,
        presences: Presences | None = None,
        home_of: Callable[[str], str] = str,
        leases: Leases | None = None,
        own_threads: WorkerThreads | None = None,
    ) -> None:
        self._queue, self._handler, self._threads = queue, handler, threads
        #: Items to work on, and what else the threads are to do.
        self._line = Line(threads, prefetch, ahead_seconds)
        self._moment = ahead_seconds or _SIGNAL_SECONDS
        self._settle = settle
        self._worker = f"{socket.gethostname()}:{os.getpid()}" if worker is None else worker
        own = leases or leases_of(queue, end, seconds, self._worker, retry_delay_seconds)
        self._leases = own
        self._remaining, self._follow, self._let_in = limit, follow, let_in
        self._on_end, self._on_free, self._on_stop = on_end, on_free, on_stop
        self._home_of = home_of
        self._gives_back, self._own_threads = own_threads is None, own_threads or WorkerThreads()
        self._presence: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if presences is not None:
            names = str(getattr(queue, "name", ""))  # what stands before queues may have none
            serves = getattr(queue, "names", (names,))
            about = worker_here(self._worker, "items", names, threads=threads, serves=serves)
            self._presence = presences.of(about, self._counts, threads=self._own_threads)
        #: Held to read or change what the threads share.
        self._changed = RLock()
        #: What the caller's thread waits for, if it waits, and what wakes it.
        self._awaited: Callable[[], Any] | None = None
        self._wakes: queues.SimpleQueue[None] = queues.SimpleQueue()
        #: What the thread aside is to do; None to end.
        self._errands: queues.SimpleQueue[Callable[[], object] | None] = queues.SimpleQueue()
        #: By the leases' tokens, because an item whose lease expired may be here twice.
        self._running: dict[str | None, Item] = {}
        self._is_over = threading.Event()
        self._extender = LeaseExtender(own.extend, seconds, self._held, self._is_over, self._facts)
        self._error: BaseException | None = None
        self._stops = False
        self._done: list[Item] = []  # and not acknowledged yet
        self._done_at = 0.0  # when the first of them was done
        self._collects = False  # whether a thread collects them
        #: How many items are being leased; those that do not come are added to the rest again.
        self._asked = 0
        #: How many items are being ended by their own threads; and whether none is any more.
        self._ending, self._is_given_up = 0, False
        #: How many items were acknowledged, were given up, or had lost their lease at the end; and
        #: how many were put back, because they would have waited for too long.
        self.handled = self.failed = self.lost = self._returned = 0
        #: The ids of items that could not be decoded.
        self.buried: list[str] = []

    def run(self) -> None:
        """Work until the queue is empty, or the limit is reached.

        A queue whose ``max_leased`` or ``rate`` keeps items back is not empty: it waits for these.
        After an interrupt or an error, running items are finished first. A second interrupt
        abandons them: their leases expire.

        Raises:
            FDBError: An item could not be leased, acknowledged or given up; any other error
                that prevented this is raised, too.
            ThreadDied: One of its threads has ended by an exception.
        """
        self._own_threads.on_death = functools.partial(self._wakes.put, None)
        with self._own_threads if self._gives_back else contextlib.nullcontext(), self._presence:
            try:
                self._run()
            finally:
                if self._gives_back and self._own_threads.death is not None:
                    self._give_back(self._own_threads.death)

    def _run(self) -> None:
        threads: list[threading.Thread] = []
        try:
            try:
                targets = [self._work] * self._threads + [self._extender.run, self._tend]
                threads.extend(map(self._started, targets))
                while not self._has_finished():
                    pass
            except BaseException:
                self._stops = True
                self._errands.put(bool)  # nothing: the thread aside puts back what waits
                self._report_running()
                self._wait(lambda: not self._is_at_work())
                raise
        finally:
            try:
                self._end_threads()
            except BaseException:  # an interrupt, which must leave none behind
                self._end_threads()
                raise
        for thread in threads:
            thread.join()
        self._own_threads.check()
        if self._error is not None:
            raise self._error

    def _give_back(self, death: ThreadDied) -> None:
        """Acknowledge what is done, requeue what waits, and give up what runs; never raise."""
        waiting: list[Item] = []
        until = monotonic() + _CLOSING_SECONDS
        while True:
            with self._changed:
                waiting += [one for one in self._line.emptied() if isinstance(one, Item)]
                self._end_threads()  # what ends them was in the line, too
                if not (self._collects or self._asked or self._ending) or monotonic() > until:
                    self._collects = self._is_given_up = True  # no other thread ends these, too
                    break
            time.sleep(_MOMENT_SECONDS)
        done, held, queue = [*self._done], self._held(), cast("Any", self._queue)
        for item in done:
            self._finish_here(item, None)
        for item in held.values():
            if item in waiting:
                with contextlib.suppress(Exception):  # then its lease expires
                    queue.requeue(item)
            elif item not in done:
                self._finish_here(item, death)

    def stop(self) -> None:
        """Lease nothing more; :meth:`run` returns once the running items are finished.

        Any thread may call it, the function and ``on_end`` too. A worker that waits for new items
        notices it within two seconds.
        """
        with self._changed:
            self._stops = True
            self._errands.put(bool)
            self._wake()

    def _counts(self) -> WorkerCounts:
        return WorkerCounts(len(self._running), self.handled, self.failed)

    def running(self) -> list[Item]:
        """Return the items that are running."""
        return [*self._held().values()]

    def _held(self) -> dict[str | None, Item]:
        with self._changed:
            return dict(self._running)

    def _end_threads(self) -> None:
        """Let each thread end when it has nothing left to do; may be called twice."""
        self._is_over.set()
        self._errands.put(None)
        for _ in range(self._threads):
            self._line.put(None)

    def _started(self, target: Callable[[], None]) -> threading.Thread:
        thread = OwnThread(target, name="fdbqueue-worker", owner=self._own_threads)
        thread.start()
        return thread

    # In the caller's thread

    def _has_finished(self) -> bool:
        """Lease and wait; tell whether all is done, which is not so if items were put back."""
        returned = self._returned
        self._dispatch()
        if self._error is not None:
            self._report_running()

        def is_to_lease() -> bool:
            return self._returned != returned and self._goes_on()

        with self._let_in():
            self._wait(lambda: not self._is_at_work() or is_to_lease())
        return not self._is_at_work() and not is_to_lease()

    def _dispatch(self) -> None:
        while self._goes_on():
            with self._let_in():
                self._wait(lambda: self._wanted() > 0 or not self._goes_on())
            ended = self._ended()
            if not self._aside(self._lease) and not self._waits_for_more(ended):
                return

    def _goes_on(self) -> bool:
        """Tell whether more items are to be leased."""
        has_failed = self._error is not None or self._own_threads.death is not None
        return self._remaining + self._asked > 0 and not (has_failed or self._stops)

    def _wanted(self, done: int = 0) -> int:
        """Return how many more items the free threads can take, or those whose items are done."""
        wanted = self._line.next_count(done, len(self._running))
        return int(max(0, min(wanted, self._remaining)))

    def _waits_for_more(self, ended: int) -> bool:
        """Wait for more items, where so many had ended before; tell whether there may be any."""
        if self._follow:
            self._wait_for_items()
            return True
        with self._changed:
            is_idle = not self._running and self._ended() == ended
        if is_idle:
            return self._waits_for_limit()
        with self._let_in():  # what runs may push items, or be requeued at once
            self._wait(lambda: self._ended() > ended or not self._goes_on())
        return True

    def _waits_for_limit(self) -> bool:
        """Wait if a limit may keep back items; tell whether one may."""
        if not self._aside(lambda: self._queue.held_until(to_lease=True) is not None):
            return False
        self._wait_for_items(_WAIT_SECONDS)  # the queue may be empty by then
        return True

    def _ended(self) -> int:
        return self.handled + self.failed + self.lost + self._returned

    def _wait_for_items(self, seconds: float = math.inf) -> None:
        """Wait until there may be an item, or the work is to end; it looks for that each second."""
        is_over = False
        while not is_over and self._goes_on():
            with self._let_in():
                is_over = self._queue.wait_for_items(
                    min(seconds, _LET_IN_SECONDS), to_lease=True, waits_while=self._goes_on
                )
            is_over |= seconds < _LET_IN_SECONDS

    def _is_at_work(self) -> bool:
        """Tell whether items run, or are being leased."""
        return bool(self._running) or self._asked > 0

    def _aside(self, errand: Callable[[], bool]) -> bool:
        """Return what the thread aside gets from a function; false if it raised."""
        answers: list[bool] = []

        def run() -> None:
            answer = False
            try:
                answer = errand()
            except BaseException as failure:  # noqa: BLE001  # raised in the caller's thread
                self._error = failure
            with self._changed:
                answers.append(answer)
                self._wake()

        self._errands.put(run)
        self._wait(lambda: answers)
        return answers[0]

    def _report_running(self) -> None:
        if self._running:
            with contextlib.suppress(Exception):  # but not an interrupt: it abandons the items
                self._on_stop(len(self._running))

    def _wait(self, is_so: Callable[[], Any]) -> None:
        """Wait in the caller's thread until something is so."""
        while not self._await(is_so):
            self._own_threads.check()
            with contextlib.suppress(queues.Empty):
                self._wakes.get(timeout=_SIGNAL_SECONDS)

    def _await(self, is_so: Callable[[], Any]) -> bool:
        """Tell whether something is so; otherwise :meth:`_wake` ends the wait once it is."""
        with self._changed:
            self._awaited = is_so
            if is_so():
                self._awaited = None
        return self._awaited is None

    def _wake(self) -> None:
        """Wake the caller's thread if what it waits for is so; call it with the lock held."""
        if self._awaited is not None and self._awaited():
            self._wakes.put(None)

    # In the thread aside

    def _tend(self) -> None:
        """Do the errands of the caller's thread, and acknowledge what is done for long."""
        while not self._is_over.is_set():
            pause = self._moment if self._running else _SIGNAL_SECONDS
            with contextlib.suppress(queues.Empty):
                errand = self._errands.get(timeout=pause if self._line.is_ahead else None)
                if errand is not None:
                    errand()
                    self._on_free()  # the queue may have ended some that it leased
            self._finish_late()
            if self._settle is not None and self._running and self._line.is_ahead:
                self._put_back(self._settle)

    def _put_back(self, settle: Callable[[Sequence[Item]], None]) -> None:
        """Put back what is not to wait for a thread; never raise."""
        with self._changed:
            waiting = self._line.taken_back(is_ending=self._stops or self._error is not None)
        try:
            settle(waiting)
        except Exception as error:  # noqa: BLE001  # the leases of what waited expire
            facts = {"items": len(waiting), "error": type(error).__name__}
            logger.warning("items that wait were not put back", extra=facts)
        with self._changed:
            for item in waiting:
                self._running.pop(item.lease, None)
            self._remaining += len(waiting)
            self._returned += len(waiting)
            self._wake()

    def _lease(self) -> bool:
        """Lease items for the free threads; tell whether there were any."""
        while count := self._reserved():
            try:
                return self._leased(count).number > 0
            except CorruptItem as error:
                if self._queue.bury_corrupt(error):
                    self.buried.append(error.context["id"])
        return False

    def _reserved(self, done: int = 0) -> int:
        """Return how many items to lease, as some are done or for free threads; reserve them."""
        with self._changed:
            if not self._goes_on():
                return 0
            count = self._wanted(done)
            self._remaining -= count
            self._asked += count
            return count

    def _leased(self, count: int, done: Sequence[Item] = ()) -> Leased:
        """Lease items that were reserved, and acknowledge those that are done.

        The thread that collects keeps the first, unless others wait that were leased before; the
        rest are for the threads that wait.
        """
        items: list[Item] = []
        kept = None
        try:
            items = self._leases.lease(count, done)
        finally:
            with self._changed:
                self._asked -= count
                self._remaining += count - len(items)
                if done and items and self._line.empty():
                    kept = items[0]
                for item in items if kept is None else items[1:]:
                    self._line.put(item)
                self._running |= {item.lease: item for item in items}
                self._wake()
        return Leased(len(items), kept)

    # In the other threads
    def _work(self) -> None:
        while (task := self._line.get()) is not None:
            item = self._collect_asked() if isinstance(task, Collect) else task
            while item is not None:
                error, began = None, self._line.begin(item)
                try:
                    check_done(self._handler(item))
                except BaseException as raised:  # noqa: BLE001  # the handler's error, whatever it is
                    error = raised
                self._line.end(item, began)
                item, error = self._finish(item, error), None  # which is not kept until the next
                self._on_free()

    def _finish(self, item: Item, error: BaseException | None) -> Item | None:
        """End an item, or leave it to the thread that collects; return the next one, if any."""
        if error is not None or not self._leases.ends_with_leases:
            self._finish_by_itself(item, error)
            return None
        with self._changed:
            if not self._done:
                self._done_at = monotonic()
            self._done.append(item)
            if self._collects or self._has_more():
                return None
            self._collects = True
        return self._collect()

    def _finish_by_itself(self, item: Item, error: BaseException | None) -> None:
        """End an item of this thread, unless a worker that ends has given it up."""
        with self._changed:
            self._ending += 1
        if not self._is_given_up:
            self._finish_here(item, error)
        with self._changed:
            self._ending -= 1

    def _has_more(self) -> bool:
        """Tell whether a thread may go on with what waits, before what is done is collected."""
        is_soon = monotonic() < self._done_at + _MOMENT_SECONDS
        return self._line.is_ahead and is_soon and not self._line.empty()

    def _finish_late(self) -> None:
        """Acknowledge what is done for so long that no thread seems to be free for it."""
        with self._changed:
            is_late = monotonic() > self._done_at + self._moment
            if not (self._done and is_late) or self._collects:
                return
            self._collects = True
            done = self._done[:MAX_ENDED]
        for item in done:
            self._finish_here(item, None)
        self._collected(done)
        self._on_free()

    def _collect_asked(self) -> Item | None:
        """Collect, unless another thread does or has done so, and report what has ended."""
        with self._changed:
            self._line.is_asked = False
            collects = not self._collects and bool(self._done)
            self._collects |= collects
        item = self._collect() if collects else None
        self._on_free()
        return item

    def _collected(self, done: Sequence[Item]) -> None:
        """Let others collect; what was done meanwhile is for the next free thread."""
        with self._changed:
            del self._done[: len(done)]
            self._collects, self._done_at = False, monotonic()
            if self._done:
                self._line.ask()
            self._wake()

    def _collect(self) -> Item | None:
        """Acknowledge the items that are done, and lease as many; return the first of these."""
        with self._changed:
            done = self._done[:MAX_ENDED]
        leased = self._lease_next(done)
        for item in done:
            if leased is None:
                self._finish_here(item, None)
            else:
                self._end_of(item, "handled", None)
        self._collected(done)
        return None if leased is None else leased.kept

    def _lease_next(self, done: Sequence[Item]) -> Leased | None:
        """Acknowledge items, and lease as many; return None if they were not acknowledged."""
        count = self._reserved(len(done))
        if not count:
            return None
        try:
            # Their own acks tell which lease was lost, and the thread aside meets a corrupt item.
            # If they are more than one transaction can end, each is acknowledged by itself.
            return self._leased(count, done)
        except (BatchTooLarge, CorruptItem, LeaseLost):
            return None
        except BaseException as failure:  # noqa: BLE001  # raised in the caller's thread
            self._error = failure
        return None

    def _finish_here(self, item: Item, error: BaseException | None) -> None:
        """End an item by itself, and report it; never raise, so the thread goes on."""
        outcome: Outcome = "handled" if error is None else "failed"
        try:
            self._leases.end(item, error)
            if error is not None:
                facts = {**self._facts(item), "error": type_name(error)}
                logger.info("an item was given up", extra=facts)
        except LeaseLost as lost:
            outcome, error = "lost", lost
            logger.warning("a lease was lost before its item was done", extra=self._facts(item))
        except BaseException as failure:  # noqa: BLE001  # raised in the caller's thread
            outcome = "lost"
            self._error = error = failure
        self._end_of(item, outcome, error)
        with self._changed:
            self._wake()

    def _end_of(self, item: Item, outcome: Outcome, error: BaseException | None) -> None:
        """Count an item that has ended, and report it; the caller wakes who waits for that."""
        with self._changed:
            if self._running.pop(item.lease, None) is None:
                return  # it was given back
            setattr(self, outcome, getattr(self, outcome) + 1)
            try:  # noqa: SIM105  # suppress() is three calls for each item
                self._on_end(item, error)
            except BaseException:  # noqa: BLE001, S110  # a failing report must not stop the work
                pass

    def _facts(self, item: Item) -> dict[str, Any]:
        """Return an item's facts for the log: neither its value nor its lease."""
        return {"queue": self._home_of(item.queue), "item": item.id, "attempts": item.attempts}
