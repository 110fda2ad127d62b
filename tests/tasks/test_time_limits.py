"""Attempts that take longer than their time limit: they end, and nothing else does."""

from __future__ import annotations

import io
import json
import linecache
import logging
import math
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from django.core.management import call_command

from fdbqueue.service import Item
from fdbqueue.tasks import TaskAborted, TaskTimeout, abort, time_limits
from fdbqueue.tasks.ends import Attempt
from fdbqueue.tasks.notes import Notes, Progress
from fdbqueue.tasks.options import BackendOptions
from fdbqueue.tasks.records import unpacked
from fdbqueue.tasks.runner import TaskRunner, call_here
from fdbqueue.tasks.strikes import Strike, set_exception
from fdbqueue.tasks.time_limits import KILL_AT, Limit, OverdueAttempt, ParentWatch, shared_memory
from fdbqueue.tasks.worker import TaskWorker
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


@pytest.mark.parametrize("job", [timed_jobs.turn, timed_jobs.turn_and_try, timed_jobs.sleep])
def test_an_attempt_ends_at_its_time_limit(configure, job):
    """In a thread, also beside handlers of its own errors, and in the loop; others run after it."""
    configure(**SHORT)
    long, after = job.enqueue(), timed_jobs.quick.enqueue(1)
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


def test_what_an_async_task_cleans_up(configure):
    """Its ``finally`` runs, as with any cancellation."""
    configure(**SHORT)
    timed_jobs.sleep.enqueue()
    work()
    assert jobs.done == ["cleaned up"]


def test_the_backoff_says_when_it_runs_again(configure):
    """As after any failure; it is given the exception."""
    given = []

    def backoff(exception, result):
        given.append((type(exception), exception.seconds, result.attempts))
        return 0.0

    configure(**SHORT, backoff=backoff, max_attempts=2)
    again, own = timed_jobs.turn_at_first.enqueue(), timed_jobs.turn_as_the_backend_says.enqueue()
    work()
    assert (stored(again).status, stored(again).return_value) == (SUCCESSFUL, "attempt 2")
    assert [error.exception_class for error in stored(again).errors] == [TaskTimeout]
    assert (stored(own).status, stored(own).attempts) == (FAILED, 2)
    assert given == [(TaskTimeout, 0.3, 1)]


def test_which_time_limit_counts(configure):
    """The task's own, longer or none, and then the backend's."""
    configure(**SHORT)
    results = [
        timed_jobs.take_a_while.enqueue(0.5),
        timed_jobs.take_a_while_without_limit.enqueue(0.5),
    ]
    work()
    assert [stored(one).status for one in results] == [SUCCESSFUL] * 2


def test_a_wait_for_a_thread_takes_no_time(configure):
    """Tasks that were leased together each have their whole time."""
    configure(timeout=0.5, grace_seconds=0.2)
    results = [timed_jobs.take_about.enqueue(0.2) for _ in range(5)]
    assert work(prefetch=5).succeeded == 5
    assert {stored(one).status for one in results} == {SUCCESSFUL}


def test_a_task_that_handles_its_end(configure):
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


@pytest.mark.parametrize("job", [timed_jobs.swallow, timed_jobs.swallow_cancellation])
def test_a_task_that_ignores_its_end(configure, job, caplog):
    """The worker says so, goes on with the rest, and keeps the lease; its end counts at last."""
    backend = configure(**SHORT, lease_seconds=3)
    held = job.enqueue()

    def leased_until():
        (item,) = backend.queue("default").page(state="leased").items
        return item.until

    worker = TaskWorker(backend, ["default"], threads=2)
    thread = threading.Thread(target=worker.run)
    with caplog.at_level(logging.WARNING, "fdbqueue.tasks.time_limits"):
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
    (record,) = [one for one in caplog.records if one.name.endswith("time_limits")]
    assert record.message == "a task goes on behind its time limit"
    assert (record.id, record.task) == (held.id, job.module_path)
    assert (record.queue, record.seconds) == ("tasks-default", 0.3)
    assert (stored(held).status, stored(held).return_value) == (SUCCESSFUL, "at last")


