"""Tasks that a worker leases ahead: they share commits, and what has not begun is unharmed."""

from __future__ import annotations

import contextlib
import datetime
import signal
import sys
import threading
import time

import pytest

from fdbqueue.exceptions import LeaseLost
from fdbqueue.service import ahead, run
from fdbqueue.tasks import TaskAborted, abort
from fdbqueue.tasks.columns import course
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.exceptions import WorkerDied
from fdbqueue.tasks.task_worker import TaskWorker
from tests import forked
from tests.concurrency.conftest import clock
from tests.engines.children import wait_until
from tests.tasks import bad_jobs, jobs
from tests.tasks.killing import ROOT
from tests.tasks.stored import FAILED, READY, SUCCESSFUL, stored

__all__ = ["clock"]

DEADLINE_SECONDS = 60


def leased_together(worker, count):
    """Lease tasks as a worker does that is to have several."""
    items = worker._source.lease(count, seconds=60, worker=worker.worker)
    assert len(items) == count
    return items


def test_short_tasks_are_leased_together(backend):
    """Far fewer leases than tasks, without an option."""
    for number in range(100):
        jobs.note.enqueue(number)
    one = TaskWorker(backend, ["default"], follow=False)
    counts = []
    lease = one._source.lease

    def counting(count, *done, **how):
        counts.append(count)
        return lease(count, *done, **how)

    one._source.lease = counting
    one.run()
    assert sorted(jobs.done) == [*range(100)]  # a pause of the machine may put some back
    assert one.succeeded == 100
    assert counts[0] == 1  # nothing is known yet of how long they take
    assert len(counts) < 60


def test_what_waits_is_unharmed_by_a_kill(backend, clock):
    """A worker that held ten tasks has gone: those that had not begun have no attempt."""
    results = [jobs.note.enqueue(number) for number in range(10)]
    one = TaskWorker(backend, ["default"], worker="anna")
    first, *_ = leased_together(one, 10)
    one._source.begin(first)
    clock.advance(3_600)
    TaskWorker(backend, ["default"], follow=False, worker="berta").run()
    found = [stored(result) for result in results]
    assert {one.status for one in found} == {SUCCESSFUL}
    assert {tuple(one.worker_ids) for one in found} == {("berta",)}


def begun_with_another(backend):
    """Lease two tasks together, and begin the first: its worker, its item and its thread."""
    one = TaskWorker(backend, ["default"], worker="anna")
    first, *_ = leased_together(one, 2)
    thread = threading.Thread(target=one._runner.run, args=[first], daemon=True)
    thread.start()
    assert jobs.begun.wait(DEADLINE_SECONDS)
    return one, first, thread


def test_a_lease_ahead_counts_once_the_task_has_begun(backend, clock):
    """It is noted when it has run for a tenth of a second; the others of its lease are spared."""
    results = [bad_jobs.wait_at_the_gate.enqueue(number) for number in range(2)]
    one, first, thread = begun_with_another(backend)
    wait_until(lambda: one._source._held[first.lease].is_unnoted)
    attempt = one._source._held[first.lease]
    one._source.note_begun([attempt])
    assert stored(results[0]).worker_ids == ["anna"]
    clock.advance(3_600)
    jobs.gate.set()
    thread.join(DEADLINE_SECONDS)
    TaskWorker(backend, ["default"], follow=False, worker="berta").run()
    workers = [stored(result).worker_ids for result in results]
    assert workers == [["anna", "berta"], ["berta"]]


def test_a_task_of_one_attempt_is_noted_before_it_begins(configure, clock):
    """If its worker is killed it is not run again, as with a lease of its own."""
    backend = configure(max_attempts=1)
    results = [bad_jobs.wait_at_the_gate.enqueue(number) for number in range(2)]
    *_, thread = begun_with_another(backend)
    clock.advance(3_600)
    jobs.gate.set()
    thread.join(DEADLINE_SECONDS)
    TaskWorker(backend, ["default"], follow=False, worker="berta").run()
    assert [stored(result).status for result in results] == [FAILED, SUCCESSFUL]
    assert stored(results[0]).worker_ids == ["anna"]


