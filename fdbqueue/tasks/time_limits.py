"""Time limits: end an attempt that takes too long, or have its process replaced.

The time of an attempt is that of its function, by the monotonic clock: it begins when the function
is called, so no wait for a thread, and no end, is part of it. Who may do what:

- *The runner's thread* (of an async function, the loop's) begins a :class:`Limit` if there is a
  time limit, calls the function, and leaves it. Both are under one lock, :attr:`TimeLimits._mutex`.
- *The thread that looks for aborts* (``aborts.py``) begins a limit whose deadline is now, under the
  same lock, unless the attempt was left. It takes the place of one that the attempt has already.
- *The thread of the time limits*, one in each worker that has met a task with a limit, ends what
  is over its *deadline*, under the same lock, so it never acts on what has been left; once for
  each attempt. If the attempt goes on behind the *grace*, it says so in the log.
- *The parent* of a process shares memory with it, a :class:`ParentWatch`. It has one word, the
  moment at which the parent is to end the process, and a row for each attempt that has a limit. The
  process alone writes it. The parent reads: it ends a process by SIGKILL if the word is over, and
  is the same half a second later. Then it starts another in its place, and tells it when.
- *The replacement* reads the rows before it takes any task. Each attempt whose deadline was over
  when its process was ended it fails with ``TaskTimeout`` under the lease of that attempt, as if it
  had run it: it counts, and its task runs again as ``backoff`` says. One that was to be aborted
  fails with ``TaskAborted``.

How a function is ended:

- *Async*: its coroutine is cancelled by the loop, which looks first whether it was left. The await
  of the function is the only one of ours, so the cancellation reaches nothing else. A
  ``CancelledError`` that the function lets out is the ``TaskTimeout`` of its attempt.
- *In a thread*: ``TaskTimeout`` is raised there when that thread is to run a line of Python next,
  at a place where it harms nothing else: see :mod:`fdbqueue.tasks.strikes`. What waits in C (a
  lock, a socket, ``time.sleep``) sees it when it returns, and a regular expression may hold the
  interpreter until its end.

The exception never reaches the runner's own code, or the next task of that thread: (1) it is set
under the lock, not once the attempt is left, and not again once it was raised there; (2) the thread
that has left turns round some times, in which Python raises one that is set and was not raised yet.
(It could be taken back, but until Python 3.12 the interpreter then looks for it for ever, in each
thread.) (3) Raised in between, the function having ended, it interrupts the leaving. That is why
``call_here`` of ``runner.py`` leaves twice: by (1) the second time is not interrupted, by (2)
nothing comes after it. What the function returned is kept then. (4) The lock is one that ``with``
releases wherever an exception comes (:mod:`fdbqueue.locks`), and all that is done under it may be
done twice. The connections of the thread are dropped, because the exception may have come while
Django changed them.

The word is 0 if no attempt with a limit runs. Otherwise it is the earliest moment at which one of
them is over its grace, but at most a lease and a grace from now: the process writes it again with
each third of a lease. So what holds the interpreter for longer than a lease, all leases of its
process having expired by then, has its process replaced too; its attempt is that of a worker that
died. An exception that may have left a lock taken (``strikes.py``) counts as an attempt that is
over and never ends: the process is replaced after the grace. What is left behind by

- *the kill*: what any kill leaves (``source.py``): leases expire, what has begun counts, what was
  leased ahead does not. If nobody replaces the process, the attempt that was too long counts as
  that of a worker that died; likewise if its lease has expired before, or the replacement cannot
  reach the engine. If another worker has the task by then, nothing is written;
- *a kill at the moment in which the attempt ends*: its row is gone, or its lease is. It has one
  end;
- *an exception or a kill in the middle of a write*: a row counts once its deadline is written, last
  of all, and no longer once that is 0. Half a word is not the same half a second later;
- *a signal*: the first changes nothing, limits hold while the worker waits for its tasks. The
  second gives back what runs, and the process ends; if it cannot, since the interpreter is held,
  the parent ends it at the moment of its word. A parent that is told to stop starts no replacement;
- *the end of the parent*: nothing ends the process any more, which is told to stop by its pipe;
- *a fork*: the child has no thread of limits, and leaves nothing: it is not the process that began;
- *a pause of the process alone*: it counts, as for the lease; the parent ends it when it is over.
  *Of both*: the process has half a second to write a new word, and a whole grace by that;
- *a clock that jumps*: nothing, the monotonic clock does not;
- *a function that swallows it all*: a worker that stays alive. With a parent its process is
  replaced. Without, the thread is lost to other tasks until the function ends, and its lease is
  extended as long, so that nobody else runs the task. If it returns at last, that is its end.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import queue as queues
import tempfile
import threading
import time
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from fdbqueue import connections
from fdbqueue.exceptions import is_a
from fdbqueue.logs import get_logger
from fdbqueue.own_threads import OwnThread, WorkerThreads
from fdbqueue.tasks.exceptions import TaskAborted, TaskTimeout
from fdbqueue.tasks.strikes import Strike, watch_lost, without_collections

if TYPE_CHECKING:
    from fdbqueue.tasks.ends import Attempt

logger = get_logger(__name__)

#: How often the word is written in the time of a lease.
_WRITTEN_PER_LEASE = 3
#: How many rows there are, one for each thread that a worker may have; their length in bytes.
_ROWS, _ROW_BYTES = 256, 1_024
#: The same in words of eight bytes, and where the data of a row begins.
_ROW_WORDS, _DATA_AT = _ROW_BYTES // 8, 16
#: Which word is the moment at which the parent is to end the process, and which says that the
#: process hears its parent: the first one of the first row, and of the second.
KILL_AT, HEARS = 0, _ROW_WORDS
#: How soon a function is looked at again if its exception has not come.
_AGAIN_SECONDS = 0.05


class OverdueAttempt(NamedTuple):
    """An attempt whose process was ended because it was over its time limit.

    Attributes:
        queue: The name of the queue.
        lease: The token of its lease.
        began: When it began, in microseconds since 1970.
        seconds: The time limit; 0 if its task was aborted by force.
    """

    queue: str
    lease: str
    began: int
    seconds: float


class ParentWatch:
    """What a process shares with its parent: when to end it, and the attempts with a time limit.

    The memory begins with the word. A row, of 1,024 bytes, has its deadline in its second word, and
    what names the attempt as JSON behind that.

    Args:
        descriptor: That of the memory, which is closed.

    Attributes:
        memory: The memory.
        words: The same as numbers of eight bytes. :data:`KILL_AT` is the moment at which the parent
            is to end the process, 0 for never; :data:`HEARS` is 1 once it hears its parent.
    """

    def __init__(self, descriptor: int) -> None:
        self.memory = mmap.mmap(descriptor, _ROWS * _ROW_BYTES)
        os.close(descriptor)
        self.words = memoryview(self.memory).cast("d")

    def taken_over(self, ended_at: float) -> list[OverdueAttempt]:
        """Return the attempts that were over when a process was ended, and clear all rows."""
        found = []
        for row in range(_ROWS):
            begin, end = row * _ROW_BYTES + _DATA_AT, (row + 1) * _ROW_BYTES
            if 0 < self.words[row * _ROW_WORDS + 1] <= ended_at:
                data = self.memory[begin:end].partition(b"\0")[0]
                with contextlib.suppress(TypeError, ValueError):  # what ended it wrote here, too
                    found.append(OverdueAttempt(*json.loads(data)))
            self.words[row * _ROW_WORDS + 1] = 0.0
        return found


def shared_memory() -> int:
    """Return the descriptor of memory for a :class:`ParentWatch`, which a process may inherit."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("fdbqueue-tasks")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, _ROWS * _ROW_BYTES)
    return descriptor


