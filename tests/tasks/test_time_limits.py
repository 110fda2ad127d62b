"""Attempts that take longer than their time limit: they end, and nothing else does."""

from __future__ import annotations

import io
import json
import logging
import math
import os
import threading
import time
from types import SimpleNamespace

import pytest
from django.core.management import call_command

from fdbqueue.service import Item
from fdbqueue.tasks import TaskTimeout, abort
from fdbqueue.tasks.ends import Attempt
from fdbqueue.tasks.notes import Notes, Progress
from fdbqueue.tasks.records import unpacked
from fdbqueue.tasks.task_worker import TaskWorker
from fdbqueue.tasks.time_limits import (
    KILL_AT,
    LeftAttempt,
    Limit,
    ParentWatch,
    TimeLimits,
    shared_memory,
)
from tests.called import called
from tests.concurrency.conftest import clock
from tests.engines.children import wait_until
from tests.tasks import expiring_jobs, jobs, timed_jobs
from tests.tasks.stored import FAILED, RUNNING, SUCCESSFUL, stored
from tests.tasks.stored import work_in_thread as work

__all__ = ["clock"]

DEADLINE_SECONDS = 60
TIMEOUT = "fdbqueue.tasks.exceptions.TaskTimeout"
SHORT = {"timeout": 0.3, "grace_seconds": 0.2}


# In the worker's process


def test_an_async_attempt_ends_at_its_time_limit(configure):
    """It is cancelled, its ``finally`` runs, and others run after it."""
    configure(**SHORT)
    long, after = timed_jobs.sleep.enqueue(), timed_jobs.quick.enqueue(1)
    began = time.monotonic()
    worker = work()
    assert time.monotonic() - began > SHORT["timeout"]
    assert (worker.succeeded, worker.failed) == (1, 1)
    failed = stored(long)
    assert (failed.status, failed.attempts) == (FAILED, 1)
    (error,) = failed.errors
    assert error.exception_class is TaskTimeout
    assert "longer than the task's time limit: seconds=0.3" in error.traceback
    assert "timed_jobs.py" in error.traceback
    assert "time_limits.py" not in error.traceback
    assert stored(after).status is SUCCESSFUL
    assert jobs.done == ["cleaned up", 1]


def test_the_backoff_says_when_it_runs_again(configure):
    """As after any failure; it is given the exception."""
    given = []

    def backoff(exception, result):
        given.append((type(exception), exception.context["seconds"], result.attempts))
        return 0.0

    configure(**SHORT, backoff=backoff, max_attempts=2)
    again = timed_jobs.sleep_at_first.enqueue()
    own = timed_jobs.sleep_as_the_backend_says.enqueue()
    work()
    assert (stored(again).status, stored(again).return_value) == (SUCCESSFUL, "attempt 2")
    assert [error.exception_class for error in stored(again).errors] == [TaskTimeout]
    assert (stored(own).status, stored(own).attempts) == (FAILED, 2)
    assert given == [(TaskTimeout, 0.3, 1)]


def test_which_time_limit_counts(configure):
    """The task's own, longer or none, and then the backend's."""
    configure(**SHORT)
    results = [
        timed_jobs.sleep_a_while.enqueue(0.5),
        timed_jobs.sleep_a_while_without_limit.enqueue(0.5),
    ]
    work()
    assert [stored(one).status for one in results] == [SUCCESSFUL] * 2


def test_a_wait_for_a_thread_takes_no_time(configure):
    """Tasks that were leased together each have their whole time."""
    configure(timeout=0.5, grace_seconds=0.2)
    results = [timed_jobs.sleep_about.enqueue(0.2) for _ in range(5)]
    assert work(prefetch=5).succeeded == 5
    assert {stored(one).status for one in results} == {SUCCESSFUL}


def test_an_async_task_that_handles_its_end(configure):
    """What it returns then is its result."""
    configure(**SHORT)
    result = timed_jobs.return_what_there_is.enqueue()
    work()
    assert stored(result).return_value == "a part"


def test_a_cancellation_of_its_own(configure):
    """Is no time limit."""
    configure(timeout=60)
    result = timed_jobs.cancel_itself.enqueue()
    work()
    assert stored(result).errors[0].exception_class_path == "asyncio.exceptions.CancelledError"


