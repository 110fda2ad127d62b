"""Where a time limit ends what runs in a thread: never where it harms anything else."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref

import pytest

from fdbqueue.tasks import TaskTimeout, strikes
from fdbqueue.tasks.runner import call_here
from fdbqueue.tasks.strikes import Strike
from tests.engines.children import wait_until
from tests.tasks import timed_jobs
from tests.tasks.test_time_limits import (
    DEADLINE_SECONDS,
    FAILED,
    TIMEOUT,
    attempt,
    runner_of,
    stored,
    work,
)

#: Code that is to reach its end, wherever it is; it is called as often as there are names for it.
INNER = """
def {name}(begun, gate, done):
    begun.set()
    while not gate.is_set():
        sleep(0.001)
    done.append("inner")
"""
#: Emptied at a test's end, for functions that were not ended.
GOES_ON = []


@pytest.fixture(autouse=True)
def _ends():
    GOES_ON.append(True)
    yield
    GOES_ON.clear()


def turn():
    """Run lines of Python until the end."""
    while GOES_ON:
        time.sleep(0.001)


def inner(module, name="inner"):
    """Return a function of some module that turns until a gate is open."""
    names = {"__name__": module, "sleep": time.sleep}
    exec(INNER.format(name=name), names)
    return names[name]


class Call:
    """A function under a time limit, in a thread of its own.

    Args:
        function: Called with an event to set, one to wait for, and a list.
        seconds: Its time limit.
        grace_seconds: The grace.
    """

    def __init__(self, function, *, seconds=0.05, grace_seconds=2 * DEADLINE_SECONDS):
        self.begun, self.gate, self.done = threading.Event(), threading.Event(), []
        self.error = None
        self._runner = runner_of(1, grace_seconds=grace_seconds, lease_seconds=600)
        self.limits = self._runner.limits()
        self.attempt = attempt()
        self._function, self._seconds = function, seconds
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self.begun.wait(DEADLINE_SECONDS)

    def _run(self):
        args = self.begun, self.gate, self.done
        try:
            call_here(self._runner, self.attempt, self._seconds, self._function, args, {})
        except BaseException as error:  # noqa: BLE001  # of any kind
            self.error = error

    @property
    def limit(self):
        """What ends it."""
        return self.attempt.limit

    def wait_for_trap(self):
        """Wait until a frame of the function has the trap; a moment before there is one already."""
        wait_until(self._has_trap)

    def _has_trap(self):
        frame = sys._current_frames().get(self._thread.ident)
        while frame is not None and not isinstance(frame.f_trace, strikes._Trap):
            frame = frame.f_back
        return frame is not None  # kept by nothing: the trap is freed with it

    def end(self):
        """Wait for the end of the function, and return what it raised."""
        self._thread.join(DEADLINE_SECONDS)
        assert not self._thread.is_alive()
        self.limits.close()
        assert self.limit.strike is None or self.limit.strike.trap is None
        return self.error


@pytest.mark.parametrize(
    "module",
    [
        "concurrent.futures.thread",
        "fdbqueue.service.combiner",
        "importlib._bootstrap",
        "logging.handlers",
        "queue",
        "threading",
        "weakref",
    ],
)
def test_a_module_of_locks_is_left_first(module):
    """What it does is done; no function of Python is called after it."""
    code = inner(module)

    def task(begun, gate, done):
        code(begun, gate, done)
        note(done)

    def note(done):
        done.append("outer")

    call = Call(task)
    call.wait_for_trap()
    call.gate.set()
    error = call.end()
    assert call.done == ["inner"]
    assert type(error) is TaskTimeout
    assert error.seconds == 0.05
    assert call.limit.strike.has_come
    assert not call.limit.strike.is_in_doubt


def test_on_a_machine_that_has_just_started(monkeypatch):
    """No exception is under way before the first, for however short the clock has run."""
    monkeypatch.setattr(strikes, "_UNDER_WAY_SECONDS", 1e9)  # longer than any machine is up
    code = inner("threading")
    call = Call(lambda *args: code(*args) or turn())
    call.wait_for_trap()
    call.gate.set()
    assert type(call.end()) is TaskTimeout


def test_a_finalizer_is_left_first():
    """Whatever it calls; and what comes after it is ended."""
    finalizer, called = inner("shop", "__del__"), inner("shop")

    def task(begun, gate, done):
        finalizer.__globals__["called"] = called
        kind = type("Finalized", (), {"__del__": lambda _: free(begun, gate, done)})
        kind()
        turn()

    def free(begun, gate, done):
        finalizer(begun, gate, done)
        called(begun, gate, done)

    free.__code__ = free.__code__.replace(co_name="__del__")
    call = Call(task)
    call.wait_for_trap()
    call.gate.set()
    assert isinstance(call.end(), TaskTimeout)
    assert call.done == ["inner", "inner"]


def test_a_callback_that_loses_it(capfd):
    """Nothing tells that it is one; the exception comes again below it, and nothing is printed."""
    code = inner("shop")

    def task(begun, gate, done):
        one = threading.Event()
        reference = weakref.ref(one, lambda _: code(begun, gate, done))
        del one
        assert reference() is None
        turn()

    call = Call(task)
    assert isinstance(call.end(), TaskTimeout)
    assert call.done == []
    assert capfd.readouterr().err == ""


def test_other_lost_exceptions_are_shown(monkeypatch):
    """By the hook that was there before."""
    Call(lambda begun, *_: begun.set()).end()
    shown = []
    monkeypatch.setattr("fdbqueue.tasks.strikes._hook_before", shown.append)
    reference = Finalized()
    del reference
    gc.collect()
    assert LookupError in [one.exc_type for one in shown]


class Finalized:
    """What raises as it is freed."""

    def __del__(self):
        raise LookupError


def test_a_frame_that_outlives_its_end():
    """A generator that has a trap and waits: the function is ended elsewhere, and once."""
    names = {"__name__": "queue", "sleep": time.sleep}
    exec(INNER.format(name="inner") + "    yield", names)

    def task(begun, gate, done):
        waiting = names["inner"](begun, gate, done)
        next(waiting)
        try:
            turn()
        except TaskTimeout:
            del waiting
            done.append("handled")
        turned = sum(1 for _ in range(100_000))
        return done.append(turned)

    call = Call(task)
    call.wait_for_trap()
    call.gate.set()
    assert call.end() is None
    assert call.done == ["inner", "handled", 100_000]


def test_our_own_code_is_spared_for_half_of_the_grace():
    """What waits in it for longer is ended there."""
    code = inner("fdbqueue.service.consume.waiting")
    call = Call(code, grace_seconds=0.2)
    assert isinstance(call.end(), TaskTimeout)
    assert call.done == []


def test_an_exception_that_comes_in_another_thread():
    """The function is looked at again; the process is in doubt from then on."""
    call = Call(inner("shop"), seconds=600)
    strike = Strike(call.attempt.thread, call.limit.seconds, call_here.__code__)
    other = threading.Thread(target=strike.kind)
    other.start()
    other.join()
    assert (strike.has_come, strike.is_in_doubt) == (False, True)
    call.limit.strike = strike  # from now on the thread that watches may look, too
    call.limits._strike(call.limit)
    assert isinstance(call.end(), TaskTimeout)
    assert strike.has_come
    assert call.limits._doubt_at < time.monotonic() + 3 * DEADLINE_SECONDS


def test_an_exception_in_a_module_of_locks():
    """It may have left one taken; at the first line of a function it has not."""

    def judged(function, *args):
        strike = Strike(threading.get_ident(), 1.0, call_here.__code__)
        try:
            function(*args)
        except TaskTimeout as error:
            strike.judge(error)
        return strike.is_in_doubt

    names = {"__name__": "logging", "Timeout": TaskTimeout}
    exec("def begin(): raise Timeout\ndef go_on():\n    raise Timeout", names)
    assert not judged(names["begin"])
    assert judged(names["go_on"])
    names["__name__"] = "shop"
    assert not judged(names["go_on"])


def test_what_has_ended_is_not_struck():
    """Nothing is put up or set after a function has left."""
    call = Call(lambda begun, *_: begun.set(), seconds=600)
    assert call.end() is None
    call.limits._strike(call.limit)
    assert (call.limit.is_struck, call.limit.strike.trap) == (False, None)


def test_what_waits_in_c_sees_it_when_it_returns():
    """Set once, it is left alone for a second, and comes once."""
    lock = threading.Lock()
    lock.acquire()

    def task(begun, gate, done):
        begun.set()
        lock.acquire()
        done.append("went on")

    call = Call(task)
    wait_until(lambda: call.limit.is_struck)
    lock.release()
    assert isinstance(call.end(), TaskTimeout)
    assert call.done == []


@pytest.mark.parametrize(
    ("job", "threads"),
    [
        (timed_jobs.free, 2),
        (timed_jobs.import_modules, 1),
        (timed_jobs.log, 3),
        (timed_jobs.start_threads, 1),
    ],
)
def test_tasks_that_are_hardly_anywhere_else(configure, job, threads):
    """Each attempt ends, those beside it go on, and the worker ends when it is told to."""
    configure(timeout=0.1, grace_seconds=0.1, lease_seconds=600)
    long = [job.enqueue() for _ in range(20)]
    after = [timed_jobs.quick.enqueue(number) for number in range(3)]
    worker = work(threads=threads)
    assert (worker.succeeded, worker.failed) == (len(after), len(long))
    assert {stored(one).status for one in long} == {FAILED}
    assert {error.exception_class_path for one in long for error in stored(one).errors} == {TIMEOUT}


def test_a_limit_that_comes_while_a_task_is_looked_for(configure):
    """It ends the task that looks: it is no failure of the module that is imported."""
    configure(timeout=0.3, grace_seconds=0.2)
    result = timed_jobs.look_for_a_task.enqueue()
    work()
    assert stored(result).status is FAILED
    assert [error.exception_class_path for error in stored(result).errors] == [TIMEOUT]
