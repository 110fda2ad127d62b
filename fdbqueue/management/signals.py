"""Defer Ctrl-C, so that it stops a command only where nothing is half done.

What a command sets for its own process, :func:`handled` sets: the handlers of signals, and the file
descriptor that is told of each. In a process that is forked meanwhile, as by :mod:`multiprocessing`
in a task, all is as it was before. A signal that comes to it earlier waits: the thread that forks
lets none of these in until both processes are as they should be.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fdbqueue.management.exit_codes import Interrupted

#: What this process has set for itself: each signal, and what undoes it; the latest is the last.
_undoing: list[tuple[signal.Signals, Callable[[], Any]]] = []
#: The signals that a thread lets in when it does not fork.
_let_in = threading.local()


@contextlib.contextmanager
def handled(
    handlers: Mapping[signal.Signals, Any], *, wakened: int | None = None
) -> Iterator[None]:
    """Handle signals in this process; processes that it forks handle them as before.

    Args:
        handlers: The handler of each signal.
        wakened: The file descriptor that is told of each signal, if there is one.
    """
    depth = len(_undoing)
    try:
        for number, handler in handlers.items():
            undo = functools.partial(signal.signal, number, signal.getsignal(number))
            _undoing.append((number, undo))
            signal.signal(number, handler)
        if wakened is not None:
            other = signal.set_wakeup_fd(wakened, warn_on_full_buffer=False)
            number = next(iter(handlers))
            _undoing.append((number, functools.partial(signal.set_wakeup_fd, other)))
        yield
    finally:
        _undo(depth)


def _undo(depth: int) -> None:
    while len(_undoing) > depth:
        _undoing.pop()[1]()


def _before_fork() -> None:
    numbers = {number for number, _ in _undoing}
    _let_in.before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)


def _after_fork() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _let_in.before)


def _after_fork_in_child() -> None:
    _undo(0)
    _after_fork()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
)


class DeferredInterrupts:
    """Ctrl-C, deferred to the blocks that allow it; a second one comes at once.

    Made by :func:`defer_interrupts`.

    Args:
        final: The signals that are not deferred if they come second.
    """

    def __init__(self, final: frozenset[int] = frozenset({signal.SIGINT})) -> None:
        self._final = final
        self.is_allowed = False
        self.is_pending = False
        self._block = _AllowedBlock(self)
        #: Whether SIGTERM came first, and not Ctrl-C.
        self.is_terminated = False

    def allowed(self) -> contextlib.AbstractContextManager[None]:
        """Allow Ctrl-C to stop what is done inside, also one that was deferred before.

        Raises:
            Interrupted: Ctrl-C was pressed.
        """
        return self._block

    def receive(self, number: int, *_: Any) -> None:
        """Handle the signal."""
        again, self.is_pending = self.is_pending, True
        if not again:
            self.is_terminated = number == signal.SIGTERM
        if again and number in self._final:
            raise KeyboardInterrupt  # even while the first one leaves the block that allows it
        if self.is_allowed:
            raise Interrupted


class _AllowedBlock(contextlib.AbstractContextManager[None]):
    """One object for all blocks, because a push enters one with every line it reads."""

    def __init__(self, interrupts: DeferredInterrupts) -> None:
        self._interrupts = interrupts

    def __enter__(self) -> None:
        self._interrupts.is_allowed = True  # before the test, or a signal between would wait
        if self._interrupts.is_pending:
            self._interrupts.is_allowed = False
            raise Interrupted

    def __exit__(self, *_: object) -> None:
        self._interrupts.is_allowed = False


@contextlib.contextmanager
def defer_interrupts(
    *, terminations: bool = False, second_terminations: bool = False
) -> Iterator[DeferredInterrupts]:
    """Defer Ctrl-C: between a commit and the line that reports it, it would lose items.

    Only the main thread can, and only if Python's own handler is in place: a signal
    that is ignored stays ignored, and a project's own handler is left alone.

    Args:
        terminations: Whether SIGTERM counts as a first Ctrl-C.
        second_terminations: Whether it counts as a second one, too.
    """
    final = {signal.SIGINT, signal.SIGTERM} if second_terminations else {signal.SIGINT}
    interrupts = DeferredInterrupts(frozenset(final))
    handlers: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler}
    if terminations:
        handlers[signal.SIGTERM] = signal.SIG_DFL
    ours = [number for number, handler in handlers.items() if signal.getsignal(number) is handler]
    if threading.current_thread() is not threading.main_thread():
        ours = []
    with handled(dict.fromkeys(ours, interrupts.receive)):
        yield interrupts
