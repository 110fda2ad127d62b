"""Threads that run the transactions of event loops.

A process has at most 32, started when they are needed. A call that finds none free waits its
turn, in order of arrival. A call that waits for items does not occupy one, so any number of
tasks may wait. Calls see the context variables of their task.

When a task is cancelled before its call has begun, the call is not made. When it is cancelled
later, it waits until the call has ended, because a commit under way cannot be undone, and then
raises ``CancelledError``. That has an attribute ``outcome_known``: True when nothing was
changed for certain, False when the call was made or may have been.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
) -> EndedCall[T]:
    """Make a call in a thread, and return once it has ended, however often the task is cancelled.

    Args:
        call: The call.
        always: Whether to make it even when the task is cancelled before it has begun.
        on_cancel: Called in the event loop when the task is cancelled.
    """
    job = _pool.submit(contextvars.copy_context().run, call)
    future: asyncio.Future[T] = asyncio.wrap_future(job)
    cancelled = None
    while not future.done():
        try:
            await asyncio.wait([future])  # which leaves it alone when this task is cancelled
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
            on_cancel()
            if not always and job.cancel():
                return EndedCall(None, cancelled)
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
