"""Locks taken in a thread that a signal handler interrupts."""

from __future__ import annotations

import contextlib
import signal
import threading

import pytest

from fdbqueue import locks
from fdbqueue.own_threads import OwnThread

_INTERRUPTS = 300


class Alarm(Exception):
    """What the handler raises."""


@pytest.fixture
def alarmed(monkeypatch):
    """Run something until an alarm interrupts it: ``alarmed(work, seconds)``."""

    def raise_alarm(*_):
        raise Alarm

    def run(work, seconds):
        with contextlib.suppress(Alarm):
            try:
                signal.setitimer(signal.ITIMER_REAL, seconds)
                while True:
                    work()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)

    before = signal.signal(signal.SIGALRM, raise_alarm)
    yield run
    signal.signal(signal.SIGALRM, before)


def is_free(lock):
    """Tell whether another thread can take a lock."""
    taken = []
    thread = threading.Thread(target=lambda: taken.append(lock.acquire(blocking=False)))
    thread.start()
    thread.join()
    return taken == [True]


def test_an_interrupted_lock_is_free(alarmed):
    """Wherever in the ``with`` statement the exception came."""

    def take():
        with lock:
            pass

    for number in range(_INTERRUPTS):
        lock = locks.RLock()
        alarmed(take, 0.00002 + number % 10 * 0.00001)
        assert is_free(lock)


def test_an_interrupted_lock_stays_taken_by_those_who_had_it(alarmed):
    """What is taken twice, and interrupted within, is held once."""
    lock = locks.RLock()

    def take():
        with lock:
            pass

    for number in range(_INTERRUPTS):
        with lock:
            alarmed(take, 0.00002 + number % 10 * 0.00001)
            assert not is_free(lock)
        assert is_free(lock)
        lock = locks.RLock()


def test_a_thread_that_is_interrupted_as_it_starts(monkeypatch):
    """The handler's exception is raised, not one of threading's; and the thread runs."""
    begin, ran = threading._start_new_thread, threading.Event()
    threads = []

    def interrupted(*arguments, **keywords):
        begin(*arguments, **keywords)
        assert threads[0]._started.wait(60)
        raise Alarm

    for _ in range(2):
        threads[:] = [OwnThread(ran.set, name="begins")]
        with monkeypatch.context() as patch:
            patch.setattr(threading, "_start_new_thread", interrupted)
            with pytest.raises(Alarm):
                threads[0].start()
        assert ran.wait(60)
        threads[0].join()
        ran.clear()