def test_how_it_is_shown(configure):
    """In the log of the worker, by ``tasks_show``, and as the dead letter's reason."""
    backend = configure(**SHORT)
    said = io.StringIO()
    result = timed_jobs.turn.enqueue()
    call_command("tasks_worker", "--batch", stderr=said, stdout=said)
    assert f"failed: {TIMEOUT}: The attempt took longer than" in said.getvalue()
    shown = json.loads(called("tasks_show", result.id, "--json"))
    assert [error["exception"] for error in shown["errors"]] == [TIMEOUT]
    (reason,) = backend.queue("default").dead_by_reason()
    assert reason.reason == TIMEOUT


def test_a_fork_in_a_task_with_a_time_limit(configure):
    """The child ends with what it returns; the limit is the parent's."""
    configure(**SHORT)
    result, after = timed_jobs.fork_and_take_long.enqueue(), timed_jobs.quick.enqueue(1)
    work()
    assert stored(result).errors[0].exception_class is TaskTimeout
    assert stored(after).attempts == 1


@pytest.mark.parametrize("returns", [True, False])
@pytest.mark.parametrize("by_force", [True, False])
def test_the_exception_comes_at_any_line(returns, by_force):
    """Around a function that ends: what it returned may be kept, and nothing comes after it.

    By force it has no time limit before.

    In a thread of its own, because the thread of an attempt that is struck closes its connections,
    and the main thread's keeps the tests' database in memory.
    """
    with ThreadPoolExecutor(1) as own:
        own.submit(strike_at_each_line, returns, by_force).result()


def strike_at_each_line(returns, by_force):
    """Let the exception come at one line after another, until none is left."""
    kept, line, reached = [], 0, 1
    while reached >= line:
        line += 1
        runner, struck = runner_of(1, grace_seconds=60, lease_seconds=60), attempt()
        limits = runner.limits()
        at_line, count = struck_at(line, limits, struck if by_force else None)
        before = sys.gettrace()
        sys.settrace(at_line)
        try:
            value = call_here(runner, struck, None if by_force else 30, end, [returns], {})
        except (TaskTimeout, TaskAborted, LookupError) as error:
            value = error
        finally:
            sys.settrace(before)
        for _ in range(1_000):  # of which the first would raise what is set
            pass
        reached = count()
        kept.append(value)
        assert limits._running == [None]
        assert limits._kill_at == [math.inf]
        assert not limits._mutex._is_owned()
        limits.close()
    kinds = [type(one) for one in kept]
    assert line > (10 if by_force else 20)
    assert {*kinds} == {TaskAborted if by_force else TaskTimeout, str if returns else LookupError}
    assert {one.seconds for one in kept if isinstance(one, TaskTimeout)} <= {30}
    assert isinstance(kept[-1], str if returns else LookupError)


def end(returns):
    """End as a task does."""
    if returns:
        return "returned"
    raise LookupError


def struck_at(line, limits, aborted):
    """Return a trace function that has an attempt end at the n-th line run of the machinery.

    And what tells how many lines were run. Lines that begin a ``with`` block are passed: see
    ``raising_at`` of the preemption.
    """
    count, asks = 0, False

    def at_line(frame, event, _):
        nonlocal count, asks
        is_own = frame.f_code.co_filename == time_limits.__file__
        if not is_own and frame.f_code not in (call_here.__code__, TaskRunner.limits.__code__):
            return None
        if event == "line":
            count += 1
            asks = asks or count == line
            text = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
            if asks and not text.lstrip().startswith("with "):
                ask(limits, aborted)
        return at_line

    return at_line, lambda: count


def ask(limits, aborted):
    """Let another thread end what runs, if the lock is free; by force what is aborted.

    It does so wherever that is: it has looked before, and has lost the interpreter in between.
    """

    def look():
        if limits._mutex.acquire(blocking=False):
            try:
                if aborted is not None and aborted.thread and not aborted.has_left:
                    limits.begin(Limit(aborted, 0))
                (limit,) = limits._running
                if limit is not None and limit.strike is None:
                    thread = limit.attempt.thread
                    limit.strike = Strike(thread, limit.seconds, call_here.__code__)
                    set_exception(thread, limit.strike.kind)
            finally:
                limits._mutex.release()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()


