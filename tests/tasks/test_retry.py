"""A task that raises ``Retry``: when it runs again, what that costs, and what is said of it."""

from __future__ import annotations

import datetime
import json
import pickle

import pytest

from fdbqueue.exceptions import LeaseLost, OutcomeUnknown
from fdbqueue.service import run
from fdbqueue.tasks import Retry, call, group
from fdbqueue.tasks.compat import task_finished
from fdbqueue.tasks.exceptions import WorkerDied
from fdbqueue.tasks.metrics import outcome_of
from fdbqueue.tasks.task_worker import TaskWorker
from tests.called import called
from tests.concurrency.conftest import clock
from tests.faults.conftest import faulty
from tests.faulty_database import TIMED_OUT, FaultyDatabase
from tests.tasks import group_jobs, jobs, limited_jobs, retry_jobs
from tests.tasks.stored import FAILED, READY, SUCCESSFUL, stored

__all__ = ["clock", "faulty"]

RETRY = "fdbqueue.tasks.exceptions.Retry"


def test_an_attempt_that_is_spent(backend, work):
    """It is one of ``max_attempts``, its error says why, and the last one is the end."""
    result = retry_jobs.ask.enqueue(True)
    worker = work(worker="anna")
    found = stored(result)
    assert (found.status, found.attempts, jobs.done) == (FAILED, 2, [1, 2])
    assert [error.exception_class_path for error in found.errors] == [RETRY] * 2
    assert found.errors[0].traceback.endswith("Retry: the shop is closed\n")
    assert (worker.failed, worker.retried) == (2, 1)
    (dead,) = backend.queue("default").page(state="dead").items
    assert dead.reason == f"{RETRY}\nthe shop is closed"


def test_an_attempt_that_is_not_spent(backend, work):
    """It leaves nothing, however many there are; its metadata is there for the next."""
    result = retry_jobs.ask.enqueue(False, 20)
    worker = work()
    found = stored(result)
    assert (found.status, found.attempts, found.return_value) == (SUCCESSFUL, 1, 1)
    assert jobs.done == [1] * 21
    assert (found.errors, found.metadata) == ([], {"runs": 21})
    assert found.started_at == found.last_attempted_at
    assert (worker.succeeded, worker.retried) == (1, 20)


@pytest.mark.parametrize("job", [retry_jobs.ask_async, retry_jobs.ask_in_time])
@pytest.mark.parametrize("spend", [True, False])
def test_async_tasks_and_those_with_a_time_limit(backend, work, job, spend):
    """They do the same."""
    result = job.enqueue(spend)
    work()
    assert (stored(result).status, stored(result).attempts) == (SUCCESSFUL, 1 + spend)


def test_failures_count_as_ever_beside_what_is_not_spent(backend, work):
    """Two attempts have failed; the one that asked is none of them."""
    result = retry_jobs.ask_and_fail.enqueue()
    work()
    assert (stored(result).status, stored(result).attempts) == (FAILED, 2)
    assert [error.exception_class for error in stored(result).errors] == [LookupError] * 2
    assert len(jobs.done) == 3


@pytest.mark.parametrize("failures", [1, 10, 12])
def test_what_is_not_spent_leaves_the_errors_before(backend, work, failures):
    """All of the ten that are kept."""
    result = retry_jobs.fail_and_ask.enqueue(failures)
    work()
    found = stored(result)
    assert (found.status, found.attempts) == (SUCCESSFUL, failures + 1)
    assert [one.exception_class for one in found.errors] == [LookupError] * min(failures, 10)
    assert found.errors[-1].traceback.endswith(f"LookupError: {failures}\n")


def test_a_function_at_the_end_asks(backend, work):
    """What it raises is what the task has raised."""
    result = retry_jobs.ask_at_the_end.enqueue()
    work()
    assert (stored(result).status, stored(result).attempts) == (SUCCESSFUL, 1)
    assert jobs.done == ["ran", "ran"]


@pytest.mark.parametrize("spend", [True, False])
def test_it_runs_after_the_pause(backend, work, clock, spend):
    """Not before; meanwhile it is READY, and everything says why it waits."""
    result = retry_jobs.ask.enqueue(spend, 1, 3_600)
    work()
    found = stored(result)
    assert (found.status, found.attempts, found.finished_at) == (READY, int(spend), None)
    counts = backend.queue("default").counts()
    assert (counts.ready, counts.delayed, counts.leased) == (0, 1, 0)
    shown = json.loads(called("tasks_show", result.id, "--json"))
    assert shown["waits_because"] == "the shop is closed"
    text = called("tasks_show", result.id)
    assert "WAITS BECAUSE" in text
    assert "Retry scheduled" in text
    assert "NEXT ATTEMPT AFTER" in text
    clock.advance(3_601)
    work()
    assert (stored(result).status, jobs.done) == (SUCCESSFUL, [1, 1 + spend])
    assert json.loads(called("tasks_show", result.id, "--json"))["waits_because"] is None


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ((-1,), ValueError),
        ((float("nan"),), ValueError),
        ((float("inf"),), ValueError),
        ((10**400,), ValueError),
        ((315_360_001,), ValueError),
        ((datetime.timedelta(days=-1),), ValueError),
        (("60",), TypeError),
        ((None,), TypeError),
        ((True,), TypeError),
        ((1, 2), TypeError),
    ],
    ids=repr,
)
def test_bad_input_fails_the_attempt(backend, work, given, error):
    """With that error, as any other."""
    retry_jobs.given[:] = given
    result = retry_jobs.ask_for.enqueue()
    work()
    assert stored(result).status is FAILED
    assert [one.exception_class for one in stored(result).errors] == [error] * 2


