"""Time limits: cancel an async task that takes too long, or end the process of one in a thread.

The time of an attempt is that of its function, by the monotonic clock: it begins when the function
is called, so no wait for a thread, and no end, is part of it. Nothing can end a function that runs
in a thread without harm: an exception that is thrown into it leaves locks taken. So its process
ends, and another takes its place. Who may do what:

- *The source* (``source.py``) has a *row* for each task that it holds, from the lease to the end,
  in memory that it shares with its parent (:class:`ParentWatch`): what names the attempt, and its
  deadline, which is infinite at first.
- *The runner's thread* (of an async function, the loop's) begins a :class:`Limit` if the attempt
  has a time limit, calls the function, and leaves the limit: it writes the deadline to the row, and
  infinity again.
- *The thread that looks for aborts* (``aborts.py``) moves a deadline to now, unless the attempt was
  left.
- *The thread of the time limits*, one in each worker that has met a limit, looks at each deadline.
  An async function is cancelled by the loop, which looks first whether it was left. One in a
  thread, and an async one that goes on for half of the *grace*, is *over*: this thread marks its
  record, under its lease, so that its end is ``TaskTimeout``, whatever ends the lease; and it has
  the worker stop, so the worker leases nothing more, requeues what waits for a thread, and ends
  once all that runs has ended.
- *The parent* reads one word of the memory, :data:`KILL_AT`: the earliest deadline, and a grace.
  If it is over, and the same half a second later, the parent ends the process by SIGKILL. Then it
  starts another, and tells it when.
- *The replacement* reads the rows before it takes any task. Each attempt whose deadline was over
  it fails with ``TaskTimeout``, or ``TaskAborted``, under the lease of that attempt: it counts, and
  its task runs again as ``backoff`` says. Each other one it requeues as if it had not begun.

The word is 0 if no attempt with a limit runs. It is at most a lease and a grace from now: the
process writes it again with each third of a lease. So what holds the interpreter for longer than
that has its process replaced, too.

What is left behind by

- *a function that ends within the grace*: its own end. The worker stops all the same, and its
  parent starts another at once;
- *a kill at the moment in which an attempt ends*: its row is gone, or its lease is, or it runs
  again. It has one end, because each needs the lease;
- *a kill in the middle of a write*: a row counts once its deadline is written, last of all, and no
  longer once that is 0. Half a word is not the same half a second later;
- *the kill, if nothing replaces the process* (a machine that is gone), or the replacement does not
  reach the engine, or is killed: leases expire. The mark says which attempts were over their
  limits; the others are those of a worker that died, as are all of them if the interpreter was held
  from before the deadline on;
- *the end of the parent*: the process is told to stop by its pipe. If an attempt is over its grace
  by two seconds, the process kills itself, unless the attempt holds the interpreter: then it ends
  with that, and its tasks run again once their leases have expired;
- *no parent* (``--until-empty`` without ``--processes``, tests): the log says that a task goes on
  after its time limit. What it returns at last is its end;
- *a signal*: the first changes nothing, limits hold while the worker waits for its tasks. A parent
  that is told to stop starts a replacement that ends what its killed child has left, and nothing
  more. The second gives back what runs, and the process ends;
- *a fork*: the child of a task leaves nothing: it is not the process that began;
- *a pause of the process alone*: it counts, as for the lease. *Of both*: the process has half a
  second to write a new word, and a whole grace by that;
- *a clock that jumps*: nothing, the monotonic clock does not.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import queue as queues
import signal
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fdbqueue.logs import get_logger
from fdbqueue.own_threads import OwnThread, WorkerThreads
from fdbqueue.steady import monotonic
from fdbqueue.tasks.exceptions import TaskAborted, TaskTimeout

if TYPE_CHECKING:
    from fdbqueue.tasks.ends import Attempt

logger = get_logger(__name__)

#: How often the word is written in the time of a lease.
_WRITTEN_PER_LEASE = 3
#: How many rows there are, as many as a worker may have leases; their length in bytes.
_ROWS, _ROW_BYTES = 4_096, 1_024
#: The same in words of eight bytes, and where the data of a row begins.
_ROW_WORDS, _DATA_AT = _ROW_BYTES // 8, 16
#: Which word is the moment at which the parent is to end the process, and which says that the
#: process hears its parent: the first one of the first row, and of the second.
KILL_AT, HEARS = 0, _ROW_WORDS
#: How long after the end of its grace a process waits for its parent to kill it.
_FOR_PARENT_SECONDS = 2.0


class LeftAttempt(NamedTuple):
    """An attempt that a process held which was ended because one was over its time limit.

    Attributes:
        queue: The name of the queue.
        lease: The token of its lease.
        began: When it began, in microseconds since 1970; 0 if it had no time limit.
        seconds: Its time limit; 0 if its task was aborted by force, or it had none.
        is_over: Whether its time was over.
    """

    queue: str
    lease: str
    began: int = 0
    seconds: float = 0.0
    is_over: bool = False


class ParentWatch:
    """What a process shares with its parent: when to end it, and the attempts that it holds.

    The memory begins with the word. A row, of 1,024 bytes, has its deadline in its second word, 0
    if it is free, and what names the attempt as JSON after that.

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
        self._free = [*range(_ROWS - 1, -1, -1)]

    def hold(self, queue: str, lease: str | None) -> int | None:
        """Write a row for a leased task, and return its number; None if there is no room."""
        try:
            row = self._free.pop()
        except IndexError:
            return None
        self.write(row, math.inf, [queue, lease])
        return row

    def release(self, row: int) -> None:
        """Clear the row of a task that is not held any more."""
        self.words[row * _ROW_WORDS + 1] = 0.0
        self._free.append(row)

    def write(self, row: int, deadline: float, names: Sequence[Any]) -> None:
        """Write what a row says: the deadline, and the first fields of a :class:`LeftAttempt`."""
        begin = row * _ROW_BYTES + _DATA_AT
        text = json.dumps(names).encode()[
            : _ROW_BYTES - _DATA_AT - 1
        ]  # one that is cut says nothing
        data = text + b"\0"
        self.words[row * _ROW_WORDS + 1] = 0.0
        self.memory[begin : begin + len(data)] = data
        self.words[row * _ROW_WORDS + 1] = deadline  # last: now it counts

    def let_go_on(self, row: int) -> None:
        """Write that the time of an attempt does not count any more."""
        self.words[row * _ROW_WORDS + 1] = math.inf

    def taken_over(self, ended_at: float) -> list[LeftAttempt]:
        """Return the attempts that a process held when the parent ended it, and clear all rows.

        Args:
            ended_at: When that was; 0 if the process ended by itself, whose attempts tell nothing.
        """
        found = []
        for row in range(_ROWS):
            begin, end = row * _ROW_BYTES + _DATA_AT, (row + 1) * _ROW_BYTES
            deadline = self.words[row * _ROW_WORDS + 1]
            if deadline and ended_at:
                data = self.memory[begin:end].partition(b"\0")[0]
                with contextlib.suppress(TypeError, ValueError):  # cut, or of another program
                    left = LeftAttempt(*json.loads(data))
                    found.append(left._replace(is_over=deadline <= ended_at))
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
        deadline: When it is to be ended, by the monotonic clock.
        is_asked: Whether it was to be ended.
        is_cancelled: Whether its coroutine was cancelled.
        is_over: Whether its process is to end, because nothing else ends the attempt.
    """

    __slots__ = ("attempt", "deadline", "is_asked", "is_cancelled", "is_over", "seconds")

    def __init__(self, attempt: Attempt, seconds: float) -> None:
        self.attempt = attempt
        self.seconds = seconds
        self.deadline = monotonic() + seconds
        self.is_asked = self.is_cancelled = self.is_over = False

    def cancel(self) -> None:
        """Have the loop cancel the coroutine, unless the attempt was left by then."""
        coroutine = self.attempt.coroutine
        if coroutine is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                coroutine.get_loop().call_soon_threadsafe(self._cancel_here)

    def _cancel_here(self) -> None:
        coroutine = self.attempt.coroutine
        if coroutine is not None:
            self.is_cancelled = True
            coroutine.cancel()

    def error(self) -> TaskTimeout | TaskAborted:
        """Return what the attempt fails with."""
        if self.seconds:
            return TaskTimeout(seconds=self.seconds)
        return TaskAborted(id=self.attempt.call.id)


class TimeLimits:
    """End the attempts of a worker that are over their time limits.

    Args:
        grace_seconds: How long an attempt may take to end.
        lease_seconds: How long leases are.
        on_over: Called once with each limit that only the end of the process can keep; may not
            raise.
        watch: What is shared with the parent; None if there is none.
        owner: The threads of the worker, of which this has one.
    """

    def __init__(
        self,
        *,
        grace_seconds: float,
        lease_seconds: float,
        on_over: Callable[[Limit], None],
        watch: ParentWatch | None = None,
        owner: WorkerThreads | None = None,
    ) -> None:
        self._grace = grace_seconds
        self._lease = lease_seconds
        self._on_over = on_over
        self._watch = watch
        self._threads = owner
        #: Under the lock: the limits of what runs; and when the thread is to wake.
        self._mutex = threading.Lock()
        self._running: dict[Limit, None] = {}
        self._wakes_at = math.inf
        self._thread: threading.Thread | None = None
        self._wakes: queues.SimpleQueue[None] = queues.SimpleQueue()
        self._is_over = False

    def close(self) -> None:
        """End no attempt any more."""
        self._is_over = True
        self._wakes.put(None)

    # In the threads that run tasks, and in the one that looks for aborts

    def begin(self, attempt: Attempt, seconds: float | None) -> None:
        """Have an attempt end after its time limit, None for none; its function is called now."""
        if seconds is not None:
            self._limit(attempt, seconds)

    def abort(self, attempt: Attempt) -> None:
        """Have an attempt end now; nothing is changed if it was left, or is being ended."""
        self._limit(attempt, 0.0)

    def _limit(self, attempt: Attempt, seconds: float) -> None:
        limit, before = Limit(attempt, seconds), attempt.limit
        with self._mutex:
            if attempt.has_left or (before is not None and before.is_asked):
                return
            self._running.pop(before, None)
            self._running[limit] = None
            attempt.limit = limit
            if self._watch is not None and attempt.row is not None:
                item, began = attempt.item, attempt.attempts.latest or 0
                names = item.queue, item.lease, began, seconds
                self._watch.write(attempt.row, limit.deadline, names)
            self._write_word()
        self._wake_by(limit.deadline)

    def leave(self, attempt: Attempt) -> None:
        """Let nothing end an attempt any more."""
        with self._mutex:
            attempt.has_left, attempt.coroutine = True, None
            if attempt.limit is None:
                return
            self._running.pop(attempt.limit, None)
            if self._watch is not None and attempt.row is not None:
                self._watch.let_go_on(attempt.row)
            self._write_word()

    def _write_word(self) -> None:
        """Write when the parent is to end this process."""
        if self._watch is None:
            return
        first = min((one.deadline for one in self._running), default=math.inf)
        last = monotonic() + self._lease
        self._watch.words[KILL_AT] = 0.0 if first == math.inf else min(first, last) + self._grace

    def _wake_by(self, moment: float) -> None:
        """Have the thread be awake at a moment; start it if there is none."""
        with self._mutex:
            if moment >= self._wakes_at:
                return
            self._wakes_at = moment
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
        while not self._is_over:
            now = monotonic()
            for limit in self._find_due(now):
                if limit.is_over:
                    self._on_over(limit)
                else:
                    limit.cancel()
            with contextlib.suppress(queues.Empty):
                self._wakes.get(timeout=self._seconds_to_wait(now))

    def _find_due(self, now: float) -> list[Limit]:
        """Find what is to be cancelled now, and what is over."""
        due = []
        with self._mutex:
            for limit in self._running:
                is_async = limit.attempt.coroutine is not None
                patience = self._grace / 2 if is_async else 0.0
                if now >= limit.deadline and not limit.is_asked and is_async:
                    limit.is_asked = True
                    due.append(limit)
                elif now >= limit.deadline + patience and not limit.is_over:
                    limit.is_asked = limit.is_over = True
                    due.append(limit)
            self._write_word()
            given_up_after = self._grace + _FOR_PARENT_SECONDS
            is_given_up = any(now >= limit.deadline + given_up_after for limit in self._running)
            if is_given_up and self._watch is not None:
                os.kill(os.getpid(), signal.SIGKILL)  # the parent has ended, or stands still
        return due

    def _seconds_to_wait(self, now: float) -> float | None:
        """Return in how many seconds there is something to do; None for until it is woken."""
        next_at = math.inf
        with self._mutex:
            for limit in self._running:
                steps = [limit.deadline, limit.deadline + self._grace / 2]
                if self._watch is not None:
                    steps.append(limit.deadline + self._grace + _FOR_PARENT_SECONDS)
                    steps.append(now + self._lease / _WRITTEN_PER_LEASE)
                next_at = min([next_at, *(step for step in steps if step > now)])
            self._wakes_at = next_at
        return None if next_at == math.inf else max(0.0, next_at - monotonic())
