"""Let threads and tasks wait for items, of one queue or of several.

A process has one watch for each queue, two if leases are limited. Waiters also wake when something
expires or a limit gives again, and after half a minute, as a watch may be lost; after five seconds
if programs with the recipes may push, which change no count.

A watch wakes the oldest waiter alone, and then none is set. That waiter sets it again if it finds
nothing; if its call ends, it wakes two others, unless the watch is or is being set. So no waiter
sleeps beside an item that

- *was pushed before the watch was set*: who set it looked in the same transaction;
- *was pushed while none was set*: a waiter is awake, which looks again or wakes one that does;
- *comes at a moment that only a waiter knew who leaves*: another looks then.

If a signal handler raises in a waiter, those it would have woken look by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import math
import operator
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import InvalidInput
from fdbqueue.locks import RLock
from fdbqueue.service.clock import now_us
from fdbqueue.service.sizes import MAX_SECONDS
from fdbqueue.service.storage.family_index import Prospect
from fdbqueue.service.threads import in_thread
from fdbqueue.service.transactions import run
from fdbqueue.steady import monotonic

T = TypeVar("T")

#: Foreign pushes, and changes that a watch misses, are noticed after this time; where nothing but
#: this package pushes, after so many times as long.
UNWOKEN_LOOK_SECONDS = 5.0
_SELDOM = 6
_RETRY_SECONDS = 0.5
#: When a limit gives again, one waiter looks, and wakes others as if it had been woken. These look
#: so much later by themselves, if it has left.
_PACED_SECONDS = 0.05
#: How many waiters one wakes whose call ends, so that many items soon wake many.
_WOKEN_AT_ONCE = 2
#: How often ``waits_while`` of a waiting thread is called, and how long it sleeps in one go: a
#: signal that comes right before that is handled only then.
_CHECK_SECONDS = 1.0
#: The most watches that are set in one transaction.
_ARMED_AT_ONCE = 25
#: Without a call of Python code, because each pop reads it.
_GENERATION = operator.attrgetter("generation")


#: Begins to look for an item in a transaction: see :class:`ItemWatch`.
BeginLook = Callable[[Transaction], Callable[[], Prospect]]


class ItemWatch:
    """Wake the threads and tasks of this process that wait for items of one queue.

    Args:
        database: Anything with ``create_transaction()``.
        begin_look: Begins to read, in a transaction, when there is an item
            (:mod:`fdbqueue.service.consume.prospect`); what it returns is called for the result.
        is_told: Whether each change of what it looks at changes what it watches, too.

    Attributes:
        database, begin_look, is_told: As given.
        generation: How often there may have been an item since; read it before looking whether the
            queue is empty.
        look_at: When a waiter is to look at the queue even if nothing wakes it.
    """

    def __init__(self, database: Database, begin_look: BeginLook, *, is_told: bool = False) -> None:
        self.database = database
        self.begin_look = begin_look
        self.is_told = is_told
        self.restart_after_fork()

    def restart_after_fork(self) -> None:
        """Forget all waiters and the watch, in a forked process."""
        #: Reentrant, because a signal handler may run in the thread that holds it.
        self._mutex = RLock()
        #: Functions that wake one sleeping waiter each, the oldest first; called under the mutex.
        #: False says that this one is no more.
        self._wakes: dict[Callable[[], object], None] = {}
        #: Those that do not sleep: they compare generations. The watch stays set for them, too.
        self._notices: set[Notice] = set()
        self.generation = 0
        self._watch: Any = None
        #: Until when to rely on the thread that is setting the watch; 0 when none is.
        self._arming_until = 0.0
        self.look_at = 0.0
        #: Whether that is when a limit gives again: then one waiter is to look first.
        self._is_paced = False
        #: Whether it is sooner than some waiters that sleep have been told.
        self._is_early = False

    @property
    def waiting(self) -> int:
        """How many threads and tasks wait."""
        return len(self._wakes)

    def enter(self, wake: Callable[[], object], seen: int) -> bool:
        """Let a waiter take part, unless there may be an item since the generation it has seen."""
        with self._mutex:
            if self.generation != seen:
                return False
            self._wakes[wake] = None
            return True

    def is_asleep(self, wake: Callable[[], object]) -> bool:
        """Tell whether a waiter takes part and was not woken."""
        return wake in self._wakes

    def leave(self, wake: Callable[[], object]) -> None:
        """Let a waiter go; the last one cancels the watch."""
        with self._mutex:
            self._wakes.pop(wake, None)
            watch = self._unused()
        if watch is not None:
            watch.cancel()

    def keep(self, notice: Notice) -> None:
        """Keep the watch set for one that compares generations, and is never called."""
        with self._mutex:
            self._notices.add(notice)

    def drop(self, notice: Notice) -> None:
        """Keep the watch set for it no longer; the last one cancels the watch."""
        with self._mutex:
            self._notices.discard(notice)
            watch = self._unused()
        if watch is not None:
            watch.cancel()

    def _unused(self) -> Any:
        """Take out the watch if nobody takes part any more; called under the mutex."""
        if self._wakes or self._notices:
            return None
        watch, self._watch = self._watch, None
        return watch

    def wake_others(self) -> None:
        """Wake two waiters for one whose call ends; if the watch is set, hand on when to look."""
        if self._wakes:
            with self._mutex:
                if not self.is_watched():
                    self._wake(_WOKEN_AT_ONCE)
                elif self._is_early:
                    for wake in itertools.islice(self._wakes, 1):  # it sleeps again, until then
                        wake()

    def is_watched(self) -> bool:
        """Tell whether the watch is set, or a thread is setting it.

        Not if it is time to look: who does so sets it again.
        """
        now = monotonic()
        return (self._watch is not None and now < self.look_at) or now < self._arming_until

    def next_look(self, wake: Callable[[], object]) -> float:
        """Return when a waiter is to look, even if nothing wakes it."""
        if not self._is_paced:
            return self.look_at
        with self._mutex:
            is_first = next(iter(self._wakes), None) is wake
        return self.look_at if is_first else self.look_at + _PACED_SECONDS

    def claim(self) -> bool:
        """Tell whether the calling thread is to set the watch, by :meth:`arm`."""
        with self._mutex:
            if self.is_watched():
                return False
            late, self._watch = self._watch, None
            now = monotonic()
            self._arming_until = now + UNWOKEN_LOOK_SECONDS
            self.look_at = now + UNWOKEN_LOOK_SECONDS * (_SELDOM if self.is_told else 1)
        if late is not None:
            late.cancel()
        return True

    def arm(self, watch: Any, seconds: float, *, is_paced: bool = False) -> None:
        """Set a watch; wake a waiter if there may be an item now.

        Args:
            watch: What reports a change; None if there may be an item now.
            seconds: After how many to look again, because something expires or a limit gives again.
            is_paced: Whether it is a limit that does.
        """
        look_at = monotonic() + max(seconds, 0.0)
        with self._mutex:
            self._is_paced = is_paced
            self._is_early = look_at < self.look_at
            self.look_at = min(self.look_at, look_at)
            self._arming_until = 0.0
            # Another thread has set one, if it took so long that both have claimed it.
            late, self._watch = self._watch, watch
            if watch is None:
                self.generation += 1
                self._wake(1)
        if late is not None:
            late.cancel()
        if watch is not None:
            watch.on_ready(functools.partial(self._fire, watch))

    def _fire(self, watch: Any, fired: Any) -> None:
        """Wake a waiter when the watch reports a change; called in any thread."""
        try:
            fired.wait()
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
            self.look_at = min(self.look_at, monotonic() + _RETRY_SECONDS)
            for wake in list(self._wakes):  # they sleep again, until then
                wake()

    def _wake(self, count: int) -> None:
        """Wake the waiters that have slept longest; called under the mutex."""
        while count and self._wakes:
            wake = next(iter(self._wakes))
            del self._wakes[wake]
            count -= wake() is not False


class ItemWait:
    """Wait at the watch of one queue, or at the watches of several.

    Args:
        watches: The watches.

    Attributes:
        watches: As given. ``look`` may put another tuple in its place; then it is called again
            before any waiting.
        look_at: When ``look`` is to be called at the latest, by the monotonic clock.
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
            deadline: When to give up, by the monotonic clock; ``look`` is called once more
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
                if found or monotonic() >= deadline:
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
                if found or monotonic() >= deadline:
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
            deadline: When to give up, by the monotonic clock.
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
            return self._sleep(gate, wake, self._latest_look(deadline), waits_while)
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
            end = self._latest_look(deadline)
            while self._is_asleep(wake):
                woken.clear()
                remaining = self._next_look(end, wake) - monotonic()
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
        wake: Callable[[], object],
        end: float,
        waits_while: Callable[[], bool] | None,
    ) -> bool:
        while waits_while is None or waits_while():
            check_at = monotonic() + _CHECK_SECONDS
            while True:
                if not self._is_asleep(wake):
                    return True
                now = monotonic()
                remaining = self._next_look(end, wake) - now
                if remaining <= 0:
                    return True
                if now >= check_at:
                    break
                gate.acquire(timeout=min(remaining, check_at - now))
        return False

    def _enter(self, wake: Callable[[], object], seen: Sequence[int]) -> bool:
        """Take part in the watches; tell whether none of the queues may have an item since."""
        pairs = zip(self.watches, seen, strict=True)
        return all(watch.enter(wake, generation) for watch, generation in pairs)

    def _leave(self, wake: Callable[[], object]) -> None:
        for watch in self.watches:
            watch.leave(wake)

    def _is_asleep(self, wake: Callable[[], object]) -> bool:
        return all(watch.is_asleep(wake) for watch in self.watches)

    def _latest_look(self, deadline: float) -> float:
        """Return when this wait ends at the latest; without a watch nothing else would end it."""
        return min(deadline, self.look_at, monotonic() + UNWOKEN_LOOK_SECONDS * _SELDOM)

    def _next_look(self, end: float, wake: Callable[[], object]) -> float:
        return min([end, *[watch.next_look(wake) for watch in self.watches]])