@pytest.mark.parametrize("which", range(5))
def test_one_that_asks_for_nothing_is_a_failure_like_any_other(backend, work, which):
    """A subclass has left out its pause, or spoiled it. The worker goes on."""
    result, after = retry_jobs.ask_wrongly.enqueue(which), jobs.note.enqueue("after")
    worker = work()
    assert (worker.failed, worker.succeeded, worker.retried) == (2, 1, 1)
    assert [stored(one).status for one in (result, after)] == [FAILED, SUCCESSFUL]
    assert stored(result).attempts == 2


def test_elsewhere_it_is_an_exception_like_any_other():
    """It says what it asks for, and pickles."""
    with pytest.raises(Retry, match="after 90 seconds") as caught:
        raise Retry(datetime.timedelta(minutes=1.5))
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (copied.seconds, copied.reason, copied.spend) == (90.0, "", True)
    assert str(Retry(0, "why", spend=False)) == "why"


@pytest.mark.parametrize("spend", [True, False])
def test_one_that_is_aborted_is_not_run_again(backend, work, spend):
    """The abort counts more; then the attempt is known, too. Receivers are told of its end."""
    told = []

    def receive(task_result, **_):
        told.append((task_result.id, task_result.status, task_result.is_finished))

    result = retry_jobs.ask_once_aborted.enqueue(spend)
    task_finished.connect(receive)
    try:
        worker = work(on_end=told.append)
    finally:
        task_finished.disconnect(receive)
    end, signal = told
    assert (worker.failed, worker.retried, outcome_of(end)) == (1, 0, "failed")
    assert signal == (result.id, FAILED, True)
    found = stored(result)
    assert (found.status, found.attempts, jobs.done) == (FAILED, 1, ["asked"])
    assert [error.exception_class_path for error in found.errors] == [RETRY]


def test_a_killed_worker_behind_it_counts_as_ever(backend, work, clock):
    """Of a lease that expires the attempt counts, and that it asked before does not."""
    result = retry_jobs.ask.enqueue(False, 1)
    work(limit=1)
    gone = TaskWorker(backend, ["default"], worker="gone")
    (item,) = gone._source.lease(1, seconds=60, worker=gone.worker)
    gone._source.begin(item)
    gone._source.begin_later_attempt(item, result.id)
    clock.advance(3_600)
    work(worker="anna")
    found = stored(result)
    assert (found.status, found.worker_ids) == (SUCCESSFUL, ["gone", "anna"])
    assert [error.exception_class for error in found.errors] == [WorkerDied]


def test_a_group_waits_for_it(backend, work):
    """What follows comes once, behind all."""
    result = group([call(retry_jobs.ask, False, 2), call(retry_jobs.ask, True, 1)])
    result = result.then(group_jobs.count).enqueue()
    work()
    result.refresh()
    assert (result.status, result.follows.result().return_value) == (SUCCESSFUL, 2)


def test_a_limited_task_makes_room_while_it_waits(backend, work):
    """Another of its key runs meanwhile."""
    waiting = limited_jobs.ask_to_wait.enqueue(1)
    work()
    after = limited_jobs.ask_to_wait.enqueue(0)
    work()
    assert (stored(waiting).status, stored(after).status) == (READY, SUCCESSFUL)


def test_the_figures_count_no_failure(backend, work):
    """Of a function's attempts those that asked have not failed; the metric says retried."""
    ended = []
    retry_jobs.ask.enqueue(False, 3)
    work(on_end=ended.append)
    assert [*map(outcome_of, ended)] == ["retried"] * 3 + ["succeeded"]
    queue = backend.queue("default")
    read = backend.records.functions.read
    now = ended[-1].moment
    rows = run(queue.database, lambda tr: read(tr, [queue.name], now, 100), read_only=True)
    (row,) = rows.rows
    assert (row.hour.runs, row.hour.failures) == (4, 0)


@pytest.mark.parametrize("took_effect", [True, False])
def test_an_unknown_outcome(configure, clock, took_effect):
    """It is found out whether this end was the one, by what the item says."""
    backend = configure(lease_seconds=60)
    database = FaultyDatabase(backend.catalog.database)
    result = retry_jobs.ask.enqueue(False, 1, 3_600)
    worker = TaskWorker(backend, ["default"], catalog=backend.catalog.over(database))
    (item,) = worker._source.lease(1, seconds=60, worker=worker.worker)
    with pytest.raises(Retry):
        worker._runner.run(item)
    end = worker._source._end_of(item)
    database.fail_commits(code=TIMED_OUT, took_effect=took_effect)
    with pytest.raises(OutcomeUnknown):
        worker._source._ends.commit(end)
    assert end.is_unsure
    if not took_effect:  # and the lease expires, and another worker ends it likewise
        clock.advance(600)
        TaskWorker(backend, ["default"], worker="other", follow=False).run()
        with pytest.raises(LeaseLost):
            worker._source.end(item)
    else:
        worker._source.end(item)
        assert stored(result).attempts == 0
    assert end.is_done == took_effect
    assert backend.queue("default").counts().delayed == 1
