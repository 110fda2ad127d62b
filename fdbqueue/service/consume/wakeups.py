"""Wake the threads and tasks that wait for items, without polling.

One watch for each queue and process, on the count of ready items, wakes all waiting threads and
tasks; when the last of them leaves, it is cancelled. While the queue is paused, it is on the key
that says so. They also wake when the next lease, delay
or handoff expires. Foreign writers (the recipes) do not change the count: their items are
noticed within five seconds.

A signal handler may raise in a waiting thread at any line. Other waiters are not affected: the
mutex is only held by ``with``, and when a thread fails while it sets the watch, another thread
sets it at the next look.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.service.clock import now_us
from fdbqueue.service.storage.handoffs import read_request
from fdbqueue.service.storage.store import ItemStore
from fdbqueue.service.threads import in_thread
from fdbqueue.service.transactions import run

T = TypeVar("T")

#: Foreign pushes, and changes that a watch misses, are noticed after this time.
_LOOK_SECONDS = 5.0
_RETRY_SECONDS = 0.5
#: The most help requests that are read to find out when a handoff expires.
_REQUESTS = 200
#: How often ``waits_while`` of a waiting thread is called.
_CHECK_SECONDS = 1.0


class ItemWatch:
    """Wake the threads and tasks of this process that wait for items of one queue.

    Args:
        database: Anything with ``create_transaction()``.
        store: The queue's items.
    """

    def __init__(self, database: Database, store: ItemStore) -> None:
        self._database = database
        self._store = store
        self.forget()

    def forget(self) -> None:
        """Forget all waiters and the watch, in a forked process."""
        #: Reentrant, because a signal handler may run in the thread that holds it.
        self._mutex = threading.RLock()
        #: Functions that wake one waiter each; called under the mutex.
        self._wakes: set[Callable[[], None]] = set()
        self._generation = 0
        self._watch: Any = None
        #: Until when to rely on the thread that is setting the watch; 0 when none is.
        self._arming_until = 0.0
        self._look_at = 0.0

    @property
    def generation(self) -> int:
        """How often all waiters were woken; read it before looking whether the queue is empty."""
        return self._generation

    @property
    def waiting(self) -> int:
        """How many threads and tasks wait."""
        return len(self._wakes)

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
            database: Where to set the watch; its transactions may have a time limit.

        Returns:
            What ``look`` returned last; None when ``waits_while`` ended the wait.
        """
        while waits_while is None or waits_while():
            seen = self._generation
            found = look()
            if found or time.monotonic() >= deadline:
                return found
            if not self.wait(seen, deadline, waits_while, database=database):
                break
        return None

    async def until_in_loop(self, look: Callable[[], Awaitable[T]], deadline: float) -> T:
        """Do what :meth:`until` does in an event loop; waiting occupies no thread.

        When the task is cancelled while it waits, ``CancelledError.outcome_known`` is True,
        because nothing was done.
        """
        while True:
            seen = self._generation
            found = await look()
            if found or time.monotonic() >= deadline:
                return found
            try:
                await self.wait_in_loop(seen, deadline)
            except asyncio.CancelledError as error:
                error.outcome_known = True  # type: ignore[attr-defined]
                raise

    def wait(
        self,
        seen: int,
        deadline: float,
        waits_while: Callable[[], bool] | None = None,
        *,
        database: Database | None = None,
    ) -> bool:
        """Wait until all waiters are woken after ``seen``, or may have missed a change.

        Args:
            seen: The :attr:`generation` before the queue was found to be empty.
            deadline: When to give up, by :func:`time.monotonic`.
            waits_while: Called about once a second; False ends the wait.
            database: Where to set the watch; its transactions may have a time limit.

        Returns:
            Whether to look at the queue again; False when ``waits_while`` ended the wait.
        """
        gate = threading.Lock()
        gate.acquire()
        wake = functools.partial(_open, gate)
        try:
            if not self._enter(wake, seen):
                return True
            self._arm(database)
            return self._sleep(gate, seen, deadline, waits_while)
        finally:
            self._leave(wake)

    async def wait_in_loop(self, seen: int, deadline: float) -> None:
        """Do what :meth:`wait` does in an event loop, without a thread.

        A cancelled wait ends at once, unless it is setting the watch that all waiters share.
        """
        woken = asyncio.Event()
        wake = functools.partial(_wake, asyncio.get_running_loop(), woken)
        try:
            if not self._enter(wake, seen):
                return
            if not self._is_watched():
                await in_thread(self._arm, None)
            while self._generation == seen:
                woken.clear()
                remaining = min(deadline, self._look_at) - time.monotonic()
                if remaining <= 0:
                    return
                timer = asyncio.get_running_loop().call_later(remaining, woken.set)
                try:
                    if self._generation == seen:  # it may have changed before the event was cleared
                        await woken.wait()
                finally:
                    timer.cancel()
        finally:
            self._leave(wake)

    def _enter(self, wake: Callable[[], None], seen: int) -> bool:
        with self._mutex:
            if self._generation != seen:
                return False
            self._wakes.add(wake)
            return True

    def _sleep(
        self,
        gate: threading.Lock,
        seen: int,
        deadline: float,
        waits_while: Callable[[], bool] | None,
    ) -> bool:
        while waits_while is None or waits_while():
            check_at = math.inf if waits_while is None else time.monotonic() + _CHECK_SECONDS
            while True:
                if self._generation != seen:
                    return True
                now = time.monotonic()
                remaining = min(deadline, self._look_at) - now
                if remaining <= 0:
                    return True
                if now >= check_at:
                    break
                gate.acquire(timeout=min(remaining, check_at - now))
        return False

    def _is_watched(self) -> bool:
        return self._watch is not None or time.monotonic() < self._arming_until

    def _arm(self, database: Database | None) -> None:
        """Set the watch, unless it is set or there is an item already."""
        with self._mutex:
            if self._is_watched():
                return
            self._arming_until = self._look_at = time.monotonic() + _LOOK_SECONDS
        watch = None
        try:
            watch, seconds = run(database or self._database, self._look, read_only=True)
            self._look_at = min(self._look_at, time.monotonic() + max(seconds, 0.0))
        finally:
            with self._mutex:
                self._arming_until = 0.0
                self._watch = watch
                if watch is None:
                    self._wake_all()
        if watch is not None:
            watch.on_ready(functools.partial(self._fire, watch))

    def _look(self, tr: Transaction) -> tuple[Any, float]:
        """Return a watch, None when there is an item, and the seconds until something expires."""
        store, tables = self._store, self._store.tables
        paused = tr.snapshot[tables.paused]
        head = tr.snapshot.get_range(*store.keys.bounds(), limit=1)
        first = tr.snapshot.get_range(*tables.due_bounds(), limit=1)
        requests = tr.snapshot.get_range(*tables.requests(), limit=_REQUESTS)
        if paused.present():
            return tr.watch(tables.paused), math.inf
        if any(True for _ in head):
            return None, math.inf
        entries = [tables.parse_due(row.key) for row in first]
        now = now_us()
        left = [entry.moment - now for entry in entries if entry is not None]
        found = [read_request(tables, row.key, row.value) for row in requests]
        if any(found):
            version = tr.get_read_version().wait()
            handed = [one for one in found if one is not None and one.is_handed]
            left += [one.left(version) for one in handed if not one.lease_us]
        return tr.watch(tables.ready), min(left, default=math.inf) / 1_000_000

    def _fire(self, watch: Any, _: Any) -> None:
        """Wake all waiters when the watch reports a change; called in any thread."""
        try:
            watch.wait()
            changed = True
        except Exception:  # noqa: BLE001  # cancelled or lost: look again soon
            changed = False
        with self._mutex:
            if self._watch is not watch:
                return
            self._watch = None
            if changed:
                self._wake_all()
                return
            self._look_at = min(self._look_at, time.monotonic() + _RETRY_SECONDS)
            for wake in list(self._wakes):
                wake()

    def _wake_all(self) -> None:
        self._generation += 1
        for wake in list(self._wakes):
            wake()

    def _leave(self, wake: Callable[[], None]) -> None:
        watch = None
        with self._mutex:
            self._wakes.discard(wake)
            if not self._wakes:
                watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()


def _open(gate: threading.Lock) -> None:
    """Open the gate of a waiting thread, under the mutex."""
    if gate.locked():
        gate.release()


def _wake(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the loop was closed while a task waited
        loop.call_soon_threadsafe(woken.set)
