"""Let Ctrl-C stop a command where nothing is half done."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from fdbqueue.management.exits import Interrupted


class Interrupts:
    """Hold Ctrl-C back, except at the places that let it in; a second one is never held.

    Made by :func:`held_interrupts`.
    """

    def __init__(self) -> None:
        self.is_open = False
        self.is_pending = False
        self._gate = _Gate(self)
        #: Whether it was SIGTERM, and not Ctrl-C, that came first.
        self.is_terminated = False

    def let_in(self) -> contextlib.AbstractContextManager[None]:
        """Let Ctrl-C stop what is done inside, and one that was held back before it.

        Raises:
            Interrupted: Ctrl-C was pressed.
        """
        return self._gate

    def receive(self, number: int, *_: Any) -> None:
        """Handle the signal."""
        again, self.is_pending = self.is_pending, True
        if not again:
            self.is_terminated = number == signal.SIGTERM
        if self.is_open:
            raise Interrupted
        if again and number == signal.SIGINT:
            raise KeyboardInterrupt


class _Gate(contextlib.AbstractContextManager[None]):
    """Open for the length of a block; entered with every line that is read."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts

    def __enter__(self) -> None:
        self._interrupts.is_open = True  # before the test, or a signal between would wait
        if self._interrupts.is_pending:
            self._interrupts.is_open = False
            raise Interrupted

    def __exit__(self, *_: object) -> None:
        self._interrupts.is_open = False


@contextlib.contextmanager
def held_interrupts(*, terminations: bool = False) -> Iterator[Interrupts]:
    """Hold Ctrl-C back: between a commit and the line that reports it, it would lose items.

    Only the main thread can, and only where Python's own handler is in place: a signal
    that is ignored stays ignored, and a project's own handler keeps its say.

    Args:
        terminations: Whether to take SIGTERM for a first Ctrl-C.
    """
    interrupts = Interrupts()
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
