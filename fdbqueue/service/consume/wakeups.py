"""Watch the queues whose items threads and tasks of this process wait for, without polling.

There is one watch for each queue and process, on the count of ready items; when the last waiter
leaves, it is cancelled. While the queue is paused, the watch is on the key that says so. Waiters
also wake when the next lease, delay or handoff expires. Foreign writers (the recipes) do not change
the count: their items are noticed within five seconds. How a waiter uses the watches is in
:mod:`fdbqueue.service.consume.waiting`.

One push must not wake a hundred waiters, of which one gets the item. So the watch wakes the oldest
of them, and then none is set. The waiter looks at the queue. If it finds nothing, it waits again,
and sets the watch anew. If its call ends, with an item or without, there may be more items: it
wakes two others, unless the watch is set or is being set by then. So many items wake many waiters
soon, and no item is left while a waiter sleeps:

- *It was pushed before the watch was set*: who set the watch looked at the queue in the same
  transaction, and wakes a waiter.
- *It was pushed while no watch was set*: a waiter is awake then, and looks when it ends or waits
  again; or the one that it wakes does.
- *A waiter leaves* by an error, a cancelled task, or its time: it wakes two others, as above.
- *A signal handler raises* in a waiting thread, between any two lines: the mutex is only held by
  ``with``. If it comes just where the thread would have woken others, they look by themselves
  within five seconds of the time the watch was set, as they do whatever happens.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable
from typing import Any

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.locks import RLock
from fdbqueue.service.clock import now_us
from fdbqueue.service.storage.handoffs import read_request
from fdbqueue.service.storage.store import ItemStore

#: Foreign pushes, and changes that a watch misses, are noticed after this time.
LOOK_SECONDS = 5.0
_RETRY_SECONDS = 0.5
#: How many waiters one wakes whose call ends, so that many items soon wake many.
_WOKEN_AT_ONCE = 2
#: The most help requests that are read to find out when a handoff expires.
_REQUESTS = 200


class ItemWatch:
    """Wake the threads and tasks of this process that wait for items of one queue.

    Args:
        database: Anything with ``create_transaction()``.
        store: The queue's items.

    Attributes:
        database: As given.
        generation: How often there may have been an item since; read it before looking whether the
            queue is empty.
        look_at: When a waiter is to look at the queue even if nothing wakes it.
    """

    def __init__(self, database: Database, store: ItemStore) -> None:
        self.database = database
        self._store = store
        self.forget()

    def forget(self) -> None:
        """Forget all waiters and the watch, in a forked process."""
        #: Reentrant, because a signal handler may run in the thread that holds it.
        self._mutex = RLock()
        #: Functions that wake one sleeping waiter each, the oldest first; called under the mutex.
        self._wakes: dict[Callable[[], None], None] = {}
        self.generation = 0
        self._watch: Any = None
        #: Until when to rely on the thread that is setting the watch; 0 when none is.
        self._arming_until = 0.0
        self.look_at = 0.0

    @property
    def waiting(self) -> int:
        """How many threads and tasks wait."""
        return len(self._wakes)

    def enter(self, wake: Callable[[], None], seen: int) -> bool:
        """Let a waiter take part, unless there may be an item since the generation it has seen."""
        with self._mutex:
            if self.generation != seen:
                return False
            self._wakes[wake] = None
            return True

    def is_asleep(self, wake: Callable[[], None]) -> bool:
        """Tell whether a waiter takes part and was not woken."""
        return wake in self._wakes

    def leave(self, wake: Callable[[], None]) -> None:
        """Let a waiter go; the last one cancels the watch."""
        watch = None
        with self._mutex:
            self._wakes.pop(wake, None)
            if not self._wakes:
                watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()

    def wake_others(self) -> None:
        """Wake two waiters, unless the watch is set, for a waiter whose call ends."""
        if self._wakes:
            with self._mutex:
                if not self.is_watched():
                    self._wake(_WOKEN_AT_ONCE)

    def is_watched(self) -> bool:
        """Tell whether the watch is set, or a thread is setting it."""
        return self._watch is not None or time.monotonic() < self._arming_until

    def claim(self) -> bool:
        """Tell whether the calling thread is to set the watch, by :meth:`arm`."""
        with self._mutex:
            if self.is_watched():
                return False
            self._arming_until = self.look_at = time.monotonic() + LOOK_SECONDS
            return True

    def arm(self, watch: Any, seconds: float) -> None:
        """Set the watch that :meth:`begin_look` returned; wake a waiter where that is None.

        Args:
            watch: The watch, or None.
            seconds: After how many seconds to look again.
        """
        self.look_at = min(self.look_at, time.monotonic() + max(seconds, 0.0))
        with self._mutex:
            self._arming_until = 0.0
            self._watch = watch
            if watch is None:
                self.generation += 1
                self._wake(1)
        if watch is not None:
            watch.on_ready(functools.partial(self._fire, watch))

    def begin_look(self, tr: Transaction) -> Callable[[], tuple[Any, float]]:
        """Begin to read whether there is an item; call the returned function for the result.

        It returns a watch, None when there is an item, and the seconds until something expires.
        """
        tables = self._store.tables
        paused = tr.snapshot[tables.paused]
        head = tr.snapshot.get_range(*self._store.keys.bounds(), limit=1)
        first = tr.snapshot.get_range(*tables.due_bounds(), limit=1)
        requests = tr.snapshot.get_range(*tables.requests(), limit=_REQUESTS)
        return lambda: self._end_look(tr, paused, head, first, requests)

    def _end_look(
        self, tr: Transaction, paused: Any, head: Any, first: Any, requests: Any
    ) -> tuple[Any, float]:
        tables = self._store.tables
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
        """Wake a waiter when the watch reports a change; called in any thread."""
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
                self.generation += 1
                self._wake(1)
                return
            self.look_at = min(self.look_at, time.monotonic() + _RETRY_SECONDS)
            for wake in self._wakes:  # they sleep again, until then
                wake()

    def _wake(self, count: int) -> None:
        """Wake the waiters that have slept longest; called under the mutex."""
        for wake in list(itertools.islice(self._wakes, count)):
            del self._wakes[wake]
            wake()
