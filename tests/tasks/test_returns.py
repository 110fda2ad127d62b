"""Tasks that are given back, or run now, at somebody else's word."""

from __future__ import annotations

import datetime

import pytest

from fdbqueue.exceptions import LeaseLost
from fdbqueue.tasks.exceptions import WorkerDied
from fdbqueue.tasks.task_worker import TaskWorker
from tests.concurrency.census import assert_counted
from tests.tasks import jobs, limited_jobs
from tests.tasks.stored import FAILED, READY, RUNNING, SUCCESSFUL, stored
from tests.tasks.test_ahead import leased_together


def leased_by(backend, name, **options):
    """Lease a task as a worker does that is then killed."""
    one = TaskWorker(backend, ["default"], worker=name, **options)
    (item,) = one._source.lease(1, seconds=1_800, worker=name)
    return one, item


def test_a_task_that_is_given_back_runs_at_once(backend):
    """Its attempt is told as that of a worker that has died, and by what."""
    result = jobs.note.enqueue(1)
    _one, item = leased_by(backend, "dead:1")
    assert stored(result).status is RUNNING
    assert backend.queue("default").give_back(worker="dead:1") == 1
    waiting = stored(result)
    assert (waiting.status, waiting.attempts) == (READY, 1)
    (error,) = waiting.errors
    assert error.exception_class is WorkerDied
    assert "it was given back" in error.traceback
    TaskWorker(backend, ["default"], follow=False, worker="alive:2").run()
    done = stored(result)
    assert (done.status, done.worker_ids) == (SUCCESSFUL, ["dead:1", "alive:2"])
    with pytest.raises(LeaseLost):
        backend.queue("default").ack(item)


def test_without_an_attempt_it_is_as_if_never_leased(backend):
    """The next attempt is its first."""
    result = jobs.note.enqueue(1)
    leased_by(backend, "dead:1")
    assert backend.queue("default").give_back(worker="dead:1", spend=False) == 1
    TaskWorker(backend, ["default"], follow=False, worker="alive:2").run()
    done = stored(result)
    assert (done.status, done.worker_ids, done.errors) == (SUCCESSFUL, ["alive:2"], [])


def test_what_waited_for_a_thread_has_no_attempt(backend):
    """A worker held ten tasks, and had begun one: the others are spared, as if it had expired."""
    results = [jobs.note.enqueue(number) for number in range(10)]
    one = TaskWorker(backend, ["default"], worker="dead:1")
    first, *_ = leased_together(one, 10)
    one._source.begin(first)
    assert backend.queue("default").give_back(worker="dead:1") == 10
    TaskWorker(backend, ["default"], follow=False, worker="alive:2").run()
    found = [stored(result) for result in results]
    assert {one.status for one in found} == {SUCCESSFUL}
    assert {tuple(one.worker_ids) for one in found} == {("alive:2",)}


def test_the_last_attempt_is_spent(configure):
    """A task that may run once is failed by the next worker, and told as its worker's death."""
    backend = configure(max_attempts=1)
    result = jobs.note.enqueue(1)
    leased_by(backend, "dead:1")
    backend.queue("default").give_back(worker="dead:1")
    TaskWorker(backend, ["default"], follow=False).run()
    failed = stored(result)
    assert (failed.status, failed.worker_ids) == (FAILED, ["dead:1"])
    assert failed.errors[-1].exception_class is WorkerDied


def test_a_scheduled_task_runs_now(backend):
    """And one of a key that pauses for an hour after a failure, with the attempt it has had."""
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    scheduled = jobs.note.using(run_after=later).enqueue("scheduled")
    failing = limited_jobs.fail_for_an_hour.enqueue("a")
    TaskWorker(backend, ["default"], follow=False).run()
    assert (stored(failing).status, stored(failing).attempts, jobs.done) == (READY, 1, [])
    several = backend.catalog.several(["*"])
    assert several.run_now() == 2
    TaskWorker(backend, ["default"], follow=False).run()
    assert stored(scheduled).status is SUCCESSFUL
    assert (stored(failing).status, stored(failing).attempts) == (FAILED, 2)
    assert several.count("delayed") == 0
    assert_counted(backend.queue("default"))


def test_limited_tasks(backend):
    """A key's task that is given back runs at once, and then the next of the key."""
    results = [limited_jobs.one_a_customer.enqueue("a", number) for number in range(2)]
    several = backend.catalog.several(["limited.*"])
    assert several.lease(worker="dead:1", seconds=1_800) is not None
    assert several.lease() is None
    assert several.give_back(worker="dead:1") == 1
    TaskWorker(backend, ["default"], follow=False, worker="alive:2").run()
    assert {stored(result).status for result in results} == {SUCCESSFUL}
    assert stored(results[0]).worker_ids == ["dead:1", "alive:2"]


def test_limits_hold_for_what_runs_now(backend):
    """Of a key's tasks that waited for their time, one runs at a time."""
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    for number in range(3):
        limited_jobs.one_a_customer.using(run_after=later).enqueue("a", number)
    several = backend.catalog.several(["limited.*"])
    assert several.run_now() == 3
    assert several.lease(worker="alive:1", seconds=60) is not None
    assert several.lease() is None