class Limit:
    """What ends one attempt that runs: its time limit, or an abort by force.

    Args:
        attempt: The attempt, whose function has a thread or a coroutine.
        seconds: Its time limit; 0 to end it now, because its task was aborted by force.

    Attributes:
        data: What the row in the shared memory says of it.
        is_async: Whether its coroutine is to be cancelled.
        deadline: When it is to be ended, by the monotonic clock.
        is_asked: Whether it was to be ended.
        is_struck: Whether the exception was sent to its thread, or its coroutine was cancelled.
        is_late: Whether it has gone on after the grace.
        strike: The exception that ends it in its thread, once it is to come.
    """

    __slots__ = (
        "attempt",
        "data",
        "deadline",
        "is_asked",
        "is_async",
        "is_late",
        "is_struck",
        "seconds",
        "strike",
    )

    def __init__(self, attempt: Attempt, seconds: float) -> None:
        item, began = attempt.item, attempt.attempts.latest or 0
        self.attempt = attempt
        self.seconds = seconds
        self.data = json.dumps(
            OverdueAttempt(item.queue, item.lease or "", began, seconds)
        ).encode()
        self.is_async = attempt.coroutine is not None
        self.strike: Strike | None = None
        self.deadline = 0.0
        self.is_asked = self.is_struck = self.is_late = False

    def cancel(self) -> None:
        """Have the loop cancel the coroutine, unless the attempt was left by then."""
        coroutine = self.attempt.coroutine
        if coroutine is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                coroutine.get_loop().call_soon_threadsafe(self._cancel_here)

    def _cancel_here(self) -> None:
        coroutine = self.attempt.coroutine
        if coroutine is not None:
            self.is_struck = True
            coroutine.cancel()

    def error_of(self, raised: BaseException) -> BaseException:
        """Return what the attempt fails with, given what has ended its function."""
        if self.seconds and is_a(raised, TaskTimeout):
            raised.seconds = self.seconds
            raised.__class__ = TaskTimeout  # not while it is handled: Python 3.10 notes its class
            return raised
        is_aborted = not self.seconds
        error = TaskAborted(id=self.attempt.call.id) if is_aborted else TaskTimeout(self.seconds)
        return error.with_traceback(raised.__traceback__)


