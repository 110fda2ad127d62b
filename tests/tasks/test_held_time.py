"""Tests that hold time still: waits end and workers go on, because their clock does not stop."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
from asgiref.sync import async_to_sync

from fdbqueue.tasks.exceptions import WaitTimedOut
from fdbqueue.tasks.task_worker import TaskWorker
from tests.tasks import jobs

DEADLINE_SECONDS = 60
WAIT_SECONDS = 0.1
_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")


@contextlib.contextmanager
def hold_by_hand():
    """Hold the clocks of the module ``time``, which is most of what freezegun does."""
    with pytest.MonkeyPatch.context() as patch:
        for name in _CLOCKS:
            now = getattr(time, name)()
            patch.setattr(time, name, lambda now=now: now)
        yield


def hold_by_freezegun():
    """Hold time by freezegun, but for event loops."""
    freezegun = pytest.importorskip("freezegun")
    return freezegun.freeze_time("2024-01-01 12:00", real_asyncio=True)


def hold_by_time_machine():
    """Hold time by time_machine."""
    machine = pytest.importorskip("time_machine")
    return machine.travel("2024-01-01 12:00", tick=False)


@pytest.fixture(params=[hold_by_hand, hold_by_freezegun, hold_by_time_machine])
def held(request):
    """Hold time still; return what holds it."""
    with request.param():
        yield request.param


def outcome_of(function):
    """Return what a function returned, or its error; it must end, by the time of the machine."""
    found = []

    def call():
        try:
            found.append(function())
        except WaitTimedOut as error:
            found.append(type(error))

    thread = threading.Thread(target=call, daemon=True)  # a wait without an end ends with the tests
    thread.start()
    thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
    return found[0]


def test_waits_end(backend, held):
    """For items of one queue or several, and for the end of a task."""
    result = jobs.note.enqueue("x")
    empty = backend.queue("other")
    assert outcome_of(lambda: empty.pop(wait=WAIT_SECONDS)) is None
    assert outcome_of(lambda: empty.lease_many(2, wait=WAIT_SECONDS)) == []
    several = backend.catalog.several([empty.name, empty.name], fair=True)
    assert outcome_of(lambda: several.pop(wait=WAIT_SECONDS)) is None
    assert outcome_of(lambda: result.wait(WAIT_SECONDS)) is WaitTimedOut


def test_waits_of_event_loops_end(backend, held):
    """If the loop's own clock goes on."""
    if held is hold_by_hand:
        pytest.skip("it holds the clock of event loops, too")
    empty = backend.queue("other")
    assert outcome_of(lambda: async_to_sync(empty.apop)(wait=WAIT_SECONDS)) is None


def test_a_worker_runs_tasks_and_stops(backend, held):
    """It waits for tasks, is woken by one, and ends when it is told to."""
    worker = TaskWorker(backend)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    result = jobs.note.enqueue("x")
    try:
        assert outcome_of(lambda: result.wait(DEADLINE_SECONDS)).return_value == "x"
    finally:
        worker.stop()
        thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