@pytest.mark.parametrize("job", [timed_jobs.turn_at_last, timed_jobs.swallow_cancellation])
def test_without_a_parent_a_task_that_goes_on_is_noted(configure, job, caplog):
    """The worker says so, goes on with the rest, and keeps the lease; its end counts at last."""
    backend = configure(**SHORT, lease_seconds=3)
    held = job.enqueue()

    def leased_until():
        (item,) = backend.queue("default").page(state="leased").items
        return item.until

    worker = TaskWorker(backend, ["default"], threads=2)
    thread = threading.Thread(target=worker.run)
    with caplog.at_level(logging.WARNING, "fdbqueue.tasks.task_worker"):
        thread.start()
        try:
            wait_until(lambda: caplog.records)
            after = timed_jobs.quick.enqueue(1)
            wait_until(lambda: stored(after).status is SUCCESSFUL)
            until = leased_until()
            wait_until(lambda: leased_until() > until)
            assert (stored(held).status, stored(held).attempts) == (RUNNING, 1)
        finally:
            jobs.gate.set()
            wait_until(lambda: stored(held).status is not RUNNING)
            worker.stop()
            thread.join(DEADLINE_SECONDS)
    (record,) = caplog.records
    assert record.message == "a task goes on after its time limit"
    assert (record.id, record.task) == (held.id, job.module_path)
    assert (record.queue, record.seconds) == ("tasks-default", 0.3)
    assert (stored(held).status, stored(held).return_value) == (SUCCESSFUL, "at last")
    assert not worker.is_to_be_replaced


def test_a_task_asks_how_much_time_is_left(configure):
    """And may end by itself; one without a limit is told that it has none."""
    configure(**SHORT)
    limited = timed_jobs.end_by_itself.enqueue()
    work()
    assert stored(limited).return_value == [True, False]
    configure()
    jobs.gate.set()
    free = timed_jobs.end_by_itself.enqueue()
    work()
    assert stored(free).return_value == [False, False]


def test_how_it_is_shown(configure):
    """In the log of the worker, by ``tasks_show``, and as the dead letter's reason."""
    backend = configure(**SHORT)
    said = io.StringIO()
    result = timed_jobs.sleep.enqueue()
    call_command("tasks_worker", "--until-empty", stderr=said, stdout=said)
    assert f"failed: {TIMEOUT}: The attempt took longer than" in said.getvalue()
    shown = json.loads(called("tasks_show", result.id, "--json"))
    assert [error["exception"] for error in shown["errors"]] == [TIMEOUT]
    (reason,) = backend.queue("default").dead_by_reason()
    assert reason.reason == TIMEOUT


def attempt(watch, lease="1.a"):
    """Return an attempt that is in no queue, and has a row."""
    item = Item(None, None, "1", lease=lease, queue="q")
    row = watch.hold(item.queue, item.lease)
    return Attempt(SimpleNamespace(home="q"), item, time.monotonic() + 60, row=row)


def limits_of(watch, grace_seconds=5.0):
    """Return the time limits of a worker, and what is over."""
    over = []
    limits = TimeLimits(
        grace_seconds=grace_seconds, lease_seconds=60, on_over=over.append, watch=watch
    )
    return limits, over


# What a process shares with its parent


@pytest.fixture
def watches():
    """Both ends of the memory."""
    descriptor = shared_memory()
    return ParentWatch(os.dup(descriptor)), ParentWatch(descriptor)


def test_what_the_parent_sees(configure, watches):
    """The earliest moment at which a process is to be ended, as long as an attempt has a limit."""
    backend = configure(timeout=60, grace_seconds=5, lease_seconds=600)
    ours, parents = watches
    worker = TaskWorker(backend, ["default"], threads=3, follow=False, watch=ours)
    for number in range(20):
        timed_jobs.quick.enqueue(number)
    results = [jobs.wait.enqueue(), timed_jobs.sleep_a_while_without_limit.enqueue(0.5)]
    thread = threading.Thread(target=worker.run)
    began = time.monotonic()
    thread.start()
    try:
        assert jobs.begun.wait(DEADLINE_SECONDS)
        wait_until(lambda: stored(results[1]).status is SUCCESSFUL)
        assert began + 65 < parents.words[KILL_AT] < time.monotonic() + 65
    finally:
        jobs.gate.set()
        thread.join(DEADLINE_SECONDS)
    assert worker.succeeded == 22
    assert parents.words[KILL_AT] == 0
    assert parents.taken_over(math.inf) == []


