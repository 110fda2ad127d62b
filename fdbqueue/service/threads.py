"""Threads that run the transactions of event loops.

A process has at most 32, started when they are needed. A call that finds none free waits its
turn, in order of arrival. A call that waits for items does not occupy one, so any number of
tasks may wait. Calls see the context variables of their task.

When a task is cancelled before its call has begun, the call is not made. When it is cancelled
later, it waits until the call has ended, because a commit under way cannot be undone, and then
raises ``CancelledError``. That has an attribute ``outcome_known``: True when nothing was
changed for certain, False when the call was made or may have been.

Left behind by

- *a loop that is closed before its tasks have ended*, or a coroutine that is closed or interrupted:
  a call that has not begun is not made; one that has goes on, and what it has taken is requeued;
- *a process that ends, or has as many threads as it may*: the pool takes no calls, or not all. The
  event loop's own thread makes them: a loop may outlive the main thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

#: This many are enough: threads that pop share one transaction, and commits run side by side.
THREADS = 32


def _new_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="fdbqueue-await")


_pool = _new_pool()


def _restart_after_fork() -> None:
    global _pool  # noqa: PLW0603  # a forked process has none of the threads
    _pool = _new_pool()


os.register_at_fork(after_in_child=_restart_after_fork)


class _Job(Future[T]):
    """A call for a task, to be made once.

    Args:
        call: The call.
        always: Whether to make it even when the task's loop is closed before it has begun.
    """

    def __init__(self, call: Callable[[], T], *, always: bool) -> None:
        super().__init__()
        self._call = call
        self._always = always
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._begun = threading.Lock()
        self._undone = threading.Lock()

    def submit(self) -> None:
        """Let a thread of the pool make the call; this thread, if the pool does not take it."""
        try:
            _pool.submit(self._make)
        except RuntimeError:  # it may be in the pool's line all the same, if no thread can start
            self._make()

    def _make(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            if self._loop.is_closed() and not self._always:
                self.cancel()
            if self.set_running_or_notify_cancel():
                self.set_result(self._context.run(self._call))
        except BaseException as error:  # noqa: BLE001  # who awaits the call raises it
            if not self.done():
                self.set_exception(error)
        finally:
            del self  # an error that its own frames refer to keeps all of them

    def undo_if_closed(self, undo: Callable[[T], object]) -> None:
        """Undo what was done if the loop is closed by then."""
        self.add_done_callback(lambda _: self._undo(undo) if self._loop.is_closed() else None)

    def undo_when_done(self, undo: Callable[[T], object]) -> None:
        """Undo what was done, or will have been."""
        self.add_done_callback(lambda _: self._undo(undo))

    def _undo(self, undo: Callable[[T], object]) -> None:
        is_done = not self.cancelled() and self.exception() is None
        if is_done and self._undone.acquire(blocking=False):
            undo(self.result())


class EndedCall(Generic[T]):
    """A call that has ended or was never begun, and whether its task was cancelled meanwhile.

    Attributes:
        begun: Whether the call was made.
        cancelled: The error to raise, None when the task was not cancelled.
        error: What the call raised, None when it returned.
    """

    def __init__(
        self, future: asyncio.Future[T] | None, cancelled: asyncio.CancelledError | None
    ) -> None:
        self.begun = future is not None
        self.cancelled = cancelled
        self.error = None if future is None else future.exception()
        self._future = future

    def result(self) -> T:
        """Return or raise what the call did; not for a call that was never begun."""
        assert self._future is not None
        return self._future.result()


async def end_of(
    call: Callable[[], T],
    *,
    always: bool = False,
    on_cancel: Callable[[], None] = lambda: None,
    undo: Callable[[T], object] | None = None,
) -> EndedCall[T]:
    """Make a call in a thread, and return once it has ended, however often the task is cancelled.

    Args:
        call: The call.
        always: Whether to make it even when the task is cancelled before it has begun.
        on_cancel: Called in the event loop when the task is cancelled.
        undo: Called with what the call has returned, if its loop or the coroutine was closed
            meanwhile, or this was interrupted; it raises nothing.
    """
    job = _Job(call, always=always)
    job.submit()
    if undo is not None:
        job.undo_if_closed(undo)
    future: asyncio.Future[T] = asyncio.wrap_future(job)
    cancelled = None
    try:
        while not future.done():
            try:
                await asyncio.wait([future])  # which leaves it alone when this task is cancelled
            except asyncio.CancelledError as error:
                cancelled = cancelled or error
                on_cancel()
                if not always and job.cancel():
                    return EndedCall(None, cancelled)
    except BaseException:  # such as GeneratorExit: nobody awaits the outcome
        on_cancel()
        if not (always or job.cancel() or undo is None):
            job.undo_when_done(undo)
        raise
    return EndedCall(future, cancelled)


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a thread of the pool, and return its result.

    Raises:
        CancelledError: The task was cancelled. The call has ended, or was never begun.
    """
    ended = await end_of(functools.partial(function, *args, **kwargs))
    if ended.cancelled is not None:
        raise stopped(ended, outcome_known=not ended.begun)
    return ended.result()


async def read_in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that only reads in a thread of the pool, and return its result.

    Raises:
        CancelledError: The task was cancelled; nothing was changed.
    """
    ended = await end_of(functools.partial(function, *args, **kwargs))
    if ended.cancelled is not None:
        raise stopped(ended, outcome_known=True)
    return ended.result()


def stopped(ended: EndedCall[Any], *, outcome_known: bool) -> asyncio.CancelledError:
    """Return the error to raise in a task that was cancelled."""
    error = ended.cancelled
    assert error is not None
    error.outcome_known = outcome_known  # type: ignore[attr-defined]  # noted on any error
    error.__cause__ = ended.error
    return error
