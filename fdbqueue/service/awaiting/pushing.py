"""Push from an event loop, and what else changes a whole queue.

A task cancelled before its push has begun has pushed nothing. One cancelled later waits until
the push is over: then whether it took effect is not told, and ``CancelledError.outcome_known``
is False. The same call under an idempotency key finds out.
"""

from __future__ import annotations

import datetime
import functools
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fdbqueue.service.awaiting.draining import AwaitedDrains
from fdbqueue.service.idempotency import Once
from fdbqueue.service.items import NOT_GIVEN, Item, Push
from fdbqueue.service.storage.counts import Counts
from fdbqueue.service.threads import end_of, in_thread, stopped

if TYPE_CHECKING:
    from fdbqueue.service.base import Queue

T = TypeVar("T")


class _Cancelled(Exception):
    """The task that pushes was cancelled."""


class AwaitedQueue(AwaitedDrains):
    """What all queues can do, to be awaited."""

    async def apush(
        self,
        value: Any,
        priority: Any = NOT_GIVEN,
        *,
        delay: float | None = None,
        not_before: datetime.datetime | None = None,
        once: Once | str | None = None,
    ) -> Item:
        """Put a value into the queue, as :meth:`push` does.

        It is checked and encoded at the call, in the event loop: what becomes of the value's
        object meanwhile changes nothing.
        """
        push = Push(value, priority, delay, not_before)
        return (await in_thread(self._queue.prepare(push, once=once), None))[0]

    async def apush_many(
        self,
        items: Iterable[Any],
        *,
        delay: float | None = None,
        not_before: datetime.datetime | None = None,
    ) -> int:
        """Put many into the queue, as :meth:`push_many` does.

        Cancelled, it stops before the next transaction: the cause of ``CancelledError`` is a
        ``PushInterrupted`` that says how many are in, where any are.

        Args:
            items: The values, or pairs. They are read in another thread, as they are needed:
                give no queryset, and nothing else that belongs to this thread.
            delay: For how many seconds to hide them.
            not_before: When to show them.
        """
        cancelled = threading.Event()
        push = functools.partial(
            self._queue.push_many,
            _until_set(items, cancelled),
            delay=delay,
            not_before=not_before,
        )
        ended = await end_of(push, on_cancel=cancelled.set)
        if ended.cancelled is not None:
            nothing = not ended.begun or isinstance(ended.error, _Cancelled)
            raise stopped(ended, outcome_known=nothing)
        return ended.result()

    async def apush_batch(
        self, pushes: Sequence[Push], *, once: Once | str | None = None
    ) -> list[Item]:
        """Put values into the queue in one transaction, as :meth:`push_batch` does.

        They are checked and encoded at the call, in the event loop.
        """
        return await in_thread(self._queue.prepare_batch(pushes, once=once), None)

    async def aclear(self) -> None:
        """Remove all items and the counts, as :meth:`clear` does."""
        await in_thread(self._queue.clear)

    async def arecount(self) -> Counts:
        """Count the items, and put the counts right, as :meth:`recount` does."""
        return await in_thread(self._queue.recount)

    async def asweep(self) -> int:
        """Remove the answers that have not been kept for an hour, as :meth:`sweep` does."""
        return await in_thread(self._queue.sweep)

    @property
    def _queue(self) -> Queue:
        return cast("Queue", self)


def _until_set(items: Iterable[T], cancelled: threading.Event) -> Iterator[T]:
    for item in items:
        if cancelled.is_set():
            raise _Cancelled
        yield item