def runner_of(threads, watch=None, **options):
    """Return what runs tasks of no source, for functions that a test has it call."""
    backend = SimpleNamespace(settings=BackendOptions(**options))
    return TaskRunner(backend, None, "anna", threads, watch)


def attempt():
    """Return an attempt that is in no queue."""
    item = Item(None, None, "1", lease="1.a", queue="q")
    return Attempt(SimpleNamespace(home="q"), item, time.monotonic() + 60)


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
    results = [jobs.wait.enqueue(), timed_jobs.take_a_while_without_limit.enqueue(0.5)]
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


def test_only_what_was_over_is_taken_over(watches):
    """Of all rows, also of an attempt that has not left; and once."""
    ours, parents = watches
    limits = runner_of(3, ours, grace_seconds=5, lease_seconds=60).limits()
    for seconds in (10, 20, 30):
        limits.begin(Limit(attempt(), seconds))
    found = parents.taken_over(time.monotonic() + 25)
    assert found == [OverdueAttempt("q", "1.a", 0, seconds) for seconds in (10, 20)]
    assert parents.taken_over(math.inf) == []
    limits.close()


def test_a_name_that_is_too_long_for_a_row(watches):
    """It is left out, and the next row is whole."""
    ours, parents = watches
    limits = runner_of(2, ours, grace_seconds=5, lease_seconds=60).limits()
    long = Attempt(None, Item(None, None, "1", lease="x" * 2_000, queue="q"), math.inf)
    for one in (long, attempt()):
        limits.begin(Limit(one, 10))
    assert parents.taken_over(math.inf) == [OverdueAttempt("q", "1.a", 0, 10)]
    limits.close()


def over(backend, watches, lease_seconds=60, notes=None):
    """Return what is over of a task that a process was ended with, which had noted something."""
    ours, parents = watches
    process = TaskWorker(backend, ["default"], worker="anna", watch=ours)
    (item,) = process._source.lease_many(1, seconds=lease_seconds, worker="anna")
    at_work = process._source.begin(item)
    at_work.attempts = at_work.attempts.begun("anna", 1_000_000)
    if notes is not None:
        at_work.call, at_work.notes, at_work.is_unnoted = unpacked(item.value), notes, True
        process._source.extend_many([item], lease_seconds)
    process._runner.limits().begin(Limit(at_work, 60))
    process._runner.close()
    return parents.taken_over(time.monotonic() + 60)


def test_the_replacement_fails_the_attempt(configure, watches):
    """Under its lease, in the name of the worker that began it, and before it runs others."""
    backend = configure(timeout=60, backoff=jobs.at_once)
    told = []
    result = timed_jobs.quick.enqueue(1)
    overdue = over(backend, watches)
    worker = TaskWorker(
        backend, ["default"], worker="berta", follow=False, overdue=overdue, on_end=told.append
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
    worker = TaskWorker(backend, ["default"], worker="berta", follow=False, overdue=overdue)
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
    TaskWorker(backend, ["default"], worker="berta", follow=False, overdue=overdue).run()
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
    TaskWorker(backend, ["default"], worker="berta", follow=False, overdue=overdue).run()
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
    TaskWorker(backend, ["default"], worker="berta", follow=False, overdue=overdue).run()
    found = stored(result)
    assert (found.status, found.worker_ids) == (SUCCESSFUL, ["anna", "berta"])
    assert [error.exception_class for error in found.errors] == [TaskTimeout]


@pytest.mark.django_db(transaction=True)
def test_the_connection_of_a_thread(configure):
    """It may be half way through a change of its own state: the next task has another."""
    configure(**SHORT)
    results = [timed_jobs.turn_in_a_transaction.enqueue(), timed_jobs.ask_the_database.enqueue()]
    work()
    assert [stored(one).status for one in results] == [FAILED, SUCCESSFUL]