def test_a_task_of_one_attempt_of_which_too_little_is_known(configure, clock):
    """Who had it first may have begun; the queue knows only of three leases ahead since."""
    backend = configure(max_attempts=1)
    result = jobs.note.enqueue(1)
    queue = backend.queue("default")
    for worker in ("anna", *[ahead("berta")] * 3):
        assert queue.lease(seconds=60, worker=worker) is not None
        clock.advance(3_600)
    TaskWorker(backend, ["default"], follow=False, worker="carl").run()
    assert jobs.done == []
    found = stored(result)
    assert found.status is FAILED
    assert found.errors[-1].exception_class is WorkerDied


@pytest.mark.parametrize("deaths", [1, 2, 4])
def test_when_the_first_attempt_began_whose_worker_died(configure, clock, deaths):
    """It is that of its lease, also after many others; and it ran until its lease was over."""
    backend = configure(max_attempts=9, lease_seconds=60)
    result = jobs.note.enqueue(1)
    queue = backend.queue("default")
    leases = []
    for number in range(deaths):
        if number:  # a worker notes which attempt it begins
            worker = TaskWorker(backend, ["default"], worker=f"w{number}")
            (item,) = worker._source.lease(1, seconds=60, worker=worker.worker)
            worker._source.begin_later_attempt(item, result.id)
        else:
            item = queue.lease(seconds=60, worker="w0")
        leases.append(item.until - datetime.timedelta(seconds=60))
        clock.advance(3_600)
    worker = TaskWorker(backend, ["default"], worker="berta")
    (item,) = worker._source.lease(1, seconds=60, worker="berta")
    found = stored(result)
    assert (found.attempts, found.started_at) == (deaths + 1, leases[0])
    assert found.last_attempted_at > leases[-1]
    if deaths == 1:
        steps = [(step.text, step.took) for step in course(backend.found(result.id))]
        assert ("Attempt 1 failed", "ran 1 min") in steps
    worker._runner.run(item)
    worker._source.end(item)
    assert stored(result).started_at == leases[0]


def test_a_lease_that_was_lost_begins_no_second_attempt(backend, clock):
    """By a clock that is ahead, though its worker does not know: it would not be counted."""
    jobs.note.enqueue(1)
    leased_together(TaskWorker(backend, ["default"], worker="anna"), 1)
    clock.advance(3_600)
    one = TaskWorker(backend, ["default"], worker="berta")
    (second,) = leased_together(one, 1)
    clock.advance(3_600)
    leased_together(TaskWorker(backend, ["default"], worker="carla"), 1)
    with pytest.raises(LeaseLost):
        one._runner.run(second)
    assert jobs.done == []


def test_a_second_attempt_counts_whatever_follows(backend, clock):
    """Also once the queue has forgotten it, after three leases ahead in which nothing began."""
    result = jobs.note.enqueue(1)
    leased_together(TaskWorker(backend, ["default"], worker="anna"), 1)
    clock.advance(3_600)
    one = TaskWorker(backend, ["default"], worker="berta")
    (second,) = leased_together(one, 1)
    one._source.begin(second)
    one._source.begin_later_attempt(second, result.id)
    for _ in range(3):
        clock.advance(3_600)
        backend.queue("default").lease(seconds=60, worker=ahead("carla"))
    clock.advance(3_600)
    TaskWorker(backend, ["default"], follow=False, worker="dora").run()
    assert stored(result).worker_ids == ["anna", "unknown", "dora"]


def test_a_spent_task_that_is_gone_stops_no_worker(configure, clock):
    """Its queue is cleared between its lease and the look at its attempts."""
    backend = configure(max_attempts=1)
    jobs.note.enqueue(1)
    leased_together(TaskWorker(backend, ["default"]), 1)
    clock.advance(3_600)
    item = backend.queue("default").lease(seconds=60)
    backend.queue("default").clear()
    assert not TaskWorker(backend, ["default"])._runner.is_spent(item)


def test_what_was_aborted_while_it_waited_does_not_run(backend, monkeypatch):
    """Though its worker had leased it: it has failed as aborted, and the others run."""
    monkeypatch.setattr("fdbqueue.tasks.runner.AHEAD_SECONDS", 0.0)
    results = [jobs.note.enqueue(number) for number in range(2)]
    one = TaskWorker(backend, ["default"])
    first, second = leased_together(one, 2)
    assert abort(results[1].id) == "asked"
    thread = threading.Thread(target=one._runner.run, args=[first])
    thread.start()
    thread.join(DEADLINE_SECONDS)
    one._source.end(first)
    with pytest.raises(TaskAborted):
        one._runner.run(second)
    one._source.end(second)
    assert [stored(result).status for result in results] == [SUCCESSFUL, FAILED]
    assert jobs.done == [0]


