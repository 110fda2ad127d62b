"""Commits that fail, outcomes that are not known, and an engine that is away."""

from __future__ import annotations

import math
import threading
from collections import Counter

import pytest

from fdbqueue.exceptions import LeaseLost, OutcomeUnknown
from fdbqueue.service import run
from fdbqueue.tasks.compat import TaskResultStatus, task_finished, task_started
from fdbqueue.tasks.task_worker import TaskWorker
from tests.engines.children import wait_until
from tests.faults.conftest import clock, faulty
from tests.faulty_database import TIMED_OUT, FaultyDatabase
from tests.tasks import jobs

__all__ = ["clock", "faulty"]

TASKS = 40


def results_of(backend, results):
    """Return what is stored of results, after checking that nothing else is."""
    found = [backend.get_result(result.id) for result in results]
    queue = backend.queue("default")
    counts = queue.counts()
    assert (counts.ready, counts.leased, counts.delayed) == (0, 0, 0)

    def entries(tr):
        return [
            entry.id
            for status in ("SUCCESSFUL", "FAILED")
            for entry in backend.records.ended(tr, queue.name, status, limit=10_000)
        ]

    ended = Counter(run(queue.database, entries))
    assert ended == {result.id: 1 for result in results}
    return found


def received(signal):
    """Collect the ids that a signal tells of."""
    ids = []

    def receive(task_result, **_):
        ids.append(task_result.id)

    signal.connect(receive, weak=False)
    return ids, lambda: signal.disconnect(receive)


@pytest.mark.parametrize(
    ("prefetch", "apart", "attempts"), [(1, False, 2), (16, False, 1), (1, True, 1)]
)
def test_an_end_whose_outcome_stays_unknown_is_found_out(
    configure, engine, prefetch, apart, attempts
):
    """The task does not run again if its end has taken effect, and is told of.

    The next one, which was leased in the same transaction, runs once that lease has expired, and
    has one attempt more, unless it was leased ahead; or by itself, where others take items.
    """
    backend = configure(lease_seconds=2)
    database = FaultyDatabase(backend.catalog.database)
    results = [jobs.note.enqueue(number) for number in range(3)]
    ids, disconnect = received(task_finished)
    begun = threading.Event()

    def break_once(task_result, **_):
        if not begun.is_set():
            begun.set()
            database.fail_commits(code=TIMED_OUT, took_effect=True)

    task_started.connect(break_once)
    worker = TaskWorker(
        backend, ["default"], prefetch=prefetch, catalog=backend.catalog.over(database)
    )
    if apart:
        worker._source._apart_until = math.inf
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        wait_until(lambda: len(ids) >= len(results))
    finally:
        task_started.disconnect(break_once)
        worker.stop()
        thread.join(60)
        disconnect()
    assert database.happened == 1
    assert (worker.succeeded, worker.lost) == (3, 0)
    assert sorted(jobs.done) == [0, 1, 2]
    assert [one.attempts for one in results_of(backend, results)] == [1, attempts, 1]


def test_an_end_of_which_nothing_is_kept_is_found_out(configure, engine):
    """It has taken effect: without that there would be a record."""
    backend = configure(retention={"successful": 0}, lease_seconds=60)
    database = FaultyDatabase(backend.catalog.database)
    jobs.note.enqueue(1)
    worker = TaskWorker(backend, ["default"], catalog=backend.catalog.over(database))
    (item,) = worker._source.lease(1, seconds=60, worker=worker.worker)
    worker._runner.run(item)
    end = worker._source._end_of(item)
    database.fail_commits(code=TIMED_OUT, took_effect=True)
    with pytest.raises(OutcomeUnknown):
        worker._source._ends.commit(end)
    worker._source.end(item)
    assert end.is_done


@pytest.mark.parametrize("name", ["quick", "slow"])
def test_an_end_that_did_not_take_effect_is_not_told_of(configure, engine, clock, name):
    """Neither where the next worker has noted the attempt already; it may have the same id."""
    backend = configure(lease_seconds=60)
    database = FaultyDatabase(backend.catalog.database)
    ids, disconnect = received(task_finished)
    result = jobs.wait.enqueue()
    catalog = backend.catalog.over(database)
    slow = TaskWorker(backend, ["default"], worker="slow", limit=1, catalog=catalog)
    quick = TaskWorker(backend, ["default"], worker=name, limit=1)
    threads = [threading.Thread(target=one.run) for one in (slow, quick)]
    try:
        threads[0].start()
        assert jobs.begun.wait(60)
        database.fail_commits(code=TIMED_OUT, took_effect=False, times=math.inf)
        jobs.gate.set()
        wait_until(lambda: database.happened)
        for event in (jobs.gate, jobs.begun):
            event.clear()
        clock.advance(3_600)
        threads[1].start()
        assert jobs.begun.wait(60)
        database.fail_commits(took_effect=False, times=0)
        threads[0].join(60)
        assert (slow.succeeded, slow.lost) == (0, 1)
        assert ids == []
    finally:
        jobs.gate.set()
        threads[1].join(60)
        disconnect()
    assert ids == [result.id]
    assert [one.worker_ids for one in results_of(backend, [result])] == [["slow", name]]


@pytest.mark.parametrize("apart", [False, True])
def test_what_ends_with_a_lost_lease_is_not_ended(backend, clock, apart):
    """Of ends that share a transaction, none is written if one lease is held by another worker."""
    results = [jobs.note.enqueue(number) for number in range(2)]
    slow = TaskWorker(backend, ["default"], worker="slow")
    items = slow._source.lease(2, seconds=60, worker="slow")
    for item in items:
        slow._runner.run(item)
    clock.advance(3_600)
    TaskWorker(backend, ["default"], worker="quick", limit=1, follow=False).run()
    slow._source._apart_until = math.inf if apart else 0
    with pytest.raises(LeaseLost):
        slow._source.lease(1, seconds=60, worker="slow", done=items)
    found = [backend.get_result(result.id) for result in results]
    assert [one.is_finished for one in found] == [True, False]
    assert found[0].worker_ids[-1] == "quick"


def test_an_engine_that_is_away_loses_nothing(backend, engine):
    """A task that ended meanwhile does not run again."""
    database = FaultyDatabase(backend.catalog.database)
    result = jobs.wait.enqueue()
    worker = TaskWorker(backend, ["default"], catalog=backend.catalog.over(database))
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        assert jobs.begun.wait(60)
        database.is_available = False
        jobs.gate.set()
        tries = threading.Event()
        tries.wait(0.5)  # some of its attempts to end the task fail
        assert backend.get_result(result.id).status is TaskResultStatus.RUNNING
        database.is_available = True
        wait_until(lambda: backend.get_result(result.id).is_finished)
        after = jobs.note.enqueue("after")
        wait_until(lambda: backend.get_result(after.id).is_finished)
    finally:
        worker.stop()
        thread.join(60)
    assert not thread.is_alive()
    assert [one.attempts for one in results_of(backend, [result, after])] == [1, 1]


def test_an_enqueue_whose_outcome_is_unknown_says_so(backend):
    """The caller learns that the task may have been enqueued."""
    database = FaultyDatabase(backend.catalog.database)
    queue = backend.catalog.over(database).queue("tasks-default")
    database.fail_commits(code=TIMED_OUT, took_effect=True)
    with pytest.raises(OutcomeUnknown):
        queue.push({"x": 1})
