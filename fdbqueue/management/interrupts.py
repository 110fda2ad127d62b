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
        self._open = False
        self._pending = False

    @contextlib.contextmanager
    def let_in(self) -> Iterator[None]:
        """Let Ctrl-C stop what is done inside, and one that was held back before it.

        Raises:
            Interrupted: Ctrl-C was pressed.
        """
        self._open = True  # before the test, or a signal between the two would wait
        try:
            if self._pending:
                raise Interrupted
            yield
        finally:
            self._open = False

    def receive(self, *_: Any) -> None:
        """Handle the signal."""
        again, self._pending = self._pending, True
        if self._open:
            raise Interrupted
        if again:
            raise KeyboardInterrupt


@contextlib.contextmanager
def held_interrupts() -> Iterator[Interrupts]:
    """Hold Ctrl-C back: between a commit and the line that reports it, it would lose items.

    Only the main thread can, and only where Python's own handler is in place: a signal
    that is ignored stays ignored, and a project's own handler keeps its say.
    """
    interrupts = Interrupts()
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not ours or threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    signal.signal(signal.SIGINT, interrupts.receive)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