class Notice:
    """Note that there may be items again, for a thread that looks now and then and does not wait.

    It has the watches stay set, and compares their generations. Nothing calls it: so it takes no
    waiter's turn, and has nothing to pass on.

    Args:
        watches: The watches.
    """

    def __init__(self, watches: Sequence[ItemWatch]) -> None:
        self._watches = tuple(watches)
        #: The generations of a look that found nothing; None if there may be items.
        self._empty_at: Sequence[int] | None = None

    def seen(self) -> list[int]:
        """Return what to give to :meth:`begin`, before a look for items."""
        return [*map(_GENERATION, self._watches)]

    def may_be(self) -> bool:
        """Tell whether there may be items: once a watch says so, or it is time to look."""
        empty_at = self._empty_at
        if empty_at is None:
            return True
        now = monotonic()
        for watch, generation in zip(self._watches, empty_at, strict=True):
            if watch.generation != generation or now >= watch.look_at:
                self._empty_at = None
                return True
        return False

    def begin(self, seen: Sequence[int]) -> None:
        """Rely on the watches from now on, after a look that found nothing."""
        self._empty_at = seen
        for watch in self._watches:
            watch.keep(self)
        arm(self._watches, None)
        _wake_others(self._watches)  # waiters that sleep are to know of an earlier moment, too

    def expect(self) -> None:
        """Note that there may be items, because another look has seen some."""
        self._empty_at = None

    def close(self) -> None:
        """Take part no longer."""
        for watch in self._watches:
            watch.drop(self)