def test_what_is_held_is_taken_over(watches):
    """All rows of a process that was killed, with those that were over; once, and of no other."""
    ours, parents = watches
    limits, _ = limits_of(ours)
    for seconds in (10, 20, 30, None):
        limits.begin(attempt(ours, lease=str(seconds)), seconds)
    ended, free = attempt(ours, "ended"), attempt(ours, "free")
    limits.begin(ended, 10)
    limits.leave(ended)
    ours.release(free.row)
    found = parents.taken_over(time.monotonic() + 25)
    assert found == [
        LeftAttempt("q", "10", 0, 10, is_over=True),
        LeftAttempt("q", "20", 0, 20, is_over=True),
        LeftAttempt("q", "30", 0, 30),
        LeftAttempt("q", "None"),
        LeftAttempt("q", "ended", 0, 10),
    ]
    assert parents.taken_over(math.inf) == []
    limits.close()


def test_a_process_that_ended_by_itself_leaves_nothing(watches):
    """Its attempts are those of a worker that died."""
    ours, parents = watches
    limits, _ = limits_of(ours)
    limits.begin(attempt(ours), 10)
    assert parents.taken_over(0) == parents.taken_over(math.inf) == []
    limits.close()


def test_a_name_that_is_too_long_for_a_row(watches):
    """It is left out, and the next row is whole."""
    ours, parents = watches
    limits, _ = limits_of(ours)
    for one in (attempt(ours, lease="x" * 2_000), attempt(ours)):
        limits.begin(one, 10)
    assert parents.taken_over(time.monotonic() + 60) == [
        LeftAttempt("q", "1.a", 0, 10, is_over=True)
    ]
    limits.close()


def test_more_tasks_than_rows(watches):
    """Those beyond have none, until others are released."""
    ours, _ = watches
    rows = [ours.hold("q", "x") for _ in range(4_097)]
    assert rows.count(None) == 1
    ours.release(rows[7])
    assert ours.hold("q", "y") == rows[7]


def test_an_attempt_is_over_once(watches):
    """However long it goes on; the word stays at its deadline and the grace."""
    ours, parents = watches
    limits, over = limits_of(ours)
    late = attempt(ours)
    limits.begin(late, 0.01)
    wait_until(lambda: over)
    limits.begin(attempt(ours), 60)
    limits.abort(late)
    assert over == [late.limit]
    assert parents.words[KILL_AT] == pytest.approx(late.limit.deadline + 5)
    limits.leave(late)
    assert parents.words[KILL_AT] > time.monotonic() + 30
    limits.close()


def test_what_was_left_is_not_aborted(watches):
    """Neither in memory nor in its row."""
    ours, parents = watches
    limits, over = limits_of(ours)
    ended = attempt(ours)
    limits.begin(ended, 60)
    limits.leave(ended)
    limits.abort(ended)
    assert ended.limit.seconds == 60
    assert parents.words[KILL_AT] == 0
    limits.close()
    assert over == []


def over(backend, watches, lease_seconds=60, notes=None, seconds=60):
    """Return what is over of a task that a process was ended with, which had noted something."""
    ours, parents = watches
    process = TaskWorker(backend, ["default"], worker="anna", watch=ours)
    (item,) = process._source.lease(1, seconds=lease_seconds, worker="anna")
    at_work = process._source.begin(item)
    at_work.attempts = at_work.attempts.begun("anna", 1_000_000)
    if notes is not None:
        at_work.call, at_work.notes, at_work.is_unnoted = unpacked(item.value), notes, True
        process._source.extend([item])
    process._runner.limits.begin(at_work, seconds)
    process._runner.close()
    return parents.taken_over(time.monotonic() + 60)


def test_the_replacement_fails_the_attempt(configure, watches):
    """Under its lease, in the name of the worker that began it, and before it runs others."""
    backend = configure(timeout=60, backoff=jobs.at_once)
    told = []
    result = timed_jobs.quick.enqueue(1)
    overdue = over(backend, watches)
    worker = TaskWorker(
        backend, ["default"], worker="berta", follow=False, left=overdue, on_end=told.append
    )
    worker.run()
    found = stored(result)
    assert (found.status, found.worker_ids) == (SUCCESSFUL, ["anna", "berta"])
    assert [error.exception_class for error in found.errors] == [TaskTimeout]
    assert "seconds=60" in found.errors[0].traceback
    assert found.started_at.timestamp() == 1
    assert (worker.succeeded, worker.retried) == (1, 1)
    assert [end.failure is None for end in told] == [False, True]