def test_what_waits_is_looked_up_together(backend, monkeypatch):
    """One look in a moment for all that a worker has leased ahead: not a transaction for each."""
    monkeypatch.setattr("fdbqueue.tasks.runner.AHEAD_SECONDS", 1e9)  # longer than any is up
    results = [jobs.note.enqueue(number) for number in range(5)]
    one = TaskWorker(backend, ["default"])
    items = leased_together(one, 5)
    for attempt in one._source._held.values():
        attempt.leased -= 1e9 + 1
    assert abort(results[3].id) == "asked"
    looks = []

    def counting(*args, **options):
        looks.append(args)
        return run(*args, **options)

    monkeypatch.setattr("fdbqueue.tasks.aborts.run", counting)
    for number, item in enumerate(items):
        with pytest.raises(TaskAborted) if number == 3 else contextlib.nullcontext():
            one._runner.run(item)
    assert (jobs.done, len(looks)) == ([0, 1, 2, 4], 1)


def test_a_killer_among_others_costs_them_nothing(configure, environment):
    """It fails after its attempts, and one more at most; the others succeed at their first."""
    backend = configure(lease_seconds=3)
    before = [jobs.note.enqueue(number) for number in range(20)]
    killer = jobs.die.enqueue()
    after = [jobs.note.enqueue(number) for number in range(20)]
    command = [sys.executable, "manage.py", "tasks_worker", "--until-empty"]
    deaths = 0
    while stored(killer).status is not FAILED:
        ended = forked.run(
            command, cwd=ROOT, env=environment, timeout=120, check=False, capture_output=True
        )
        deaths += ended.returncode == -signal.SIGKILL
        assert deaths <= 4
        time.sleep(3.1)  # the leases of those that it held
    forked.run(command, cwd=ROOT, env=environment, timeout=120, check=False)
    assert len(backend.get_result(killer.id).worker_ids) == 3
    found = [backend.get_result(result.id) for result in after]
    assert {one.status for one in found} == {SUCCESSFUL}
    assert [(one.args, one.worker_ids, one.errors) for one in found if one.attempts != 1] == []
    assert {backend.get_result(result.id).status for result in before} == {SUCCESSFUL}


def test_what_waits_behind_a_long_task_is_put_back(backend):
    """Other workers take it: a line is a moment's work, not a number of tasks."""
    for number in range(40):
        jobs.note.enqueue(number)
    held = bad_jobs.wait_at_the_gate.enqueue("long")
    waits = [jobs.note.enqueue(number) for number in range(40, 44)]
    one = TaskWorker(backend, ["default"], limit=45)
    thread = threading.Thread(target=one.run)
    thread.start()
    try:
        assert jobs.begun.wait(DEADLINE_SECONDS)
        queue = backend.queue("default")
        wait_until(lambda: queue.counts().leased == 1)  # others may have been put back, too
        assert {stored(result).status for result in waits} == {READY}
        assert stored(held).status is TaskResultStatus.RUNNING
        TaskWorker(backend, ["default"], follow=False).run()
        assert {stored(result).attempts for result in waits} == {1}
    finally:
        jobs.gate.set()
        one.stop()
        thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
    assert stored(held).status is SUCCESSFUL


def test_a_worker_that_ends_puts_back_what_waits(backend):
    """At once, while its running task goes on."""
    results = [bad_jobs.wait_at_the_gate.enqueue(number) for number in range(10)]
    one = TaskWorker(backend, ["default"], prefetch=10)
    thread = threading.Thread(target=one.run)
    thread.start()
    try:
        assert jobs.begun.wait(DEADLINE_SECONDS)
        queue = backend.queue("default")
        wait_until(lambda: queue.counts().leased == 10)
        one.stop()
        wait_until(lambda: (queue.counts().leased, queue.counts().ready) == (1, 9))
    finally:
        jobs.gate.set()
        thread.join(DEADLINE_SECONDS)
    assert sorted(stored(result).attempts for result in results) == [0] * 9 + [1]
    assert one.succeeded == 1


def test_a_limit_counts_no_task_that_was_put_back(backend, work):
    """A worker of one task that has put it back takes another."""
    jobs.note.enqueue(1)
    one = TaskWorker(backend, ["default"], limit=1)
    one.run()
    assert (one.succeeded, jobs.done) == (1, [1])
    assert work().succeeded == 0
