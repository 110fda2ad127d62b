"""Do what a signal handler might, at one place after the other: raise, or call something.

CPython runs signal handlers when a function begins, after a call, and when a loop jumps
back; a trace function that raises at these places does what a handler that raises does.
"""

from __future__ import annotations

import dis
import random
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, ClassVar

_CALLS = ("CALL", "PRECALL", "JUMP_BACKWARD", "POP_JUMP_BACKWARD", "JUMP_ABSOLUTE", "RESUME")
_NO_CALLS = ("CALL_INTRINSIC_1", "CALL_INTRINSIC_2", "JUMP_BACKWARD_NO_INTERRUPT", "PRECALL")


DEADLINE_SECONDS = 60


class Interrupt(BaseException):
    """What the handler raises."""


class Preemption:
    """Run something once, with an interrupt at one place.

    Args:
        place: The number of the place, from 1 on.
        on_enter: Called when a function of the given name is entered for the first time.
        handler: Called at the place, instead of raising :class:`Interrupt`.
        within: The end of the names of the files that have places; all have if it is empty.
    """

    _names: ClassVar[dict[CodeType, dict[int, str]]] = {}

    def __init__(
        self,
        place: int,
        on_enter: tuple[str, Callable[[], object]] | None = None,
        handler: Callable[[], object] | None = None,
        within: str | tuple[str, ...] = "",
    ):
        self._left = place
        self._on_enter = on_enter
        self._handler = handler
        self._within = within
        self._last: dict[FrameType, str] = {}
        self.was_interrupted = False
        # Held for as long as this is: CPython 3.11 calls a trace function without holding it.
        self._at_entry, self._at_step = self._enter, self._step

    def run(self, work: Callable[[], object]) -> None:
        """Run it; :attr:`was_interrupted` tells whether the place was come to."""
        before = sys.gettrace()
        # From Python 3.12 on, settrace() reports opcodes only if a frame has asked for them before.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._at_entry)
        try:
            work()
        except Interrupt:
            pass
        finally:
            sys.settrace(before)
            self._last.clear()

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        if self._on_enter is not None and frame.f_code.co_name == self._on_enter[0]:
            call, self._on_enter = self._on_enter[1], None
            call()
        if not frame.f_code.co_filename.endswith(self._within):
            return None
        frame.f_trace = self._at_step  # Python 3.13 asks for it before it reports opcodes
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._at_step

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            was, self._last[frame] = self._last.get(frame), self._name(frame)
            if was is not None and was.startswith(_CALLS) and was not in _NO_CALLS:
                self._left -= 1
                if not self._left:
                    self.was_interrupted = True
                    if self._handler is None:
                        raise Interrupt
                    self._handler()
        elif event == "return":
            self._last.pop(frame, None)
        return self._at_step

    def _name(self, frame: FrameType) -> str:
        names = self._names.get(frame.f_code)
        if names is None:
            names = {step.offset: step.opname for step in dis.get_instructions(frame.f_code)}
            self._names[frame.f_code] = names
        return names[frame.f_lasti]


def handled_at_each_place(
    work: Callable[[], object],
    handler: Callable[[], object],
    on_enter: Callable[[], Any] = lambda: None,
    stride: int = 1,
) -> Iterator[int]:
    """Yield after each run of ``work``, below which ``handler`` is called at the next place."""
    place = random.randint(1, stride)
    while True:
        preemption = Preemption(place, on_enter(), handler)
        errors: list[Exception] = []

        def run(preemption: Preemption = preemption, errors: list[Exception] = errors) -> None:
            try:
                preemption.run(work)
            except Exception as error:  # noqa: BLE001  # the test's
                errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive(), f"it waits for itself at place {place}"
        if errors:
            raise errors[0]
        if not preemption.was_interrupted:
            return
        yield place
        place += stride