def test_an_attempt_whose_task_others_have(configure, watches, clock):
    """Its lease has expired: nothing is written, and the worker goes on."""
    backend = configure(timeout=60)
    result = timed_jobs.quick.enqueue(1)
    overdue = over(backend, watches)
    clock.advance(3_600)
    TaskWorker(backend, ["default"], worker="carla", follow=False).run()
    worker = TaskWorker(backend, ["default"], worker="berta", follow=False, left=overdue)
    worker.run()
    found = stored(result)
    assert (found.status, found.worker_ids) == (SUCCESSFUL, ["anna", "carla"])
    assert (worker.succeeded, worker.failed) == (0, 0)


def test_an_attempt_that_was_to_be_aborted(configure, watches):
    """It ends as that, and its task is not run again."""
    backend = configure(timeout=60)
    result = timed_jobs.quick.enqueue(1)
    overdue = over(backend, watches)
    assert abort(result.id) == "asked"
    TaskWorker(backend, ["default"], worker="berta", follow=False, left=overdue).run()
    assert (stored(result).status, stored(result).worker_ids) == (FAILED, ["anna"])


@pytest.mark.parametrize("by_force", [False, True])
def test_what_the_process_had_noted_is_kept(configure, watches, by_force):
    """Also at the first attempt: the next one begins with its metadata, the last has both."""
    backend = configure(timeout=60, backoff=jobs.at_once)
    result = timed_jobs.quick.enqueue(1)
    overdue = over(backend, watches, notes=Notes({"next row": 7}, Progress(1, 2)))
    if by_force:
        abort(result.id, by_force=True)
        overdue = [one._replace(seconds=0) for one in overdue]
    TaskWorker(backend, ["default"], worker="berta", follow=False, left=overdue).run()
    found = stored(result)
    ended = (FAILED, ["anna"], (1, 2)) if by_force else (SUCCESSFUL, ["anna", "berta"], None)
    assert (found.status, found.worker_ids, found.progress) == ended
    assert found.metadata == {"next row": 7}


def test_an_attempt_whose_task_expires_meanwhile(configure, watches, clock):
    """It has begun, so it has failed as any other, and its task runs again."""
    backend = configure(timeout=60, backoff=jobs.at_once, lease_seconds=600)
    result = expiring_jobs.within_a_minute.enqueue()
    overdue = over(backend, watches, lease_seconds=600)
    clock.advance(61)
    TaskWorker(backend, ["default"], worker="berta", follow=False, left=overdue).run()
    found = stored(result)
    assert (found.status, found.worker_ids) == (SUCCESSFUL, ["anna", "berta"])
    assert [error.exception_class for error in found.errors] == [TaskTimeout]


@pytest.mark.parametrize("seconds", [None, 3_600])
def test_what_was_held_beside_it_runs_again(configure, watches, seconds):
    """At once, and as if that attempt had not been made."""
    backend = configure(timeout=60, max_attempts=1)
    result = timed_jobs.quick.enqueue(1)
    left = over(backend, watches, lease_seconds=600, seconds=seconds)
    assert [one.is_over for one in left] == [False]
    TaskWorker(backend, ["default"], worker="berta", follow=False, left=left).run()
    found = stored(result)
    assert (found.status, found.worker_ids) == (SUCCESSFUL, ["berta"])


@pytest.mark.parametrize(("most", "status"), [(1, FAILED), (2, SUCCESSFUL)])
def test_an_attempt_that_was_over_and_lost_its_lease(configure, watches, clock, most, status):
    """Nothing took it over: its record says that it was over, and its end is the time limit."""
    backend = configure(timeout=60, max_attempts=most, lease_seconds=60)
    process = TaskWorker(backend, ["default"], worker="anna", watch=watches[0])
    result = timed_jobs.quick.enqueue(1)
    (item,) = process._source.lease(1, seconds=60, worker="anna")
    at_work = process._source.begin(item)
    at_work.call = unpacked(item.value)
    at_work.attempts = at_work.attempts.begun("anna", 1_000_000)
    at_work.limit = Limit(at_work, 60)
    process._note_over(at_work.limit)
    wait_until(lambda: "over" in backend.found(result.id).record)
    assert process.is_to_be_replaced
    clock.advance(3_600)
    TaskWorker(backend, ["default"], worker="berta", follow=False).run()
    found = stored(result)
    assert (found.status, found.errors[0].exception_class) == (status, TaskTimeout)
    assert found.worker_ids == ["anna", "berta"][:most]
    process._runner.close()
