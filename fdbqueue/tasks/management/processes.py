"""The processes of ``tasks_worker``: a parent and its children, a sign of life, and an end in time.

With ``--processes`` or ``--reload`` there is a parent, which never uses the engine. It starts
children of the same command, and starts another in the place of one that ends, after a pause that
grows while they end soon, or cannot be started. Each child has a pipe from the parent. The parent
writes a byte to it for each SIGTERM or Ctrl-C that it gets; when the parent has ended, however that
was, the pipe ends. So a child knows how often the parent was told to stop.

A child may get the same signals directly, too: Ctrl-C at a terminal reaches all of its processes,
and so does a service manager's SIGTERM. They are one and the same request: a child counts the
signals it got and the bytes it read, and goes by the higher number. The first lets running tasks
end, the second gives them back. One that is still starting has no tasks: it reads later what it was
told, and the second ends it by SIGTERM, as a SIGTERM to all processes does. That is no failure.

The parent also ends a child that does not end an attempt at its time limit, and tells the next one
in its place when that was; what both then do is in :mod:`fdbqueue.tasks.time_limits`.

Each process touches a file while it is alive (:class:`Heartbeat`), stops when the code has changed
(:class:`Reload`), and ends even if tasks have left threads behind (:func:`ended_in_time`).
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from django.utils import autoreload

from fdbqueue.logs import get_logger
from fdbqueue.management.exit_codes import FAILED, Interrupted, exit_code, usage_error
from fdbqueue.management.signals import DeferredInterrupts, handled
from fdbqueue.own_threads import OwnThread
from fdbqueue.tasks.time_limits import HEARS, KILL_AT, OverdueAttempt, ParentWatch, shared_memory

if TYPE_CHECKING:
    from typing_extensions import Self

logger = get_logger(__name__)

#: What a child finds in its environment: its number, the file descriptors of its pipe and of the
#: memory that it shares with its parent, and when the one before was ended for a time limit, or 0.
CHILD = "FDBQUEUE_TASKS_WORKER_CHILD"
#: The exit code of a child that ends because the code has changed.
CHANGED = 64
#: How often the parent looks whether children are over their time limits.
_LOOK_SECONDS = 0.5
_FIRST_PAUSE_SECONDS = 1.0
#: A child that lived this long has not ended soon.
_LONG_SECONDS = 60.0
#: Wakes a child's main thread. Nothing else uses it, and who does not expect it ignores it.
_WAKE = signal.SIGURG
_BEAT_SECONDS = 1.0
#: How long a process waits at its end for threads that tasks have left behind.
_LEFT_SECONDS = 5.0
_GRACEFUL = (Interrupted, KeyboardInterrupt, SystemExit)


class Parent:
    """Run children of a command until they have ended, or are told to.

    Args:
        command: The command and its arguments.
        count: How many.
        goes_on: Given the exit code of a child, tells whether to start another in its place.
        note: Called with each line for people.
        max_pause_seconds: The longest pause before another child is started.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        *,
        goes_on: Callable[[int], bool],
        note: Callable[[str], None],
        max_pause_seconds: float,
    ) -> None:
        self._command = command
        self._goes_on = goes_on
        self._note = note
        self._max_pause_seconds = max_pause_seconds
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
                select.select([wake], [], [], self._seconds_to_wait(time.monotonic()))
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
            elif time.monotonic() >= child.start_at:
                self._start(child)
            return
        code = child.process.poll()
        if code is None:
            if child.is_to_be_killed(time.monotonic()):
                self._note(f"Worker process {child.number} does not end a task in time: killed.")
                child.kill()
            return
        pause = child.ended(code, self._max_pause_seconds)
        if self._told or not self._goes_on(code):
            child.has_ended = True
            return
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        if code not in (0, CHANGED):
            self._note(f"Worker process {child.number} ended {how}; another starts in {pause:g} s.")

    def _start(self, child: _Child) -> None:
        """Start a child; if that fails, for want of memory or files, it is tried again."""
        try:
            child.start(self._command)
        except OSError as error:
            pause = child.wait(self._max_pause_seconds)
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
        self._pipe, self._killed_at, self._began = pipe, 0.0, time.monotonic()

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
            self._killed_at = time.monotonic()
            self.process.kill()

    def ended(self, code: int, max_pause_seconds: float) -> float:
        """Note that it has ended; return how many seconds to pause before the next."""
        os.close(self._pipe)
        self.process, self.code = None, FAILED if code < 0 else code
        if code == -signal.SIGTERM:  # it had no tasks, yet or any more
            self.code = 0
        if code in (0, CHANGED) or self._killed_at:
            return self.wait(0.0)
        if time.monotonic() - self._began >= _LONG_SECONDS:
            self._pause_seconds = _FIRST_PAUSE_SECONDS
        return self.wait(max_pause_seconds)

    def wait(self, max_pause_seconds: float) -> float:
        """Pause before the next, and for twice as long the time after; return how many seconds."""
        pause = min(self._pause_seconds, max_pause_seconds)
        if pause:
            self._pause_seconds = 2 * pause
        self.start_at = time.monotonic() + pause
        return pause


