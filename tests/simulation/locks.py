"""What takes the place of ``threading``, pools and event loops: those of a schedule."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tests.simulation import schedule as simulated
from tests.simulation.schedule import Ended, SimThread


class Waited:
    """Something that threads wait for, until what they wait for is true."""

    def __init__(self) -> None:
        self._waiting: list[SimThread] = []

    def _await(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until a condition is true; tell whether it was in time."""
        schedule, me = simulated.running, simulated.running.current
        until = None if timeout is None or timeout < 0 else schedule.until(timeout)
        while not condition():
            if until is not None and schedule.now_us >= until:
                return False
            self._waiting.append(me)
            try:
                schedule.block(until)
            finally:
                if me in self._waiting:
                    self._waiting.remove(me)
        return True

    def _wake(self) -> None:
        for thread in self._waiting:
            simulated.running.wake(thread)
        self._waiting.clear()


class Lock(Waited):
    """Takes the place of ``threading.Lock``."""

    is_reentrant, has_turns = False, True

    def __init__(self) -> None:
        super().__init__()
        self._owner: SimThread | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        schedule = simulated.running
        me = schedule.current
        if self._owner is not me or not self.is_reentrant:
            if self.has_turns:
                schedule.turn()
            seconds = timeout if blocking else 0
            if self._owner is not None and not self._await(self._is_free, seconds):
                return False
            self._owner = me
        self._count += 1
        return True

    def release(self, *_: object) -> None:
        if not self._count:
            raise RuntimeError("release unlocked lock")
        self._count -= 1
        if not self._count:
            self._owner = None
            if self._waiting:
                self._wake()
        if not self.is_reentrant:
            simulated.running.turn()

    __enter__, __exit__ = acquire, release

    def locked(self) -> bool:
        return self._owner is not None

    def _is_free(self) -> bool:
        return self._owner is None


class RLock(Lock):
    """Takes the place of ``_thread.RLock``."""

    is_reentrant = True


class EngineLock(RLock):
    """Takes the place of locks of the engine, which has its turns at its reads and commits."""

    has_turns = False


class Event(Waited):
    """Takes the place of ``threading.Event``."""

    _is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._wake()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        simulated.running.turn()
        return self._await(self.is_set, timeout)


class Condition(Waited):
    """Takes the place of ``threading.Condition``."""

    def __init__(self, lock: Lock) -> None:
        super().__init__()
        self._lock = lock

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def notify_all(self) -> None:
        self._wake()

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        self._lock.release()
        try:
            return self._await(predicate, timeout)
        finally:
            self._lock.acquire()


class SimpleQueue(Waited):
    """Takes the place of ``queue.SimpleQueue``."""

    _items: deque[Any]

    def __new__(cls, *_: Any) -> Any:
        made = super().__new__(cls)
        Waited.__init__(made)
        made._items = deque()
        return made

    def __init__(self) -> None:
        """Do nothing, as the one of C, whose classes need not call it."""

    def __class_getitem__(cls, _: Any) -> type[SimpleQueue]:
        return cls

    def put(self, item: Any) -> None:
        self._items.append(item)
        self._wake()
        simulated.running.turn()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        simulated.running.turn()
        if not self._await(lambda: bool(self._items), timeout if block else 0):
            raise queue.Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        return self.get(False)

    def qsize(self) -> int:
        return len(self._items)

    def empty(self) -> bool:
        return not self._items


class Thread:
    """Takes the place of ``threading.Thread``; ``process`` is whose it is."""

    process: Any = None

    def __init__(
        self, *, target: Callable[..., Any], name: str, args: Any = (), daemon: bool = False
    ) -> None:
        self._target, self._args, self.daemon = target, args, daemon
        self.name = f"{self.process.name}/{name.removeprefix('fdbqueue-')}"
        self._thread: SimThread | None = None

    def start(self) -> None:
        schedule = simulated.running
        self._thread = schedule.start(self.name, self.process, lambda: self._target(*self._args))
        schedule.turn()

    def join(self, timeout: float | None = None) -> None:
        assert self._thread is not None
        until = None if timeout is None else simulated.running.until(timeout)
        simulated.running.join(self._thread, until)

    def is_alive(self) -> bool:
        simulated.running.turn()
        return self._thread is not None and not (self._thread.is_over or self._thread.is_gone)


class EventLoop(asyncio.BaseEventLoop):
    """Takes the place of the loops of ``asyncio``: it waits as a simulated thread does."""

    def __init__(self) -> None:
        super().__init__()
        self._selector, self._woken = self, Event()

    def time(self) -> float:
        return simulated.running.now_us / 1e6

    def select(self, timeout: float | None) -> tuple[()]:
        self._woken.wait(timeout)
        self._woken.clear()
        return ()

    def run_forever(self) -> None:
        try:
            super().run_forever()
        except Ended:  # which who serves it may take for an error of a task
            self.close()
            raise

    def run_until_complete(self, future: Any) -> Any:
        if self.is_closed():
            future.close()
        return super().run_until_complete(future)

    def call_exception_handler(self, context: object) -> None:
        """Do nothing: a task may be left behind, as its client was."""

    def _process_events(self, events: object) -> None:
        """Do nothing: there are no sockets."""

    def _write_to_self(self) -> None:
        self._woken.set()


def run_coroutine_threadsafe(coroutine: Any, loop: EventLoop) -> Future[Any]:
    """Return a future that is done: who calls this waits for that next."""
    future, ended = asyncio.run_coroutine_threadsafe(coroutine, loop), Event()
    future.add_done_callback(lambda _: ended.set())
    ended.wait()
    return future


class Pool:
    """Takes the place of ``ThreadPoolExecutor``; ``thread`` is the class of its threads."""

    thread: type[Thread] = Thread

    def __init__(self, _: int, thread_name_prefix: str) -> None:
        self._name = thread_name_prefix

    def submit(self, call: Callable[[], None]) -> None:
        self.thread(target=call, name=self._name).start()


def threading_for(process: Any, rlock: type[RLock]) -> dict[str, Any]:
    """Return the names of ``threading`` that a process uses, whose locks are of a class."""
    return {
        "Lock": Lock,
        "RLock": rlock,
        "Event": Event,
        "Condition": lambda lock=None: Condition(rlock() if lock is None else lock),
        "Thread": type("Thread", (Thread,), {"process": process}),
        "get_ident": lambda: simulated.running.current.number + 1,
        "current_thread": lambda: simulated.running.current,
        "main_thread": lambda: None,
        "TIMEOUT_MAX": threading.TIMEOUT_MAX,
    }
