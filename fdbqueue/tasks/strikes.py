"""Strikes: raise ``TaskTimeout`` in a function that runs in another thread, and harm nothing else.

``PyThreadState_SetAsyncExc`` has an exception raised at the next step of a thread, wherever that
is. Three places are wrong:

- *in code that has locks of the whole process*: :mod:`logging`, :mod:`threading`, the imports and
  others have lines between ``acquire()`` and ``try``. Then all threads would wait for that lock;
- *in a finalizer*: Python prints what ``__del__`` or the callback of a weak reference raises, and
  goes on;
- *in another thread*: until Python 3.11 a thread that is just starting has the number of the one
  that starts it, and would be the one to end.

So the thread of the time limits looks first where the function is. Its *place* is its innermost
frame that is neither in such a module nor called by one, nor inside of a finalizer.

- *If the function is at its place*, the exception is set: it is raised there, or as the next
  function of Python begins that is called from there, which has taken nothing yet. What waits in C
  sees it when it returns.
- *If it is further in*, a *trap* is put into the frame that the place has called, as its
  ``f_trace``. Python frees the trap when that frame ends, and the callback of a weak reference to
  it sets the exception, if this is the function's own thread. Both are done in C, so it is raised
  as above. There is one trap at a time.
- *If it is elsewhere by then*, nothing is done: the step looks once more itself, and is a chain of
  functions in C, in which no other thread runs.
- *If a finalizer has lost it*, a callback of any name, the interpreter's hook for lost exceptions
  puts a trap into its own frame. So the exception comes again in the frame below.

The exception is of a class of its own for each strike, which notes that it was raised, and where.
As long as it was not raised in its thread, the thread of the time limits looks again, 20 times a
second; what it has set, it leaves alone for a second.

For half of the grace, code of this package counts as one of these modules, because a call that is
interrupted has an unknown outcome. After that, what waits for long has to end: then the place is
the innermost frame that is in none of the others, whatever has called it.

What is left behind by

- *the end of the function*: its trap is dropped under the lock of the time limits, and from then on
  nothing is set. What was set before is raised while the thread leaves (``time_limits.py``);
- *a frame that does not end*, kept by a traceback or a generator: nothing, the next look finds the
  function elsewhere;
- *a function in C that waited, and calls such a module when it returns*; after half of the grace, a
  return to such a module; a thread that the function has started by :mod:`_thread` (until Python
  3.11): the exception may be raised there. The strike is *in doubt*: a lock may be taken for ever.
  With a parent, the process is replaced after the grace, also if only tasks without a limit wait
  for that lock. Without, the log says so;
- *a fork*: the child has what was set or put up before, so it is ended as its parent is.

What threads cannot promise: other code that takes a lock, and begins to protect it a line later,
may be ended in between. Such code is safe in a process of its own alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import itertools
import math
import operator
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any

from fdbqueue.steady import monotonic
from fdbqueue.tasks.exceptions import TaskTimeout

#: The modules in which an exception may leave a lock taken that the whole process needs.
_LOCKING = frozenset({"concurrent", "importlib", "logging", "queue", "threading"})
#: The modules whose code is called when an object is freed.
_FINALIZING = frozenset({"_weakrefset", "weakref"})
_OURS = __name__.partition(".")[0]
#: How long what was set is left alone, before the function is looked at again.
_UNDER_WAY_SECONDS = 1.0

set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
set_exception.argtypes = (ctypes.c_ulong, ctypes.py_object)


class _Trap:
    """What is freed together with the frame that has it as its ``f_trace``."""

    __slots__ = ("__weakref__",)

    def __call__(self, *_: Any) -> None:
        """Trace nothing, if there is a debugger."""


class Strike:
    """The exception that ends a function in its thread, and how far it is.

    Args:
        thread: The thread.
        seconds: The time limit.
        base: The code that calls the function: what is called from there is the function's.

    Attributes:
        kind: The class of the exception.
        has_come: Whether it was raised in its thread.
        is_over: Whether the function has ended.
        is_in_doubt: Whether it may have left a lock taken.
        trap: The weak reference to what is put into a frame, if anything is.
        set_at: When the exception was set, by the monotonic clock; minus infinity
            if it was not.
    """

    __slots__ = (
        "_base",
        "has_come",
        "is_in_doubt",
        "is_over",
        "kind",
        "set_at",
        "thread",
        "trap",
    )

    def __init__(self, thread: int, seconds: float, base: CodeType) -> None:
        self.thread = thread
        self.kind = _new_kind(self, seconds)
        self.has_come = self.is_over = self.is_in_doubt = False
        self.trap: weakref.ref[_Trap] | None = None
        self._base = base
        self.set_at = -math.inf

    def next_step(self, *, is_strict: bool) -> Callable[[], Any] | None:
        """Return what brings the exception to the function's place, None for nothing.

        It is a function in C, and returns False if the function is elsewhere by then. To be called
        under a lock, without collections of garbage.

        Args:
            is_strict: Whether to spare the code of this package, and what such modules call.
        """
        now = monotonic()
        if self.trap is not None and self.trap() is None:  # it has set the exception
            self.trap, self.set_at = None, now
        frame = sys._current_frames().get(self.thread)  # noqa: SLF001  # there is no other way
        place, inner = self._place(frame, is_strict=is_strict)
        if place is None:
            return None
        act: Callable[..., Any] = set_exception
        if inner is None:
            self.trap, self.set_at = None, now
            args: tuple[Any, ...] = self.thread, self.kind
        elif now - self.set_at < _UNDER_WAY_SECONDS or isinstance(inner.f_trace, _Trap):
            return None
        else:
            act, args = setattr, (inner, "f_trace", self._new_trap())
        frames = itertools.starmap(sys._current_frames, [()])  # noqa: SLF001  # as above
        now_at = map(operator.methodcaller("get", self.thread), frames)
        return functools.partial(next, _if_so(act, args, operator.is_, frame, now_at), False)

    def lost(self, frame: FrameType) -> None:
        """Have what a finalizer has lost come again in this thread, when a frame ends."""
        if not self.is_over:
            self.has_come = False
            frame.f_trace = self._new_trap()

    def came(self) -> None:
        """Note that the exception is raised in this thread."""
        if threading.get_ident() == self.thread:
            self.has_come, self.trap = True, None
        else:
            self.is_in_doubt = True

    def judge(self, error: TaskTimeout) -> None:
        """Note whether it may have left a lock taken, which its traceback says."""
        found, caller = error.__traceback__, ""
        while found is not None:
            module, has_begun = _module_of(found.tb_frame), _has_begun(found)
            if found.tb_next is None and module in _LOCKING and (has_begun or caller in _LOCKING):
                self.is_in_doubt = True
            caller, found = module, found.tb_next

    def _new_trap(self) -> _Trap:
        trap, args = _Trap(), (self.thread, self.kind)
        here = itertools.starmap(threading.get_ident, [()])
        steps = _if_so(set_exception, args, operator.eq, self.thread, here)
        self.trap = weakref.ref(trap, functools.partial(next, steps))
        return trap

    def _place(
        self, frame: FrameType | None, *, is_strict: bool
    ) -> tuple[FrameType | None, FrameType | None]:
        """Return the place of the function, and the frame that it has called."""
        place = inner = called = None
        while frame is not None and frame.f_code is not self._base:
            module, caller = _module_of(frame), frame.f_back
            if module in _FINALIZING or frame.f_code.co_name == "__del__":
                place = None
            elif module in _LOCKING or (is_strict and module == _OURS):
                if is_strict and caller is not None and caller.f_code is not self._base:
                    place = None
            elif place is None:
                place, inner = frame, called
            called, frame = frame, caller
        return (None, None) if frame is None else (place, inner)


def _new_kind(strike: Strike, seconds: float) -> type[TaskTimeout]:
    """Return a class of exceptions that notes where a strike comes."""

    def begin(error: TaskTimeout) -> None:
        TaskTimeout.__init__(error, seconds)
        strike.came()

    names = {"__module__": TaskTimeout.__module__, "__init__": begin, "strike": strike}
    return type(TaskTimeout.__name__, (TaskTimeout,), names)


def _module_of(frame: FrameType) -> str:
    """Return the name of a frame's module; in a package, of the outermost package."""
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def _if_so(
    act: Callable[..., Any], args: tuple[Any, ...], fits: Callable[..., bool], one: Any, now: Any
) -> Iterator[Any]:
    """Return what calls a function when it is advanced, if what there is now fits something.

    It runs in C alone, so nothing comes in between.
    """
    is_so = map(functools.partial(fits, one), now)
    return itertools.starmap(act, itertools.compress([args], is_so))


def _has_begun(found: TracebackType) -> bool:
    """Tell whether a frame was further than its first line."""
    return found.tb_lineno != found.tb_frame.f_code.co_firstlineno


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Collect no garbage: what is freed may let other threads run, or deadlock until 3.11.4."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _note_lost(unraisable: sys.UnraisableHookArgs) -> None:
    """Have a strike come again that a finalizer has lost; all else as before."""
    strike = getattr(type(unraisable.exc_value), "strike", None)
    if isinstance(strike, Strike) and strike.thread == threading.get_ident():
        strike.lost(sys._getframe())  # noqa: SLF001  # there is no other
    else:
        _hook_before(unraisable)


_hook_before = sys.unraisablehook


@functools.cache  # once in each process
def watch_lost() -> None:
    """Let this process notice the strikes that finalizers lose, from now on."""
    global _hook_before
    _hook_before, sys.unraisablehook = sys.unraisablehook, _note_lost
