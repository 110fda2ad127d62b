"""Tasks that expire: who has not begun by then ends as such, who has begun does not."""

from __future__ import annotations

import datetime
import json

import pytest
from django.test import override_settings
from django.utils import timezone

from fdbqueue.service import run
from fdbqueue.tasks import abort, call, chain, group
from fdbqueue.tasks.compat import InvalidTask
from fdbqueue.tasks.exceptions import TaskExpired
from fdbqueue.tasks.metrics import outcome_of
from fdbqueue.tasks.records import packed, unknown_call, unpacked
from fdbqueue.tasks.states import deadline
from fdbqueue.tasks.task_worker import TaskWorker
from tests.called import called
from tests.concurrency.conftest import clock
from tests.faulty_database import TIMED_OUT, FaultyDatabase
from tests.tasks import expiring_jobs, group_jobs, jobs
from tests.tasks.outboxes import database_at
from tests.tasks.stored import FAILED, READY, SUCCESSFUL, status, stored
from tests.tasks.test_ahead import leased_together

__all__ = ["clock"]

EXPIRED = "fdbqueue.tasks.exceptions.TaskExpired"


def has_expired(result):
    """Tell whether a task has ended as it must: FAILED, without an attempt, and for that reason."""
    found = stored(result)
    assert found.status is FAILED
    assert [error.exception_class for error in found.errors] == [TaskExpired]
    assert (found.attempts, found.started_at, found.last_attempted_at) == (0, None, None)
    return found.finished_at is not None


@pytest.mark.parametrize(
    "given",
    [None, 60, 60.0, datetime.timedelta(seconds=60), lambda: _in(60)],
    ids=["its own", "seconds", "a float", "timedelta", "datetime"],
)
def test_a_task_that_has_not_begun(backend, work, clock, given):
    """It ends without a run, and one that is taken in time runs."""
    given = given() if callable(given) else given
    job = jobs.note if given is not None else expiring_jobs.within_a_minute
    soon = job.using(expires=given).enqueue("soon")
    work()
    late = job.using(expires=given).enqueue("late")
    clock.advance(61)
    assert status(late) is READY  # until a worker takes it
    ended = []
    work(on_end=ended.append)
    assert jobs.done == ["soon"]
    assert stored(soon).status is SUCCESSFUL
    assert has_expired(late)
    assert [*map(outcome_of, ended)] == ["expired"]


def _in(seconds):
    return timezone.now() + datetime.timedelta(seconds=seconds)


def test_what_is_said_of_it(backend, work, clock):
    """Its dead letter, its state, the fact that it expires; its function has no attempt more."""
    result = expiring_jobs.within_a_minute.enqueue()
    assert "EXPIRES" in called("tasks_show", result.id)
    clock.advance(61)
    work()
    text = called("tasks_show", result.id)
    assert "Expired" in text
    assert "NOT RUN" in text
    assert json.loads(called("tasks_show", result.id, "--json"))["errors"][0]["exception"] == (
        EXPIRED
    )
    (reason,) = backend.queue("default").dead_by_reason()
    assert (reason.reason, reason.count) == (EXPIRED, 1)
    queue, read = backend.queue("default"), backend.records.functions.read
    now = backend.found(result.id).finished
    rows = run(queue.database, lambda tr: read(tr, [queue.name], now, 100), read_only=True)
    assert rows.rows == []


def test_seconds_count_from_run_after(backend, work, clock):
    """So a task for tomorrow has its minute tomorrow."""
    job = expiring_jobs.within_a_minute.using(run_after=_in(3_600))
    first, second = job.enqueue("first"), job.enqueue("second")
    clock.advance(3_630)
    work(limit=1)
    clock.advance(60)
    work()
    assert jobs.done == ["first"]
    assert stored(first).status is SUCCESSFUL
    assert has_expired(second)


def test_one_that_is_delayed_beyond_it(backend, work, clock):
    """It ends when it would begin."""
    result = jobs.note.using(run_after=_in(3_600), expires=_in(60)).enqueue(1)
    clock.advance(3_601)
    work()
    assert has_expired(result)


def test_a_limited_task(backend, work, clock):
    """It makes room at once."""
    late = expiring_jobs.one_within_a_minute.enqueue("late")
    clock.advance(61)
    soon = expiring_jobs.one_within_a_minute.enqueue("soon")
    work()
    assert jobs.done == ["soon"]
    assert has_expired(late)
    assert stored(soon).status is SUCCESSFUL


def test_one_that_has_expired_takes_no_token_of_a_rate(backend, work, clock):
    """The next task of the key may begin at once, and takes the only one."""
    late = expiring_jobs.one_an_hour.enqueue("late")
    clock.advance(61)
    work(limit=1)
    assert has_expired(late)
    for value in ("soon", "later"):
        expiring_jobs.one_an_hour.enqueue(value)
    source = TaskWorker(backend, ["default"])._source
    (item,) = source.lease(1, seconds=60, worker="me")
    assert item.value["args"] == ["soon"]
    assert source.lease(1, seconds=60, worker="me") == []


def test_one_that_has_begun_does_not_expire(backend, work, clock):
    """Its further attempts come when they come, also behind one that counts as none."""
    failing = expiring_jobs.fail_within_a_minute.enqueue("x")
    work()
    jobs.done.clear()
    asking = expiring_jobs.ask_within_a_minute.enqueue()
    work()
    for _ in range(3):
        clock.advance(3_601)
        work()
    assert stored(failing).attempts == 3
    assert (stored(asking).status, stored(asking).attempts) == (SUCCESSFUL, 1)


