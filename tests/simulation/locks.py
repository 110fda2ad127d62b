"""What takes the place of ``threading`` and ``_thread``: locks and threads of a schedule."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.simulation import schedule as simulated
from tests.simulation.schedule import SimThread


class Lock:
    """Takes the place of ``threading.Lock``."""

    def __init__(self) -> None:
        self._is_locked = False
        self._waiting: list[SimThread] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, after a turn; tell whether it was free in time."""
        schedule = simulated.running
        schedule.turn()
        if self._is_locked and (not blocking or timeout == 0):
            return False
        if self._is_locked and not _await(self, self._free, None if timeout < 0 else timeout):
            return False
        self._is_locked = True
        return True

    def release(self) -> None:
        """Release the lock, and take a turn."""
        if not self._is_locked:
            raise RuntimeError("release unlocked lock")
        self._is_locked = False
        _wake_all(self._waiting)
        simulated.running.turn()

    def locked(self) -> bool:
        """Tell whether it is taken."""
        return self._is_locked

    def _free(self) -> bool:
        return not self._is_locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock:
    """Takes the place of ``_thread.RLock``."""

    def __init__(self) -> None:
        self._owner: SimThread | None = None
        self._count = 0
        self._waiting: list[SimThread] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock once more, after a turn; tell whether that was possible in time."""
        schedule = simulated.running
        me = schedule.current
        if self._owner is not me:
            schedule.turn()
            if self._owner is not None:
                if not blocking or not _await(self, self._free, None if timeout < 0 else timeout):
                    return False
            self._owner = me
        self._count += 1
        return True

    def release(self) -> None:
        """Release the lock once."""
        if self._owner is not simulated.running.current:
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = None
            if self._waiting:
                _wake_all(self._waiting)

    def _free(self) -> bool:
        return self._owner is None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Event:
    """Takes the place of ``threading.Event``."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[SimThread] = []

    def is_set(self) -> bool:
        """Tell whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Wake all that wait."""
        self._is_set = True
        _wake_all(self._waiting)

    def clear(self) -> None:
        """Let who waits from now on wait."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set."""
        simulated.running.turn()
        return self._is_set or _await(self, self.is_set, timeout)


class Condition:
    """Takes the place of ``threading.Condition``."""

    def __init__(self, lock: Any = None) -> None:
        self._lock = lock or RLock()
        self._waiting: list[SimThread] = []
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def notify_all(self) -> None:
        """Wake all that wait."""
        _wake_all(self._waiting)

    def notify(self, n: int = 1) -> None:
        """Wake all that wait: each looks again at what it waits for."""
        self.notify_all()

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until something is true."""
        if predicate():
            return True
        self._lock.release()
        try:
            _await(self, predicate, timeout)
        finally:
            self._lock.acquire()
        return predicate()


class Thread:
    """Takes the place of ``threading.Thread``."""

    process: Any = None

    def __init__(
        self,
        group: None = None,
        target: Callable[..., Any] | None = None,
        name: str | None = None,
        args: Any = (),
        kwargs: Any = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self._target, self._args, self._kwargs = target, args, kwargs or {}
        self.name, self.daemon = name or "thread", daemon
        self._thread: SimThread | None = None

    def run(self) -> None:
        """Do what the thread is for."""
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def start(self) -> None:
        """Start it, and take a turn."""
        name = f"{self.process.name}/{self.name.removeprefix('fdbqueue-')}"
        self._thread = simulated.running.start(name, self.process, self.run)
        simulated.running.turn()

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended."""
        assert self._thread is not None
        simulated.running.join(
            self._thread, None if timeout is None else simulated.running.until(timeout)
        )

    def is_alive(self) -> bool:
        """Tell whether it was started and has not ended."""
        return self._thread is not None and not self._thread.is_over


def get_ident() -> int:
    """Return the number of the current thread."""
    return simulated.running.current.number + 1


def _await(waited: Any, condition: Callable[[], bool], timeout: float | None) -> bool:
    """Wait until a condition of a lock is true; tell whether it was in time."""
    schedule = simulated.running
    until = None if timeout is None else schedule.until(timeout)
    me = schedule.current
    while not condition():
        if until is not None and schedule.now_us >= until:
            return False
        waited._waiting.append(me)
        try:
            schedule.block(until)
        finally:
            if me in waited._waiting:
                waited._waiting.remove(me)
    return True


def _wake_all(waiting: list[SimThread]) -> None:
    schedule = simulated.running
    for thread in waiting:
        schedule.wake(thread)
    waiting.clear()


def threading_for(process: Any) -> dict[str, Any]:
    """Return the names of ``threading`` that a process uses."""
    kind = type("Thread", (Thread,), {"process": process})
    return {
        "Lock": Lock,
        "RLock": RLock,
        "Event": Event,
        "Condition": Condition,
        "Thread": kind,
        "get_ident": get_ident,
        "TIMEOUT_MAX": threading.TIMEOUT_MAX,
    }