class ParentPipe:
    """Read in a child how often its parent was told to stop.

    Attributes:
        number: Its number among the children, from 1; None if it is none.
        watch: What it shares with its parent, if it has one.
        overdue: The attempts for which the process before was ended.
    """

    def __init__(self) -> None:
        found = os.environ.pop(CHILD, None)  # the processes that tasks start are no children
        self.number: int | None = None
        self.watch: ParentWatch | None = None
        self.overdue: list[OverdueAttempt] = []
        if found is not None:
            number, pipe, memory, killed_at = found.split(":")
            self.number, self._pipe = int(number), int(pipe)
            os.set_inheritable(self._pipe, False)
            self.watch = ParentWatch(int(memory))
            self.overdue = self.watch.taken_over(float(killed_at))

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


class Heartbeat:
    """A file that is touched while a worker is alive, and removed at its graceful end.

    Args:
        path: The file's path; None for no file.
    """

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)
        self._next_at = 0.0

    def __enter__(self) -> Self:
        if self._path is not None:
            try:
                self._path.touch()
            except OSError as error:
                message = f"--heartbeat-file {str(self._path)!r} cannot be written: "
                raise usage_error(f"{message}{error.strerror}.") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        is_graceful = kind is None or issubclass(kind, _GRACEFUL)
        if self._path is not None and is_graceful:
            with contextlib.suppress(OSError):
                self._path.unlink()

    def beat(self) -> None:
        """Touch the file, at most once a second."""
        if self._path is None or time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + _BEAT_SECONDS
        try:
            self._path.touch()
        except OSError as error:
            facts = {"path": str(self._path), "reason": error.strerror}
            logger.warning("the heartbeat file cannot be touched", extra=facts)


class Reload:
    """Stop a worker when the code has changed, as Django's autoreload sees it.

    Args:
        is_wanted: Whether to look at the code at all.

    Attributes:
        has_changed: Whether the code has changed.
    """

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self._stop: Callable[[], None] = lambda: None
        self.has_changed = False

    def __enter__(self) -> Self:
        if self._is_wanted:
            autoreload.file_changed.connect(self._changed)
            run, main = autoreload.get_reloader().run, threading.main_thread()
            OwnThread(run, args=(main,), name="fdbqueue-tasks-reload").start()
        return self

    def __exit__(self, *_: object) -> None:
        autoreload.file_changed.disconnect(self._changed)

    def stops(self, stop: Callable[[], None]) -> None:
        """Say how to stop the worker."""
        self._stop = stop
        if self.has_changed:
            stop()

    def _changed(self, *_: Any, **__: Any) -> bool:
        """Stop the worker; returns True, so that Django does not end the process."""
        self.has_changed = True
        self._stop()
        return True
