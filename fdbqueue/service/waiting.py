"""Wait for items without asking for them again and again.

One watch a queue and process, on the count of ready items, wakes all threads that wait for
one; when the last of them leaves, it is cancelled. What has a time to come back at wakes them
too. Foreign writers (the recipes) do not change the count: an item of theirs is noticed
within five seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import threading
import time
from collections.abc import Callable
from typing import Any

from fdbqueue.service.awaiting.threads import in_thread
from fdbqueue.service.clock import now_us
from fdbqueue.service.stock import Stock
from fdbqueue.service.transactions import run

#: Foreign pushes, and changes that a watch has missed, are noticed after so long.
_LOOK_SECONDS = 5.0
_RETRY_SECONDS = 0.5
#: How often those who wait are asked whether they still want to.
_ASKED_SECONDS = 1.0


class Bell:
    """Wakes those who wait for the items of one queue, in this process.

    Args:
        database: Anything with ``create_transaction()``.
        stock: The queue's items.
    """

    def __init__(self, database: Any, stock: Stock) -> None:
        self._database = database
        self._stock = stock
        self.forget()

    def forget(self) -> None:
        """Start anew, in a forked process."""
        self._changed = threading.Condition()
        #: What wakes those who wait in event loops.
        self._wakes: set[Callable[[], None]] = set()
        self._rung = 0
        self._waiting = 0
        self._watch: Any = None
        #: Who is about to set the watch, if anybody.
        self._armer: object | None = None
        self._look_at = 0.0

    @property
    def rung(self) -> int:
        """How often it has rung; ask before looking whether the queue is empty."""
        return self._rung

    def wait(
        self, seen: int, deadline: float, waits_while: Callable[[], bool] | None = None
    ) -> bool:
        """Return once it has rung more than ``seen`` times, or may have missed something.

        Args:
            seen: What :attr:`rung` was before the queue was found to be empty.
            deadline: When to give up, by :func:`time.monotonic`.
            waits_while: Asked about once a second; False gives up, too.

        Returns:
            Whether it is worth looking at the queue again: not so when it was given up.
        """
        with self._changed:
            if self._rung != seen:
                return True
        entered = False
        waiter = object()
        try:
            with self._changed:
                self._waiting += 1
                entered = True
            self._arm(waiter)
            return self._sleep(seen, deadline, waits_while)
        finally:
            if entered:
                self._leave(waiter)

    async def wait_in_loop(self, seen: int, deadline: float) -> None:
        """Do as :meth:`wait` does, in an event loop and without a thread.

        A cancelled wait ends at once, unless it is setting the watch that all share.
        """
        woken = asyncio.Event()
        wake = functools.partial(_wake, asyncio.get_running_loop(), woken)
        with self._changed:
            if self._rung != seen:
                return
            self._waiting += 1
            self._wakes.add(wake)
            must_arm = not self._is_watched()
        try:
            if must_arm:  # all do who find no watch: others may be cancelled before theirs begins
                await in_thread(self._arm, wake)
            while self._rung == seen:
                woken.clear()
                remaining = min(deadline, self._look_at) - time.monotonic()
                if remaining <= 0:
                    return
                timer = asyncio.get_running_loop().call_later(remaining, woken.set)
                try:
                    if self._rung == seen:  # it wakes nobody who has not cleared the event
                        await woken.wait()
                finally:
                    timer.cancel()
        finally:
            with self._changed:
                self._wakes.discard(wake)
            self._leave(wake)

    def _sleep(self, seen: int, deadline: float, waits_while: Callable[[], bool] | None) -> bool:
        longest = math.inf if waits_while is None else _ASKED_SECONDS
        while waits_while is None or waits_while():
            with self._changed:
                asked_at = time.monotonic() + longest
                while self._rung == seen:
                    remaining = min(deadline, self._look_at) - time.monotonic()
                    if remaining <= 0:
                        return True
                    if time.monotonic() >= asked_at:
                        break
                    self._changed.wait(min(remaining, longest))
                else:
                    return True
        return False

    def _is_watched(self) -> bool:
        return self._watch is not None or self._armer is not None

    def _arm(self, waiter: object) -> None:
        """Watch the count, unless somebody does or there is an item already."""
        with self._changed:
            if self._is_watched():
                return
            self._armer = waiter
            self._look_at = time.monotonic() + _LOOK_SECONDS
        watch = None
        try:
            watch, due = run(self._database, self._look, wrote=lambda _: False)
            if due is not None:
                remaining = (due - now_us()) / 1_000_000
                self._look_at = min(self._look_at, time.monotonic() + max(remaining, 0.0))
        finally:
            with self._changed:
                self._armer = None
                self._watch = watch
                if watch is None:
                    self._ring()
        if watch is not None:
            watch.on_ready(functools.partial(self._fire, watch))

    def _look(self, tr: Any) -> tuple[Any, int | None]:
        """Return a watch, None when there is an item; and when something comes back."""
        stock = self._stock
        head = tr.snapshot.get_range(*stock.keys.bounds(), limit=1)
        first = tr.snapshot.get_range(*stock.meta.due_bounds(), limit=1)
        if any(True for _ in head):
            return None, None
        entries = [stock.meta.parse_due(row.key) for row in first]
        due = next((entry.moment for entry in entries if entry is not None), None)
        return tr.watch(stock.meta.tally), due

    def _fire(self, watch: Any, _: Any) -> None:
        """Ring, when the watch says that something has changed; called by any thread."""
        try:
            watch.wait()
            changed = True
        except Exception:  # noqa: BLE001  # cancelled or lost: then look again soon
            changed = False
        with self._changed:
            if self._watch is not watch:
                return
            self._watch = None
            if changed:
                self._ring()
            else:
                self._look_at = min(self._look_at, time.monotonic() + _RETRY_SECONDS)
                self._wake_all()

    def _ring(self) -> None:
        self._rung += 1
        self._wake_all()

    def _wake_all(self) -> None:
        self._changed.notify_all()
        for wake in self._wakes:
            wake()

    def _leave(self, waiter: object) -> None:
        with self._changed:
            self._waiting -= 1
            if self._armer is waiter:  # an interrupt has come before it was done
                self._armer = None
                self._ring()
            watch = None
            if not self._waiting:
                watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()


def _wake(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the loop was closed with somebody waiting
        loop.call_soon_threadsafe(woken.set)
