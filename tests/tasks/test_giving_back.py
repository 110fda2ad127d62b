"""What a worker holds: leases that are extended together, given back once, and never begun late."""

from __future__ import annotations

import threading
import time

import pytest

from fdbqueue.exceptions import LeaseLost
from fdbqueue.service import Worker
from fdbqueue.tasks import compat
from fdbqueue.tasks.source import TaskSource
from fdbqueue.tasks.task_worker import TaskWorker
from tests.concurrency.conftest import clock
from tests.engines.children import wait_until
from tests.tasks import bad_jobs, jobs
from tests.tasks.stored import FAILED, SUCCESSFUL, stored

__all__ = ["clock"]

DEADLINE_SECONDS = 60


class Counting:
    """A database that counts its transactions by the threads that begin them."""

    def __init__(self, database):
        self._database = database
        self.began = []

    def __getattr__(self, name):
        return getattr(self._database, name)

    def create_transaction(self):
        self.began.append(threading.get_ident())
        return self._database.create_transaction()


def source_of(backend, catalog=None):
    """Return where a worker's tasks come from."""
    queue = (catalog or backend.catalog).queue("tasks-default")
    return TaskSource(queue, backend.records, lease_seconds=60)


# A second signal


def test_what_was_given_back_is_not_begun(backend, monkeypatch):
    """Tasks that wait for a thread when the worker is interrupted again return as they were."""
    results = [bad_jobs.wait_at_the_gate.enqueue(number) for number in range(10)]
    ends = threading.Event()

    real = Worker._await

    def interrupted(worker, is_so):
        if ends.is_set():
            raise KeyboardInterrupt
        return real(worker, is_so)

    monkeypatch.setattr(Worker, "_await", interrupted)
    one = TaskWorker(backend, ["default"], prefetch=10)
    raised = []

    def run():
        try:
            one.run()
        except KeyboardInterrupt:
            raised.append(True)

    main = threading.Thread(target=run)
    main.start()
    assert jobs.begun.wait(DEADLINE_SECONDS)
    queue = backend.queue("default")
    wait_until(lambda: queue.counts().leased == 10)
    before = {*threading.enumerate()}
    ends.set()
    main.join(DEADLINE_SECONDS)
    assert raised
    counts = queue.counts()
    assert (counts.ready, counts.leased) == (10, 0)
    jobs.gate.set()
    workers = [thread for thread in before if thread.name == "fdbqueue-worker"]
    for thread in workers:
        thread.join(DEADLINE_SECONDS)
        assert not thread.is_alive()
    assert [number for number, _ in jobs.done] == [0]
    assert sorted(stored(result).attempts for result in results) == [0] * 9 + [1]
    assert queue.counts().ready == 10


def test_a_task_that_has_ended_is_not_given_back(backend, db):
    """Its end is committed: if it may run only once, it would be lost otherwise."""
    result = jobs.note.enqueue("once")
    one = TaskWorker(backend, ["default"])
    source = one._source
    (item,) = source.lease(1, seconds=60, worker="anna")
    one._runner.run(item)
    assert source.give_back("anna") == [item]
    assert stored(result).status is SUCCESSFUL
    source.end(item)
    assert source.lease(1, seconds=60, worker="anna") == []


def test_many_are_given_back_together(backend):
    """A hundred in a transaction."""
    for number in range(150):
        jobs.note.enqueue(number)
    database = Counting(backend.catalog.database)
    source = source_of(backend, backend.catalog.over(database))
    source.lease(150, seconds=60, worker="anna")
    database.began.clear()
    assert source.give_back("anna") == []
    assert len(database.began) == 2
    assert backend.queue("default").counts().ready == 150


# Leases


def test_a_task_whose_lease_has_run_out_is_not_begun(backend):
    """Another worker may have it; until then it counts no attempt."""
    result = jobs.note.enqueue(1)
    source = source_of(backend)
    (item,) = source.lease(1, seconds=0.05, worker="anna")

    wait_until(lambda: time.monotonic() >= source._held[item.lease].until)
    with pytest.raises(LeaseLost):
        source.begin(item)
    with pytest.raises(LeaseLost):
        source.end(item)
    assert source.forget(item)[0]
    assert stored(result).attempts == 0


