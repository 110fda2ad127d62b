"""The processes of ``tasks_worker``: a parent and its children, and an end in time.

There is a parent, which never uses the engine, unless ``--until-empty`` runs in one process. It
starts children of the same command, one if ``--processes`` does not say how many, and starts
another in the place of one that ends, after a pause that grows while they end soon, or cannot be
started. Each child has a pipe from the parent. The parent writes a byte to it for each SIGTERM or
Ctrl-C that it gets; when the parent has ended, however that was, the pipe ends. So a child knows
how often the parent was told to stop.

A child may get the same signals directly, too: Ctrl-C at a terminal reaches all of its processes,
and so does a service manager's SIGTERM. They are one and the same request: a child counts the
signals it got and the bytes it read, and goes by the higher number. The first lets running tasks
end, the second gives them back. One that is still starting has no tasks: it reads later what it was
told, and the second ends it by SIGTERM, as a SIGTERM to all processes does. That is no failure.

The parent also ends a child that does not end an attempt at its time limit, and tells the next one
in its place when that was; what both then do is in :mod:`fdbqueue.tasks.time_limits`.

With ``--reload`` Django's reloader has the parent run in a thread, and ends its process if the code
has changed, or at a signal: the pipes end, and the children with them.

Each process ends even if tasks have left threads behind (:func:`ended_in_time`).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.core.management.base import CommandError

from fdbqueue.logs import get_logger
from fdbqueue.management.exit_codes import FAILED, exit_code
from fdbqueue.management.signals import DeferredInterrupts, handled
from fdbqueue.own_threads import OwnThread
from fdbqueue.steady import monotonic
from fdbqueue.tasks.time_limits import HEARS, KILL_AT, LeftAttempt, ParentWatch, shared_memory

logger = get_logger(__name__)

#: What a child finds in its environment: its number, the file descriptors of its pipe and of the
#: memory that it shares with its parent, and when the one before was ended for a time limit, or 0.
CHILD = "FDBQUEUE_TASKS_WORKER_CHILD"
#: The exit code of a child that ends because a task did not end in time.
REPLACED = 64
#: Those after which another child starts at once.
_AT_ONCE = frozenset({0, REPLACED})
#: The longest pause before another child starts.
_MAX_PAUSE_SECONDS = 60.0
#: How often the parent looks whether children are over their time limits.
_LOOK_SECONDS = 0.5
_FIRST_PAUSE_SECONDS = 1.0
#: A child that lived this long has not ended soon.
_LONG_SECONDS = 60.0
#: Wakes a child's main thread. Nothing else uses it, and who does not expect it ignores it.
_WAKE = signal.SIGURG
#: How long a process waits at its end for threads that tasks have left behind.
_LEFT_SECONDS = 5.0


class Parent:
    """Run children of a command until they have ended, or are told to.

    Args:
        command: The command and its arguments.
        count: How many.
        goes_on: Given the exit code of a child, tells whether to start another in its place.
        note: Called with each line for people.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        *,
        goes_on: Callable[[int], bool],
        note: Callable[[str], None],
    ) -> None:
        self._command = command
        self._goes_on = goes_on
        self._note = note
        self._children = [_Child(number) for number in range(1, count + 1)]
        #: How often it was told to stop, and how often the children were.
        self._told = self._passed_on = 0
        #: The first signal.
        self.signal: int | None = None

    def run(self) -> list[int]:
        """Return the last exit codes of the children, once all have ended for good."""
        with self._woken() as wake:
            while True:
                self._pass_on()
                for child in self._children:
                    self._look_after(child)
                if all(child.has_ended for child in self._children):
                    return [child.code for child in self._children]
                select.select([wake], [], [], self._seconds_to_wait(monotonic()))
                with contextlib.suppress(BlockingIOError):
                    while os.read(wake, 1_024):
                        pass

    def receive(self, number: int, *_: Any) -> None:
        """Handle SIGTERM or SIGINT."""
        self.signal = self.signal or number
        self._told += 1

    def _pass_on(self) -> None:
        while self._passed_on < self._told:
            self._passed_on += 1
            for child in self._children:
                child.tell(again=self._passed_on > 1)

    def _look_after(self, child: _Child) -> None:
        if child.process is None:
            if child.has_ended:
                return
            if self._told:
                child.has_ended, child.code = True, 0  # there is nothing to stop
            elif monotonic() >= child.start_at:
                self._start(child)
            return
        code = child.process.poll()
        if code is None:
            if child.is_to_be_killed(monotonic()):
                self._note(f"Worker process {child.number} does not end a task in time: killed.")
                child.kill()
            return
        pause = child.ended(code)
        if self._told == 1 and child.has_left_attempts:  # another ends these, and nothing more
            self._start(child)
            child.tell(again=False)
            return
        if self._told or not self._goes_on(code):
            child.has_ended = True
            return
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        if code not in _AT_ONCE:
            self._note(f"Worker process {child.number} ended {how}; another starts in {pause:g} s.")

    def _start(self, child: _Child) -> None:
        """Start a child; if that fails, for want of memory or files, it is tried again."""
        try:
            child.start(self._command)
        except OSError as error:
            pause = child.wait(_MAX_PAUSE_SECONDS)
            name = f"Worker process {child.number}"
            self._note(f"{name} cannot be started: {error}; it is tried again in {pause:g} s.")

    def _seconds_to_wait(self, now: float) -> float:
        """Return how long to wait for a signal: until a child is to be started, or looked after."""
        moments = [
            now + _LOOK_SECONDS if child.process is not None else child.start_at
            for child in self._children
            if not child.has_ended
        ]
        return max(0.0, min(moments) - now)

    @contextlib.contextmanager
    def _woken(self) -> Iterator[int]:
        """Yield what can be read after each signal, also after the end of a child."""
        wake, wakened = os.pipe()
        for descriptor in (wake, wakened):
            os.set_blocking(descriptor, False)
        handlers = {
            signal.SIGTERM: self.receive,
            signal.SIGINT: self.receive,
            signal.SIGCHLD: lambda *_: None,
        }
        try:
            if threading.current_thread() is not threading.main_thread():  # of Django's reloader
                yield wake
                return
            with handled(handlers, wakened=wakened):
                yield wake
        finally:
            os.close(wake)
            os.close(wakened)