class TimeLimits:
    """End the attempts of a worker that are over their time limits.

    Args:
        threads: How many attempts run at a time.
        mutex: A lock of :mod:`fdbqueue.locks`, held to note that an attempt was left.
        grace_seconds: How long an attempt may take to end.
        lease_seconds: How long leases are.
        base: The code that calls the functions: what is called from there is theirs.
        watch: What is shared with the parent; None if there is none.
        owner: The threads of the worker, of which this has one.
    """

    def __init__(
        self,
        threads: int,
        mutex: Any,
        *,
        grace_seconds: float,
        lease_seconds: float,
        base: CodeType,
        watch: ParentWatch | None = None,
        owner: WorkerThreads | None = None,
    ) -> None:
        self._base, self._threads = base, owner
        self._grace = grace_seconds
        self._lease = lease_seconds
        #: How far ahead the moment is at most at which the parent is to end the process.
        self._max_ahead = lease_seconds + grace_seconds
        self._watch = watch
        self._process = os.getpid()
        self._mutex = mutex
        #: Under the lock: what runs, by the numbers of the rows, when the process is to be ended
        #: for each of them, or for a lock that may be left taken, and when the thread is to wake.
        #: No function of Python is called there: with a tracer, Python 3.11 turns round at the
        #: beginning of one, in each thread, until an exception that was set is raised, which may
        #: wait for the lock.
        self._running: list[Limit | None] = [None] * threads
        self._kill_at = [math.inf] * threads
        self._doubt_at = math.inf
        self._wakes_at = math.inf
        #: The limits whose exceptions may have left a lock taken, until that is logged.
        self._doubts: queues.SimpleQueue[Limit] = queues.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._wakes: queues.SimpleQueue[None] = queues.SimpleQueue()
        self._is_over = False

    def close(self) -> None:
        """End no attempt any more."""
        self._is_over = True
        self._wakes.put(None)

    # In the threads that run tasks: each of these may be interrupted, and is run again then

    def begin(self, limit: Limit) -> None:
        """Have an attempt end at its time limit; or now, which another thread may ask for.

        Nothing is changed if it was left, or is being ended.
        """
        now = time.monotonic()
        limit.deadline = now + limit.seconds
        attempt, is_first = limit.attempt, False
        with self._mutex:
            before = attempt.limit
            if not attempt.has_left and (before is None or not before.is_asked):
                row = self._running.index(before)
                attempt.limit = self._running[row] = limit
                self._kill_at[row] = limit.deadline + self._grace
                if self._watch is not None and row < _ROWS:
                    begin = row * _ROW_BYTES + _DATA_AT
                    data = limit.data[: _ROW_BYTES - _DATA_AT - 1] + b"\0"  # a part says nothing
                    self._watch.words[row * _ROW_WORDS + 1] = 0.0
                    self._watch.memory[begin : begin + len(data)] = data
                    self._watch.words[row * _ROW_WORDS + 1] = limit.deadline  # last: now it counts
                    self._watch.words[KILL_AT] = min(
                        *self._kill_at, self._doubt_at, now + self._max_ahead
                    )
                is_first = limit.deadline < self._wakes_at
                if is_first:
                    self._wakes_at = limit.deadline
        if is_first:
            self._wake()

    def leave(self, attempt: Attempt) -> None:
        """Let nothing end an attempt any more."""
        if os.getpid() != self._process:
            return  # a child that the attempt has forked
        with self._mutex:
            attempt.has_left, attempt.coroutine = True, None
            limit = attempt.limit
            if limit is not None and limit in self._running:
                row = self._running.index(limit)
                self._kill_at[row] = math.inf
                if self._watch is not None and row < _ROWS:
                    self._watch.words[row * _ROW_WORDS + 1] = 0.0
                    kill_at = min(*self._kill_at, self._doubt_at)
                    last = time.monotonic() + self._max_ahead
                    self._watch.words[KILL_AT] = 0.0 if kill_at == math.inf else min(kill_at, last)
                self._running[row] = None
            if limit is not None and limit.strike is not None:
                limit.strike.is_over, limit.strike.trap = True, None

    def leave_again(self, attempt: Attempt, error: BaseException) -> bool:
        """Leave an attempt, in case that was interrupted; tell whether an error is what ends it."""
        self.leave(attempt)
        if not is_a(error, TaskTimeout):
            return False
        if attempt.limit is not None and attempt.limit.strike is not None:
            attempt.limit.strike.judge(error)
        return True

    def tidy(self, limit: Limit) -> None:
        """Drop what an exception may have left half done, once its attempt was left."""
        if limit.is_struck:
            connections.drop_all()
        if limit.strike is not None and limit.strike.is_in_doubt:
            self._doubt(limit)

    def _doubt(self, limit: Limit) -> None:
        """Have this process replaced: an exception may have left a lock taken."""
        with self._mutex:
            self._doubt_at = min(self._doubt_at, time.monotonic() + self._grace)
        self._doubts.put(limit)
        self._wake()

    def _wake(self) -> None:
        """Wake the thread, or start it."""
        with self._mutex:
            is_new = self._thread is None
            if is_new:
                self._thread = OwnThread(
                    self._serve, name="fdbqueue-tasks-limits", owner=self._threads
                )
        if is_new and self._thread is not None:
            self._thread.start()
        self._wakes.put(None)

    # In the thread of the time limits

    def _serve(self) -> None:
        watch_lost()
        while not self._is_over:
            pause, over, late = self._find_over(time.monotonic())
            for limit in over:
                if limit.is_async:
                    limit.cancel()
                else:
                    self._strike(limit)
            for limit in late:
                with contextlib.suppress(Exception):  # what a handler raises ends no limits
                    if limit.seconds:
                        logger.warning("a task goes on behind its time limit", extra=_facts(limit))
                    else:
                        logger.warning("an aborted task goes on", extra=_facts(limit))
            while not self._doubts.empty():
                facts = _facts(self._doubts.get())
                with contextlib.suppress(Exception):
                    logger.warning("a time limit may have left a lock taken", extra=facts)
            with contextlib.suppress(queues.Empty):
                self._wakes.get(timeout=None if pause == math.inf else max(0.0, pause))

    def _find_over(self, now: float) -> tuple[float, list[Limit], list[Limit]]:
        """Find what is over, and write how long the parent lets this process live.

        Returns:
            In how many seconds there is something to do; what is to be ended, or to be looked at
            again; and what has gone on after the grace, if that was not said yet.
        """
        over, late, next_at = [], [], math.inf
        with self._mutex:
            for row, limit in enumerate(self._running):
                if limit is None:
                    continue
                if now >= limit.deadline and not limit.is_asked:
                    limit.is_asked = True
                    self._kill_at[row] = max(self._kill_at[row], now + self._grace)
                    over.append(limit)
                elif limit.strike is not None and not limit.strike.has_come:
                    over.append(limit)
                if limit.is_asked and now >= self._kill_at[row] and not limit.is_late:
                    limit.is_late = True
                    late.append(limit)
                if not limit.is_late:
                    moment = self._kill_at[row] if limit.is_asked else limit.deadline
                    next_at = min(next_at, moment)
                if limit in over and not limit.is_async:
                    next_at = min(next_at, now + _AGAIN_SECONDS)
            kill_at = min(*self._kill_at, self._doubt_at)
            if self._watch is not None and kill_at < math.inf:
                self._watch.words[KILL_AT] = min(kill_at, now + self._max_ahead)
                next_at = min(next_at, now + self._lease / _WRITTEN_PER_LEASE)
            self._wakes_at = next_at
        return next_at - now, over, late

    def _strike(self, limit: Limit) -> None:
        """Bring the exception a step further to the thread of a limit."""
        if limit.strike is None:
            limit.strike = Strike(limit.attempt.thread, limit.seconds, self._base)
        strike = limit.strike
        is_strict = time.monotonic() < limit.deadline + self._grace / 2
        with without_collections():
            step = strike.next_step(is_strict=is_strict)
            with self._mutex:
                if limit.attempt.has_left:
                    strike.trap = None
                elif step is not None:
                    limit.is_struck = True
                    if step() is False:
                        strike.trap, strike.set_at = None, -math.inf


def _facts(limit: Limit) -> dict[str, Any]:
    call, queue = limit.attempt.call, limit.attempt.queue.home
    return {"task": call.task, "id": call.id, "queue": queue, "seconds": limit.seconds}