def deadline_after(queue: str, wait: float | None) -> float:
    """Return when to give up waiting, by the monotonic clock.

    Raises:
        InvalidInput: It is not a number of seconds.
    """
    if wait is None:
        return 0.0
    is_number = isinstance(wait, int | float) and not isinstance(wait, bool)
    if not is_number or not wait >= 0:
        raise InvalidInput(queue=queue, wait=wait, allowed="a number of seconds")
    return monotonic() + min(wait, MAX_SECONDS)


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
        found: dict[ItemWatch, _Armed] = {}
        try:
            if claimed:
                look = functools.partial(_look, watches=claimed)
                found = run(database or claimed[0].database, look, read_only=True)
        finally:
            for watch in claimed:
                one = found.get(watch, _Armed(None, 0.0))
                watch.arm(one.watch, one.seconds, is_paced=one.is_paced)
        if any(one.watch is None for one in found.values()):
            return


class _Armed(NamedTuple):
    """What a look has found, for :meth:`ItemWatch.arm`."""

    watch: Any
    seconds: float
    is_paced: bool = False


def _look(tr: Transaction, watches: Sequence[ItemWatch]) -> dict[ItemWatch, _Armed]:
    looks = [(watch, watch.begin_look(tr)) for watch in watches]
    return {watch: _armed(tr, look()) for watch, look in looks}


def _armed(tr: Transaction, found: Prospect) -> _Armed:
    if found.is_now:
        return _Armed(None, 0.0)
    seconds = math.inf if found.moment is None else (found.moment - now_us()) / 1_000_000
    watches = [tr.watch(key) for key in found.watch]
    watch = watches[0] if len(watches) == 1 else _AnyWatch(watches)
    return _Armed(watch, seconds, found.hold is not None)


class _AnyWatch:
    """Several watches as one: it reports the first change, and cancels the others."""

    def __init__(self, watches: Sequence[Any]) -> None:
        self._watches = watches
        self._is_over = False

    def on_ready(self, callback: Callable[[Any], object]) -> None:
        """Call a function with the watch that reports a change, or fails."""

        def report(fired: Any) -> None:
            if not self._is_over:
                callback(fired)
                self.cancel()

        for watch in self._watches:
            watch.on_ready(report)

    def cancel(self) -> None:
        """Cancel all of them."""
        self._is_over = True
        for watch in self._watches:
            watch.cancel()


def _wake_others(watches: Sequence[ItemWatch]) -> None:
    """Wake others at the watches at which a waiter has slept whose call ends."""
    for watch in watches:
        watch.wake_others()


def _open(gate: threading.Lock) -> None:
    """Open the gate of a waiting thread; several watches may do so at once."""
    with contextlib.suppress(RuntimeError):  # it is open
        gate.release()


def _wake(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> bool:
    """Wake a task; False if its loop was closed while it waited."""
    try:
        loop.call_soon_threadsafe(woken.set)
    except RuntimeError:
        return False
    return True