def test_leases_are_extended_together(configure):
    """Two hundred tasks that wait cost no two hundred transactions, and keep their leases."""
    backend = configure(lease_seconds=6)
    results = [bad_jobs.wait_at_the_gate.enqueue(number) for number in range(200)]
    database = Counting(backend.catalog.database)
    catalog = backend.catalog.over(database)
    one = TaskWorker(backend, ["default"], threads=2, prefetch=100, limit=200, catalog=catalog)
    thread = threading.Thread(target=one.run)
    thread.start()
    try:
        queue = backend.queue("default")
        wait_until(lambda: queue.counts().leased == 200)
        first = min(item.until for item in queue.page(state="leased", limit=200).items)
        database.began.clear()

        def are_extended():
            items = queue.page(state="leased", limit=200).items
            return min(item.until for item in items) > first

        wait_until(are_extended)
        assert len(database.began) <= 2 * 200 / 25 + 10
    finally:
        jobs.gate.set()
        thread.join(DEADLINE_SECONDS)
    assert (one.succeeded, one.lost) == (200, 0)
    assert {stored(result).attempts for result in results} == {1}


def test_attempts_are_bounded_if_leases_are_lost_again_and_again(configure, clock):
    """The task has failed as soon as it is leased once more, also if no thread is free for it."""
    backend = configure(max_attempts=3)
    result = jobs.note.enqueue("never")
    for attempt in range(3):
        one = TaskWorker(backend, ["default"], worker=f"anna-{attempt}")
        (item,) = one._source.lease(1, seconds=60, worker=one.worker)
        assert item.attempts == attempt
        clock.advance(3_600)
    one = TaskWorker(backend, ["default"])
    assert one._source.lease(1, seconds=60, worker=one.worker) == []
    failed = stored(result)
    assert (failed.status, failed.attempts) == (FAILED, 3)
    assert failed.errors[-1].exception_class_path == "fdbqueue.tasks.exceptions.WorkerDied"
    assert (one.failed, jobs.done) == (1, [])


# Receivers that take their time


def test_receivers_are_called_in_threads_that_run_tasks(backend):
    """Each end is told once, after it was committed; a slow receiver holds up its thread alone."""
    told, holds = [], threading.Event()

    def receive(task_result, **_):
        if task_result.args == [0]:
            assert holds.wait(DEADLINE_SECONDS)
        told.append((task_result.id, threading.current_thread().name))
        assert stored(task_result).is_finished

    compat.task_finished.connect(receive)
    one = TaskWorker(backend, ["default"], threads=2)
    thread = threading.Thread(target=one.run)
    try:
        results = [jobs.note.enqueue(number) for number in range(20)]
        thread.start()
        wait_until(lambda: len(jobs.done) >= 10)
        holds.set()
        wait_until(lambda: len(told) == 20)
        one.stop()
        thread.join(DEADLINE_SECONDS)
    finally:
        holds.set()
        compat.task_finished.disconnect(receive)
    assert sorted(result_id for result_id, _ in told) == sorted(one.id for one in results)
    assert {name for _, name in told} == {"fdbqueue-worker"}


def test_receivers_are_told_of_a_task_that_does_not_run(configure, clock):
    """It ends as it is leased, its attempts used up, and the worker waits for the next one."""
    backend = configure(max_attempts=1)
    result = jobs.note.enqueue("never")
    TaskWorker(backend, ["default"])._source.lease(1, seconds=60, worker="anna")
    clock.advance(3_600)
    told = []

    def receive(task_result, **_):
        told.append(task_result.id)

    compat.task_finished.connect(receive)
    one = TaskWorker(backend, ["default"], follow=True)
    thread = threading.Thread(target=one.run)
    thread.start()
    try:
        wait_until(lambda: told == [result.id])
    finally:
        one.stop()
        thread.join(DEADLINE_SECONDS)
        compat.task_finished.disconnect(receive)
    assert jobs.done == []
