"""Defer Ctrl-C, so that it stops a command only where nothing is half done."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from fdbqueue.management.exit_codes import Interrupted


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
    for number in ours:
        signal.signal(number, interrupts.receive)
    try:
        yield interrupts
    finally:
        for number in ours:
            signal.signal(number, handlers[number])
