"""Threads that run one at a time, in an order that dice decide, on a virtual clock.

Each simulated thread is a greenlet, with a stack of its own as a real one has. At a *turn* it may
let another go on: at each use of a lock, look at the clock and call of the engine. Time passes by a
microsecond with each turn; when all threads wait, it jumps to the next moment at which one of them,
or an event of the cluster, is due.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import random
from asyncio import _get_running_loop, _set_running_loop
from collections.abc import Callable, Iterator
from typing import Any

from greenlet import getcurrent, greenlet

#: The virtual clock begins here, so that nothing depends on small numbers.
START_US = 1_700_000_000_000_000
_LONGEST_US = 70_000 * 1_000_000
#: A wait that is longer is for ever.
_FOREVER_SECONDS = 1e9

#: What a finding begins with that is none: a run of which nobody can say what must hold.
UNCLEAR = "unclear: "

#: How often a thread is told to end.
_ENDS = 20


class Ended(BaseException):
    """The run is over: raised in the threads that are left."""


class Found(Exception):
    """A promise was broken."""


class SimThread:
    """A simulated thread.

    Attributes:
        name, process: Whose it is; no process for the thread that directs the run.
        is_over: Whether it has ended.
        is_blocked: Whether it waits to be woken, or for a moment.
        pending: What it does first when it goes on, None for nothing.
        alarm: After how many turns to call what, None for never.
    """

    def __init__(self, number: int, name: str, process: Any) -> None:
        self.number, self.name, self.process = number, name, process
        self.pid = process.pid if process is not None else 0
        self.greenlet: Any = None
        self.is_over = self.is_blocked = self.is_gone = self.was_woken = False
        #: Whether it waits for an answer of the engine.
        self.is_at_engine = False
        self.ticket = 0
        self.pending: Callable[[], None] | None = None
        self.alarm: tuple[int, Callable[[], None]] | None = None
        self.joiners: list[SimThread] = []


class Schedule:
    """Which thread runs when.

    Args:
        seed: Of the dice.
        switch: How probable it is at a turn that another thread goes on.
        most_steps: A run that makes more turns does not end.
        lines: How probable it is at a line of the package.
    """

    def __init__(
        self, seed: str, switch: float, most_steps: int = 1_000_000, lines: float = 0.0
    ) -> None:
        self.dice = random.Random(seed)
        self.now_us = START_US
        #: A run that takes longer does not end.
        self.last_us = START_US + _LONGEST_US
        self.steps = 0
        self.found: str | None = None
        self.log: list[str] = []
        #: Called before time jumps, with the moment to which it will.
        self.before_jump: Callable[[int], None] = lambda _: None
        self._switch, self._most_steps, self._lines = switch, most_steps, lines
        self._ready: list[SimThread] = []
        self._events: list[tuple[int, int, Any, int]] = []
        self._numbers = itertools.count(1)
        self._is_over = False
        self._quiet = 0
        self.threads: list[SimThread] = []
        #: The tasks of the run, for their function.
        self.tasks: Any = None
        self.current = self.director = SimThread(0, "director", None)
        self.director.greenlet = getcurrent()

    # The clock

    def seconds(self) -> float:
        """Return the time of the monotonic clock, in seconds, after a turn."""
        self.turn()
        return (self.now_us - START_US) / 1e6 + 1000.0

    def at(self, when_us: int, event: Callable[[], None]) -> None:
        """Let something happen at a moment; it must not wait."""
        heapq.heappush(self._events, (when_us, next(self._numbers), event, 0))

    def sleep(self, seconds: float) -> None:
        """Let the current thread sleep."""
        if self._quiet:
            return
        if seconds <= 0:
            self.turn()
        else:
            self.block(self.now_us + int(seconds * 1e6))

    def until(self, seconds: float) -> int | None:
        """Return the moment after some seconds; None for never."""
        return None if seconds > _FOREVER_SECONDS else self.now_us + max(0, int(seconds * 1e6))

    @property
    def is_quiet(self) -> bool:
        """Whether an observer looks, while no time passes."""
        return self._quiet > 0

    # Turns

    def turn(self) -> None:
        """Let another thread go on, perhaps."""
        if self._quiet:
            return
        me = self.current
        if self._is_over:
            raise Ended
        self.steps += 1
        self.now_us += 1
        if self.steps > self._most_steps:
            self.fail("the run does not end")
        if me.alarm is not None:
            self._count_down(me)
        if self._events and self._events[0][0] <= self.now_us:
            self._fire()
        if self._ready and self.dice.random() < self._switch:
            self._ready.append(me)
            self._pass_on(me)

    def line(self) -> None:
        """Let another thread go on, perhaps, or what is to strike this one, before a line."""
        if self._quiet:
            return
        if self.current.alarm is not None:
            self._count_down(self.current)
        if self._ready and self.dice.random() < self._lines:
            self._ready.append(self.current)
            self._pass_on(self.current)

    def block(self, until_us: int | None = None) -> bool:
        """Let the current thread wait; tell whether it was woken before the moment came."""
        me = self.current
        if self._is_over:
            raise Ended
        assert not self._quiet, "an observer must not wait"
        me.is_blocked, me.was_woken = True, False
        me.ticket += 1
        if until_us is not None:
            heapq.heappush(self._events, (until_us, next(self._numbers), me, me.ticket))
        self._pass_on(me)
        return me.was_woken

    def wake(self, thread: SimThread) -> None:
        """Let a thread that is blocked go on."""
        if thread.is_blocked and not thread.is_gone:
            thread.is_blocked, thread.was_woken = False, True
            self._ready.append(thread)

    def _count_down(self, me: SimThread) -> None:
        assert me.alarm is not None
        left, action = me.alarm
        me.alarm = (left - 1, action) if left > 0 else None
        if left <= 0:
            action()

    def _fire(self) -> None:
        """Do what is due by now."""
        while self._events and self._events[0][0] <= self.now_us:
            _, _, due, ticket = heapq.heappop(self._events)
            if not isinstance(due, SimThread):
                try:
                    due()
                except Found as found:
                    self.fail(str(found))
            elif due.is_blocked and due.ticket == ticket and not due.is_gone:
                due.is_blocked = False
                self._ready.append(due)

    def _next(self) -> SimThread:
        while not self._ready:
            while self._events and isinstance(self._events[0][2], SimThread):
                _, _, due, ticket = self._events[0]
                if due.is_blocked and due.ticket == ticket and not due.is_gone:
                    break
                heapq.heappop(self._events)
            if not self._events or self._events[0][0] > self.last_us:
                self._note("these wait for ever: " + ", ".join(self._waiting()))
                return self.director
            when = self._events[0][0]
            if when > self.now_us:
                try:
                    self.before_jump(when)
                except Found as found:
                    self._note(str(found))
                    return self.director
                self.now_us = when
            self._fire()
        return self._ready.pop(self.dice.randrange(len(self._ready)))

    def _waiting(self) -> list[str]:
        return [one.name for one in self.threads if one.is_blocked and not one.is_gone]

    def _pass_on(self, me: SimThread) -> None:
        following = self._next()
        if following is not me:
            self._hand_over(following)
        if self._is_over:
            raise Ended
        if self.found is not None and me is self.director:
            raise Found(self.found)
        if me.pending is not None:
            action, me.pending = me.pending, None
            action()

    def _hand_over(self, thread: SimThread) -> None:
        self.current, loop = thread, _get_running_loop()  # that of the real thread
        if loop is not None:
            _set_running_loop(None)
        thread.greenlet.switch()
        if loop is not None:
            _set_running_loop(loop)

    # Threads

    def start(self, name: str, process: Any, target: Callable[[], None]) -> SimThread:
        """Start a thread; it runs once it has a turn."""
        if self._is_over:
            raise Ended
        thread = SimThread(len(self.threads) + 1, name, process)
        self.threads.append(thread)
        self._ready.append(thread)
        thread.greenlet = greenlet(lambda: self._run(thread, target), self.director.greenlet)
        return thread

    def _run(self, thread: SimThread, target: Callable[[], None]) -> None:
        try:
            target()
        except Ended:
            pass
        except BaseException as error:  # noqa: BLE001  # a thread of the package must not fail
            self._note(f"thread {thread.name} ended by {error!r}")
        thread.is_over = True
        if not self._is_over:
            for joiner in thread.joiners:
                self.wake(joiner)
            self._hand_over(self.director if self.found is not None else self._next())

    def join(self, thread: SimThread, until_us: int | None = None) -> None:
        """Wait until a thread has ended."""
        while not (thread.is_over or thread.is_gone) and (
            until_us is None or self.now_us < until_us
        ):
            thread.joiners.append(self.current)
            self.block(until_us)

    def kill(self, threads: list[SimThread]) -> None:
        """Let threads never go on; the current one, if it is among them, at once."""
        for thread in threads:
            thread.is_gone = True
            for joiner in thread.joiners:
                self.wake(joiner)
        self._ready = [one for one in self._ready if not one.is_gone]
        if self.current.is_gone:
            self._pass_on(self.current)

    def fail(self, text: str) -> None:
        """End the run by a finding."""
        self._note(text)
        me = self.current
        if me is self.director:
            raise Found(text)
        self._hand_over(self.director)
        raise Ended

    def end(self) -> None:
        """End all threads that are left."""
        self._is_over = True
        for thread in self.threads:
            self.current = thread
            for _ in range(_ENDS):  # what works on after any exception is told again
                with contextlib.suppress(Ended):
                    thread.greenlet.throw(Ended)
                if thread.is_over or thread.greenlet.dead:
                    break
            else:
                raise RuntimeError(f"the thread {thread.name} does not end")

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Let the current thread look at everything while no time passes."""
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1

    def _note(self, text: str) -> None:
        if self.found is None:
            self.found = text
            self.note(f"FOUND {text}")

    def note(self, text: str) -> None:
        """Add a line to the history."""
        seconds = (self.now_us - START_US) / 1e6
        self.log.append(f"{seconds:12.6f} {self.current.name}: {text}")


#: The schedule of the run that is under way; before the first, one without threads.
running = Schedule("", 0.0)