class _Child:
    """One of the children, and the ones that took its place.

    Args:
        number: Its number, from 1.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.start_at = 0.0
        self.has_ended = False
        self.code = 0
        self._began = 0.0
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._pipe = -1
        self._memory = shared_memory()
        self._watch = ParentWatch(os.dup(self._memory))
        #: The word that was over, since when, and when the process was killed for that; 0 for none.
        self._word = self._over_since = self._killed_at = 0.0

    def start(self, command: Sequence[str]) -> None:
        """Start a process, which reads what it is told.

        Raises:
            OSError: There is none; all is as before.
        """
        readable, pipe = os.pipe()
        self._watch.words[KILL_AT] = self._watch.words[HEARS] = 0.0
        told = f"{self.number}:{readable}:{self._memory}:{self._killed_at}"
        try:
            self.process = subprocess.Popen(  # noqa: S603  # this command itself
                command, env={**os.environ, CHILD: told}, pass_fds=(readable, self._memory)
            )
        except BaseException:
            os.close(pipe)
            raise
        finally:
            os.close(readable)
        self._pipe, self._killed_at, self._began = pipe, 0.0, monotonic()

    def tell(self, *, again: bool) -> None:
        """Tell it to stop; again, to stop at once, also if it does not hear that yet."""
        if self.process is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._pipe, b"!")
            if again and not self._watch.words[HEARS]:
                self.process.terminate()

    def is_to_be_killed(self, now: float) -> bool:
        """Tell whether the moment of its kill is over, and has been the same for a while."""
        word = self._watch.words[KILL_AT]
        if not 0 < word <= now:
            word = 0.0
        if word != self._word:
            self._word, self._over_since = word, now
        return word > 0 and now - self._over_since >= _LOOK_SECONDS and not self._killed_at

    def kill(self) -> None:
        """End it at once."""
        if self.process is not None:
            self._killed_at = monotonic()
            self.process.kill()

    @property
    def has_left_attempts(self) -> bool:
        """Whether it was killed for a time limit, and there is no other in its place."""
        return self.process is None and self._killed_at > 0

    def ended(self, code: int) -> float:
        """Note that it has ended; return how many seconds to pause before the next."""
        os.close(self._pipe)
        self.process, self.code = None, FAILED if code < 0 else code
        if code in {-signal.SIGTERM, REPLACED}:  # it had no tasks, yet or any more
            self.code = 0
        if code in _AT_ONCE or self._killed_at:
            return self.wait(0.0)
        if monotonic() - self._began >= _LONG_SECONDS:
            self._pause_seconds = _FIRST_PAUSE_SECONDS
        return self.wait(_MAX_PAUSE_SECONDS)

    def wait(self, max_pause_seconds: float) -> float:
        """Pause before the next, and for twice as long the time after; return how many seconds."""
        pause = min(self._pause_seconds, max_pause_seconds)
        if pause:
            self._pause_seconds = 2 * pause
        self.start_at = monotonic() + pause
        return pause


class ParentPipe:
    """Read in a child how often its parent was told to stop.

    Attributes:
        number: Its number among the children, from 1; None if it is none.
        watch: What it shares with its parent, if it has one.
        left: The attempts that ran when the process before was ended for a time limit.
    """

    def __init__(self) -> None:
        found = os.environ.pop(CHILD, None)  # the processes that tasks start are no children
        self.number: int | None = None
        self.watch: ParentWatch | None = None
        self.left: list[LeftAttempt] = []
        if found is not None:
            number, pipe, memory, killed_at = found.split(":")
            self.number, self._pipe = int(number), int(pipe)
            os.set_inheritable(self._pipe, False)
            self.watch = ParentWatch(int(memory))
            self.left = self.watch.taken_over(float(killed_at))

    @contextlib.contextmanager
    def heard(self, interrupts: DeferredInterrupts) -> Iterator[None]:
        """Let interrupts receive what the parent says, and what signals say, each request once."""
        if self.number is None:
            yield
            return
        requests = _StopRequests(interrupts)
        handlers = {
            signal.SIGTERM: requests.receive,
            signal.SIGINT: requests.receive,
            _WAKE: requests.woken,
        }
        target, main = self._listen, threading.get_ident()
        with handled(handlers):
            OwnThread(target, args=(requests, main), name="fdbqueue-tasks-parent").start()
            if self.watch is not None:
                self.watch.words[HEARS] = 1.0
            yield

    def _listen(self, requests: _StopRequests, main: int) -> None:
        """Read what the parent says until it has ended, which is a request, too."""
        while said := os.read(self._pipe, 1):
            requests.told += len(said)
            signal.pthread_kill(main, _WAKE)
        requests.told = max(1, requests.told)
        with contextlib.suppress(ProcessLookupError):
            signal.pthread_kill(main, _WAKE)


class _StopRequests:
    """How often a child was told to stop: by its parent, or by signals, whichever is more."""

    def __init__(self, interrupts: DeferredInterrupts) -> None:
        self._interrupts = interrupts
        self._received = self._passed_on = 0
        #: How often the parent has said so.
        self.told = 0

    def receive(self, number: int, *_: Any) -> None:
        """Handle a signal."""
        self._received += 1
        self._pass_on(number)

    def woken(self, *_: Any) -> None:
        """Handle the signal that says that the parent has said something."""
        self._pass_on(signal.SIGTERM)

    def _pass_on(self, number: int) -> None:
        while self._passed_on < max(self._received, self.told):
            self._passed_on += 1
            self._interrupts.receive(number)


# One process


@contextlib.contextmanager
def ended_in_time() -> Iterator[None]:
    """End this process some seconds after the block, if threads hold it up.

    Python waits for all threads, those of a ``ThreadPoolExecutor`` included, that a task has left
    behind: for ever, if they wait for something.
    """
    code = 0
    try:
        yield
    except BaseException as error:
        code = _exit_code(error)
        raise
    finally:
        OwnThread(_end, args=(code,), name="fdbqueue-tasks-end").start()


def _exit_code(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAILED
    if isinstance(error, CommandError):
        return int(error.returncode)
    return exit_code(error) or FAILED


def _end(code: int) -> None:
    time.sleep(_LEFT_SECONDS)  # what ends before takes this thread with it
    ours = "MainThread", "fdb"  # the engine's too; those of an executor are daemons here
    left = [one.name for one in threading.enumerate() if not one.name.startswith(ours)]
    with contextlib.suppress(Exception):
        print(f"Threads that tasks have left still run: {', '.join(left)}.", file=sys.stderr)  # noqa: T201  # the process has no console any more
        sys.stderr.flush()
        sys.stdout.flush()
    os._exit(code)
