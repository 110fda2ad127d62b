"""What a worker holds: leases that are extended together, given back once, and never begun late."""

from __future__ import annotations

import logging
import math
import threading
import time
from types import SimpleNamespace

import pytest

from fdbqueue.exceptions import LeaseLost
from fdbqueue.tasks import compat, worker
from fdbqueue.tasks.exceptions import SignalsNotSent
from fdbqueue.tasks.source import TaskSource
from fdbqueue.tasks.worker import TaskWorker
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


def test_what_was_given_back_is_not_begun(backend):
    """Tasks that wait for a thread when the worker is interrupted again return as they were."""
    results = [bad_jobs.wait_at_the_gate.enqueue(number) for number in range(10)]
    ends = threading.Event()

    def interrupt():
        if ends.is_set():
            raise KeyboardInterrupt

    one = TaskWorker(backend, ["default"], prefetch=10, on_beat=interrupt)
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
    (item,) = source.lease_many(1, seconds=60, worker="anna")
    one._runner(item)
    given = source.give_back("anna")
    assert (given.held, given.requeued, given.ended) == (1, 0, [item])
    assert stored(result).status is SUCCESSFUL
    source.nack(item, reason="its thread was late")
    assert source.lease_many(1, seconds=60, worker="anna") == []


def test_many_are_given_back_together(backend):
    """A hundred in a transaction."""
    for number in range(150):
        jobs.note.enqueue(number)
    database = Counting(backend.catalog.database)
    source = source_of(backend, backend.catalog.over(database))
    source.lease_many(150, seconds=60, worker="anna")
    database.began.clear()
    assert source.give_back("anna").requeued == 150
    assert len(database.began) == 2
    assert backend.queue("default").counts().ready == 150


# Leases


def test_a_task_whose_lease_has_run_out_is_not_begun(backend):
    """Another worker may have it; until then it counts no attempt."""
    result = jobs.note.enqueue(1)
    source = source_of(backend)
    (item,) = source.lease_many(1, seconds=0.05, worker="anna")

    wait_until(lambda: time.monotonic() >= source._held[item.lease].until)
    with pytest.raises(LeaseLost):
        source.begin(item)
    with pytest.raises(LeaseLost):
        source.nack(item, reason="late")
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
        (item,) = one._source.lease_many(1, seconds=60, worker=one.worker)
        assert item.attempts == attempt
        clock.advance(3_600)
    one = TaskWorker(backend, ["default"])
    assert one._source.lease_many(1, seconds=60, worker=one.worker) == []
    failed = stored(result)
    assert (failed.status, failed.attempts) == (FAILED, 3)
    assert failed.errors[-1].exception_class_path == "fdbqueue.tasks.exceptions.WorkerDied"
    assert (one.failed, jobs.done) == (1, [])


# Receivers that take their time


@pytest.fixture
def held_up():
    """Let the receivers of ``task_finished`` wait for the gate, and collect the ids."""
    told = []

    def receive(task_result, **_):
        assert jobs.gate.wait(DEADLINE_SECONDS)
        told.append(task_result.id)

    compat.task_finished.connect(receive)
    yield told
    jobs.gate.set()
    compat.task_finished.disconnect(receive)


def test_a_worker_waits_for_slow_receivers(backend, held_up, caplog):
    """It begins no more tasks than it says; later the receivers are told of all, each once.

    A task begins if fewer than ``_MAX_UNSENT`` ends wait to be told. Beside these, the worker has
    as many tasks as its threads prefetch; and as many whose end is committed, together with the
    lease of the former, and is not among those that wait yet.
    """
    threads, prefetch, text = 4, 10, "tasks wait for the receivers of task_finished"
    results = [jobs.note.enqueue(number) for number in range(300)]
    one = TaskWorker(backend, ["default"], threads=threads, prefetch=prefetch, follow=False)
    thread = threading.Thread(target=one.run)
    with caplog.at_level(logging.WARNING, "fdbqueue.tasks.worker"):
        thread.start()
        try:
            wait_until(lambda: text in caplog.messages)
            assert len(jobs.done) < worker._MAX_UNSENT + 2 * threads * prefetch
            assert held_up == []
        finally:
            jobs.gate.set()
            thread.join(DEADLINE_SECONDS)
    assert sorted(held_up) == sorted(result.id for result in results)


def test_there_is_no_warning_if_receivers_are_late_for_a_moment(backend, monkeypatch, caplog):
    """A worker ends many tasks at once: then an attempt waits, and nothing is wrong."""
    monkeypatch.setattr(worker, "_MAX_UNSENT", 1)
    monkeypatch.setattr(worker, "_LATE_SECONDS", DEADLINE_SECONDS)
    waits, wait = [], worker._FinishedSignals.wait_for_room
    monkeypatch.setattr(
        worker._FinishedSignals, "wait_for_room", lambda self: waits.append(1) or wait(self)
    )
    for number in range(50):
        jobs.note.enqueue(number)
    with caplog.at_level(logging.WARNING, "fdbqueue.tasks.worker"):
        TaskWorker(backend, ["default"], threads=4, prefetch=8, follow=False).run()
    assert caplog.messages == []
    assert waits


def test_receivers_that_are_late_all_the_time_are_told_of(caplog, monkeypatch):
    """Also if no attempt waits for long, because they let some begin now and then."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(worker, "monotonic", lambda: clock.now)
    signals = worker._FinishedSignals(object)

    def wait(_seconds):
        clock.now += 0.1
        signals.unsent -= 1

    monkeypatch.setattr(signals, "_has_room", SimpleNamespace(wait=wait))
    with caplog.at_level(logging.WARNING, "fdbqueue.tasks.worker"):
        for _ in range(worker._MAX_UNSENT - 1):
            signals.add(None, None)
        for _ in range(11):
            assert caplog.messages == []
            signals.add(None, None)
            signals.wait_for_room()
    assert caplog.messages == ["tasks wait for the receivers of task_finished"]


def test_a_worker_that_cannot_tell_says_so(backend, held_up, monkeypatch):
    """It ends with an error that has the number of signals, and not as if all were well."""
    monkeypatch.setattr(worker, "_SENDING_SECONDS", 0.2)
    for number in range(3):
        jobs.note.enqueue(number)
    one = TaskWorker(backend, ["default"], follow=False)
    with pytest.raises(SignalsNotSent) as caught:
        one.run()
    assert caught.value.context["signals"] == 3
    assert one.succeeded == 3
    assert math.isclose(caught.value.context["seconds"], 0.2)