def test_a_killed_worker(backend, work, clock):
    """A lease that was ahead began nothing, so the task expires; any other lease did."""
    results = [expiring_jobs.within_a_minute.enqueue(number) for number in range(3)]
    gone = TaskWorker(backend, ["default"], worker="gone")
    leased_together(gone, 2)
    (alone,) = TaskWorker(backend, ["default"])._source.lease(1, seconds=60, worker="alone")
    clock.advance(3_600)
    work()
    assert [has_expired(one) for one in results[:2]] == [True, True]
    assert alone.value["id"] == results[2].id
    assert stored(results[2]).worker_ids[0] == "alone"
    assert jobs.done == [2]


def test_what_is_leased_ahead_expires_while_it_waits_for_a_thread(backend, clock):
    """An attempt begins when its function is called."""
    result = expiring_jobs.within_a_minute.enqueue()
    worker = TaskWorker(backend, ["default"], follow=False)
    (item,) = worker._source.lease(1, seconds=600, worker=worker.worker)
    clock.advance(61)
    with pytest.raises(TaskExpired):
        worker._runner.run(item)
    worker._source.end(item)
    assert has_expired(result)


def test_a_redriven_task_runs(backend, work, clock):
    """Somebody has asked for it."""
    expired = expiring_jobs.within_a_minute.enqueue("expired")
    clock.advance(61)
    work()
    assert has_expired(expired)
    failed = expiring_jobs.fail_within_a_minute.enqueue("failed")
    for _ in range(3):
        work()
        clock.advance(3_601)
    assert stored(failed).status is FAILED
    jobs.done.clear()
    assert backend.queue("default").redrive() == 2
    work()
    assert sorted(jobs.done) == ["expired", "failed"]
    assert stored(expired).status is SUCCESSFUL


def test_a_part_that_has_expired_has_failed(backend, work, clock):
    """Nothing follows, unless it is to follow always; later steps have their time from then on."""
    broken = group([expiring_jobs.within_a_minute, call(group_jobs.add, 1)]).then(group_jobs.count)
    always = group([expiring_jobs.within_a_minute]).then(group_jobs.count, always=True)
    later = chain(call(group_jobs.add, 1), expiring_jobs.within_a_minute)
    broken, always, later = broken.enqueue(), always.enqueue(), later.enqueue()
    clock.advance(61)
    work()
    for one in (broken, always, later):
        one.refresh()
    assert (broken.status, broken.failed) == (FAILED, 1)
    assert (always.status, later.status) == (SUCCESSFUL, SUCCESSFUL)


def test_one_that_is_aborted_meanwhile(backend, work, clock):
    """It has one end."""
    result = expiring_jobs.within_a_minute.enqueue()
    clock.advance(61)
    assert abort(result.id) == "aborted"
    assert work().failed == 0


@pytest.mark.parametrize("took_effect", [True, False])
def test_an_unknown_outcome(configure, clock, took_effect):
    """The end is found, or tried again."""
    backend = configure(lease_seconds=60)
    database = FaultyDatabase(backend.catalog.database)
    result = expiring_jobs.within_a_minute.enqueue()
    clock.advance(61)
    worker = TaskWorker(backend, ["default"], catalog=backend.catalog.over(database))
    (item,) = worker._source.lease(1, seconds=60, worker=worker.worker)
    with pytest.raises(TaskExpired):
        worker._runner.run(item)
    database.fail_commits(code=TIMED_OUT, took_effect=took_effect)
    worker._source.end(item)
    assert database.happened == 1
    assert has_expired(result)
    assert backend.queue("default").counts().dead == 1


def test_with_the_outbox_the_time_counts_from_the_enqueue(
    configure, work, clock, tmp_path, django_db_blocker
):
    """However late it is moved."""
    with django_db_blocker.unblock(), database_at(str(tmp_path / "orm.sqlite3")):
        configure(outbox=True)
        late = expiring_jobs.within_a_minute.enqueue("late")
        clock.advance(61)
        soon = expiring_jobs.within_a_minute.enqueue("soon")
        work()
        assert jobs.done == ["soon"]
        assert has_expired(late)
        assert stored(soon).status is SUCCESSFUL


@pytest.mark.parametrize(
    "wrong",
    [0, -1, float("nan"), float("inf"), 10**400, True, "60", datetime.timedelta(0), [60]],
    ids=repr,
)
def test_bad_input(backend, wrong):
    """The task is refused, and what is right is said."""
    with pytest.raises(InvalidTask, match="expires may be seconds"):
        expiring_jobs.within_a_minute.using(expires=wrong).enqueue()


def test_a_time_without_a_zone(backend, work, clock):
    """As for ``run_after``: refused with ``USE_TZ``, and without it the local time."""
    at = datetime.datetime.now() + datetime.timedelta(seconds=60)  # noqa: DTZ005  # on purpose
    with override_settings(USE_TZ=True), pytest.raises(InvalidTask, match="aware with USE_TZ"):
        jobs.note.using(expires=at).enqueue(1)
    with override_settings(USE_TZ=False):
        result = jobs.note.using(expires=at).enqueue(1)
        clock.advance(61)
        work()
        assert stored(result).status is FAILED


@pytest.mark.parametrize(
    "wrong", ["", "soon", "2026-01-01T00:00:00", -1, None, [], {}, float("nan"), 10**20]
)
def test_a_value_that_says_it_wrongly_is_no_task(wrong):
    """Values of items come from anyone who may push."""
    value = packed(unknown_call("x")._replace(expires=60))
    assert unpacked(value).expires == 60
    assert unpacked({**value, "expires": wrong}) is None


def test_times_that_no_clock_has():
    """They are never over, and raise nothing."""
    late = datetime.datetime.max.replace(tzinfo=datetime.timezone.utc)
    found = unknown_call("x")._replace(run_after=late, expires=3_600)
    assert deadline(found, timezone.now()) is None
    assert deadline(found._replace(run_after=None), None) is None
