"""Raise an exception wherever a signal handler might, at one place after the other.

CPython runs signal handlers when a function begins, after a call, and when a loop jumps
back; a trace function that raises at these places does what a handler that raises does.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, ClassVar

_CALLS = ("CALL", "PRECALL", "JUMP_BACKWARD", "JUMP_ABSOLUTE", "RESUME")
_NO_CALLS = ("CALL_INTRINSIC_1", "CALL_INTRINSIC_2", "JUMP_BACKWARD_NO_INTERRUPT", "PRECALL")


class Interrupt(BaseException):
    """What the handler raises."""


class Preemption:
    """Run something once, with an interrupt at one place.

    Args:
        place: The number of the place, from 1 on.
        on_enter: Called when a function of the given name is entered for the first time.
    """

    _names: ClassVar[dict[CodeType, dict[int, str]]] = {}

    def __init__(self, place: int, on_enter: tuple[str, Callable[[], object]] | None = None):
        self._left = place
        self._on_enter = on_enter
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
                    raise Interrupt
        elif event == "return":
            self._last.pop(frame, None)
        return self._at_step

    def _name(self, frame: FrameType) -> str:
        names = self._names.get(frame.f_code)
        if names is None:
            names = {step.offset: step.opname for step in dis.get_instructions(frame.f_code)}
            self._names[frame.f_code] = names
        return names[frame.f_lasti]
