"""Let threads and tasks wait for items, of one queue or of several.

A wait is a loop: note how often there may have been an item, look for items, and where there are
none, sleep until one of the watches wakes this waiter, or may have missed a change. Each watch is
shared with all other waiters of the process (:mod:`fdbqueue.service.consume.wakeups`), whatever
other queues they wait for. It wakes one of them, who wakes others when it ends.

A waiter takes part in each of its watches while it sleeps, and leaves them all before it looks
again. It holds the mutex of one watch at a time, so waiters of several queues cannot block each
other.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import operator
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service.consume.wakeups import LOOK_SECONDS, ItemWatch
from fdbqueue.service.limits import MAX_SECONDS
from fdbqueue.service.threads import in_thread
from fdbqueue.service.transactions import run

T = TypeVar("T")

#: How often ``waits_while`` of a waiting thread is called.
_CHECK_SECONDS = 1.0
#: The most watches that are set in one transaction.
_ARMED_AT_ONCE = 25
#: Without a call of Python code, because each pop reads it.
_GENERATION = operator.attrgetter("generation")


class ItemWait:
    """Wait at the watch of one queue, or at those of several.

    Args:
        watches: The watches.

    Attributes:
        watches: As given. ``look`` may put another tuple in its place; then it is called again
            before any waiting.
        look_at: When ``look`` is to be called at the latest, by :func:`time.monotonic`.
    """

    def __init__(self, watches: Sequence[ItemWatch]) -> None:
        self.watches = tuple(watches)
        self.look_at = math.inf

    def until(
        self,
        look: Callable[[], T],
        deadline: float,
        waits_while: Callable[[], bool] | None = None,
        database: Database | None = None,
    ) -> T | None:
        """Call a function, and again whenever there may be an item, until it finds something.

        Args:
            look: The function; its result is true when it has found something.
            deadline: When to give up, by :func:`time.monotonic`; ``look`` is called once more
                then.
            waits_while: Called before each call of ``look``, and about once a second in
                between; False ends the wait.
            database: Where to set the watches; its transactions may have a time limit.

        Returns:
            What ``look`` returned last; None when ``waits_while`` ended the wait.
        """
        slept_at: tuple[ItemWatch, ...] = ()
        try:
            while waits_while is None or waits_while():
                watches = self.watches
                seen = [*map(_GENERATION, watches)]
                found = look()
                if found or time.monotonic() >= deadline:
                    return found
                if watches != self.watches:
                    _wake_others(slept_at)
                    continue
                slept_at = watches
                if not self.wait(seen, deadline, waits_while, database):
                    break
            return None
        finally:
            _wake_others(slept_at)

    async def until_in_loop(self, look: Callable[[], Awaitable[T]], deadline: float) -> T:
        """Do what :meth:`until` does in an event loop; waiting occupies no thread.

        When the task is cancelled while it waits, ``CancelledError.outcome_known`` is True,
        because nothing was done.
        """
        slept_at: tuple[ItemWatch, ...] = ()
        try:
            while True:
                watches = self.watches
                seen = [*map(_GENERATION, watches)]
                found = await look()
                if found or time.monotonic() >= deadline:
                    return found
                if watches != self.watches:
                    _wake_others(slept_at)
                    continue
                slept_at = watches
                try:
                    await self.wait_in_loop(seen, deadline)
                except asyncio.CancelledError as error:
                    error.outcome_known = True  # type: ignore[attr-defined]  # noted on any error
                    raise
        finally:
            _wake_others(slept_at)

    def wait(
        self,
        seen: Sequence[int],
        deadline: float,
        waits_while: Callable[[], bool] | None,
        database: Database | None,
    ) -> bool:
        """Wait until a watch wakes this waiter, or may have missed a change.

        Args:
            seen: The generation of each watch before the queues were found to be empty.
            deadline: When to give up, by :func:`time.monotonic`.
            waits_while: Called about once a second; False ends the wait.
            database: Where to set the watches.

        Returns:
            Whether to look again; False when ``waits_while`` ended the wait.
        """
        gate = threading.Lock()
        gate.acquire()
        wake = functools.partial(_open, gate)
        try:
            if not self._enter(wake, seen):
                return True
            arm(self.watches, database)
            return self._sleep(gate, wake, self._end(deadline), waits_while)
        finally:
            self._leave(wake)

    async def wait_in_loop(self, seen: Sequence[int], deadline: float) -> None:
        """Do what :meth:`wait` does in an event loop, without a thread.

        A cancelled wait ends at once, unless it is setting the watches that all waiters share.
        """
        woken = asyncio.Event()
        wake = functools.partial(_wake, asyncio.get_running_loop(), woken)
        try:
            if not self._enter(wake, seen):
                return
            if not all(watch.is_watched() for watch in self.watches):
                await in_thread(arm, self.watches, None)
            end = self._end(deadline)
            while self._is_asleep(wake):
                woken.clear()
                remaining = self._next_look(end) - time.monotonic()
                if remaining <= 0:
                    return
                timer = asyncio.get_running_loop().call_later(remaining, woken.set)
                try:
                    if self._is_asleep(wake):  # it may have been before the event was cleared
                        await woken.wait()
                finally:
                    timer.cancel()
        finally:
            self._leave(wake)

    def _sleep(
        self,
        gate: threading.Lock,
        wake: Callable[[], None],
        end: float,
        waits_while: Callable[[], bool] | None,
    ) -> bool:
        while waits_while is None or waits_while():
            check_at = math.inf if waits_while is None else time.monotonic() + _CHECK_SECONDS
            while True:
                if not self._is_asleep(wake):
                    return True
                now = time.monotonic()
                remaining = self._next_look(end) - now
                if remaining <= 0:
                    return True
                if now >= check_at:
                    break
                gate.acquire(timeout=min(remaining, check_at - now))
        return False

    def _enter(self, wake: Callable[[], None], seen: Sequence[int]) -> bool:
        """Take part in the watches; tell whether none of the queues may have an item since."""
        pairs = zip(self.watches, seen, strict=True)
        return all(watch.enter(wake, generation) for watch, generation in pairs)

    def _leave(self, wake: Callable[[], None]) -> None:
        for watch in self.watches:
            watch.leave(wake)

    def _is_asleep(self, wake: Callable[[], None]) -> bool:
        return all(watch.is_asleep(wake) for watch in self.watches)

    def _end(self, deadline: float) -> float:
        """Return when this wait ends at the latest; without a watch nothing else would end it."""
        return min(deadline, self.look_at, time.monotonic() + LOOK_SECONDS)

    def _next_look(self, end: float) -> float:
        return min([end, *[watch.look_at for watch in self.watches]])


def deadline_after(queue: str, wait: float | None) -> float:
    """Return when to give up waiting, by :func:`time.monotonic`.

    Raises:
        InvalidInput: It is not a number of seconds.
    """
    if wait is None:
        return 0.0
    is_number = isinstance(wait, int | float) and not isinstance(wait, bool)
    if not is_number or not wait >= 0:
        raise InvalidInput(queue=queue, wait=wait, allowed="a number of seconds")
    return time.monotonic() + min(wait, MAX_SECONDS)


def arm(watches: Sequence[ItemWatch], database: Database | None) -> None:
    """Set the watches that are not set yet, up to the first queue that has an item already.

    The reads of 25 queues are sent before the first is awaited.

    Args:
        watches: The watches.
        database: Where; None for the database of the first.
    """
    for start in range(0, len(watches), _ARMED_AT_ONCE):
        part = watches[start : start + _ARMED_AT_ONCE]
        claimed = [watch for watch in part if watch.claim()]
        found: dict[ItemWatch, tuple[Any, float]] = {}
        try:
            if claimed:
                look = functools.partial(_look, watches=claimed)
                found = run(database or claimed[0].database, look, read_only=True)
        finally:
            for watch in claimed:
                watch.arm(*found.get(watch, (None, 0.0)))
        if any(future is None for future, _ in found.values()):
            return


def _look(tr: Transaction, watches: Sequence[ItemWatch]) -> dict[ItemWatch, tuple[Any, float]]:
    looks = [(watch, watch.begin_look(tr)) for watch in watches]
    return {watch: look() for watch, look in looks}


def _wake_others(watches: Sequence[ItemWatch]) -> None:
    """Wake others at the watches at which a waiter has slept whose call ends."""
    for watch in watches:
        watch.wake_others()


def _open(gate: threading.Lock) -> None:
    """Open the gate of a waiting thread; several watches may do so at once."""
    with contextlib.suppress(RuntimeError):  # it is open
        gate.release()


def _wake(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the loop was closed while a task waited
        loop.call_soon_threadsafe(woken.set)
