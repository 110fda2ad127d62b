"""``enqueue_many``: all calls are checked, then few transactions enqueue them in their order."""

from __future__ import annotations

import datetime
import sys
import threading

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import override_settings

from fdbqueue.exceptions import InvalidValue, PushInterrupted, ValueTooLarge
from fdbqueue.service import run
from fdbqueue.tasks import many
from fdbqueue.tasks.compat import ImmediateBackend, InvalidTask, task_enqueued
from tests.faults.conftest import faulty
from tests.faults.faulty import AFTER, BEFORE, LATE
from tests.faulty_database import TIMED_OUT, FaultyDatabase
from tests.tasks import jobs, limited_jobs
from tests.tasks.outboxes import database_at
from tests.tasks.stored import READY, SUCCESSFUL, stored

__all__ = ["faulty"]


@pytest.fixture
def told():
    """Collect the ids that ``task_enqueued`` tells of."""
    ids = []

    def receive(task_result, **_):
        ids.append(task_result.id)

    task_enqueued.connect(receive)
    yield ids
    task_enqueued.disconnect(receive)


@pytest.fixture
def few_together(monkeypatch):
    """Let each transaction enqueue few calls."""
    monkeypatch.setattr(many, "MAX_CALLS", 3)


class FailsSecond(FaultyDatabase):
    """A database of which the second commit that writes fails."""

    commits = 0

    def take_fault(self):
        self.commits += 1
        return super().take_fault() if self.commits == 2 else None


def enqueue_and_roll_back():
    """Enqueue in a transaction of the ORM that fails."""
    with transaction.atomic():
        jobs.note.enqueue_many([([3], {})])
        raise LookupError


def commits_of(backend, task, calls):
    """Enqueue calls, and return how many commits that took."""
    database = FailsSecond(backend.catalog.database)
    backend.over(backend.catalog.over(database)).enqueue_many(task, calls)
    return database.commits


def test_many_calls(backend, work, told):
    """Each is enqueued once, in their order, and told of."""
    calls = [([number], {"value": number} if number < 0 else {}) for number in range(250)]
    results = jobs.note.enqueue_many(calls)
    assert [result.id for result in results] == told
    assert [item.value["args"] for item in backend.queue("default")] == [[n] for n in range(250)]
    assert {result.status for result in results} == {READY}
    assert None not in {result.enqueued_at for result in results}
    work(threads=2)
    assert [stored(result).return_value for result in results] == [*range(250)]


def test_arguments_by_name(backend, work):
    """Both kinds, as for ``enqueue``."""
    (result,) = jobs.tell.enqueue_many([((1, 2), {"three": 3})])
    work()
    assert stored(result).return_value["args"] == [1, 2]
    assert stored(result).return_value["three"] == 3


@pytest.mark.parametrize(("count", "commits"), [(0, 0), (1, 1), (1_000, 1), (1_001, 2)])
def test_a_thousand_calls_are_one_commit(backend, count, commits):
    """No more than it takes."""
    assert commits_of(backend, jobs.note, [([n], {}) for n in range(count)]) == commits
    assert backend.queue("default").size() == count


def test_long_calls_are_fewer_in_each_commit(backend, work):
    """A million bytes together; one may have as many by itself."""
    calls = [(["x" * 300_000], {}) for _ in range(7)] + [(["y" * 990_000], {})]
    assert commits_of(backend, jobs.note, calls) == 4
    work()
    assert [len(value) for value in jobs.done] == [300_000] * 7 + [990_000]


def test_calls_may_come_from_anywhere(backend):
    """A generator is read once, before anything is enqueued."""

    def calls():
        for number in range(3):
            assert backend.queue("default").size() == 0
            yield (number,), {}

    assert len(jobs.note.enqueue_many(calls())) == 3


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ("ab", TypeError),
        (7, TypeError),
        (([1],), TypeError),
        (([1], {}, 3), TypeError),
        (("text", {}), TypeError),
        (([1], [2]), TypeError),
        (([object()], {}), TypeError),
        (([b"\xff"], {}), ValueError),
        (([float("nan")], {}), InvalidValue),
        ((["x" * 1_000_001], {}), ValueTooLarge),
    ],
    ids=lambda given: repr(given)[:20],
)
def test_a_wrong_call_refuses_all(backend, told, wrong, error):
    """Nothing is enqueued; the error says which it is."""
    with pytest.raises(error) as caught:
        jobs.note.enqueue_many([([1], {}), ([2], {}), wrong, ([3], {})])
    if hasattr(caught.value, "context"):
        assert caught.value.context["index"] == 2
    else:
        assert "calls[2]" in str(caught.value)
    assert backend.queue("default").size() == 0
    assert told == []


@pytest.mark.parametrize(
    ("job", "wrong", "error"),
    [
        (limited_jobs.one_a_customer, ["", 1], InvalidTask),
        (limited_jobs.two_a_customer, ["a"], TypeError),
        (limited_jobs.say, ["7"], LookupError),
        (jobs.unique, [], TypeError),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_a_call_whose_key_is_wrong(backend, told, job, wrong, error):
    """The error says which call it is; that of a project's own function in a note."""
    right = {"user": "u"} if job is jobs.unique else {"customer": "c"}
    right |= {} if job in (jobs.unique, limited_jobs.say) else {"number": 1}
    with pytest.raises(error) as caught:
        job.enqueue_many([([], right), (wrong, {})])
    notes = getattr(caught.value, "__notes__", [])
    assert "calls[1]" in "".join([str(caught.value), *notes]) or sys.version_info < (3, 11)
    assert told == []


def test_unique_keys(backend, work, told, few_together):
    """A key that is there, or comes twice, in one transaction or in two, has one task."""
    first = jobs.unique.enqueue("0")
    told.clear()
    names = ["1", "0", "1", None, "2", "1", None]
    results = jobs.unique.enqueue_many([([name], {}) for name in names])
    assert results[1].id == first.id
    assert results[0].id == results[2].id == results[5].id
    assert len({result.id for result in results}) == 5
    assert told == [results[at].id for at in (0, 3, 4, 6)]
    assert backend.queue("default").size() == 5
    ids, _ = run(backend.catalog.database, lambda tr: backend.records.some(tr, None, 100))
    assert len(ids) == 5
    work()
    assert sorted(map(str, jobs.done)) == ["0", "1", "2", "None", "None"]


def test_limits_by_key(backend, work):
    """Each call is in the queue of its key, in one transaction with the others."""
    calls = [([f"c{number % 5}", number], {}) for number in range(20)]
    assert commits_of(backend, limited_jobs.two_a_customer, calls) <= 3  # and what says the limits
    assert commits_of(backend, limited_jobs.two_a_customer, calls) == 1
    work(threads=4)
    assert len(limited_jobs.begun) >= 40
    assert max(limited_jobs.most.values()) <= 2


def test_each_commit_reads_few_queues(backend):
    """It has five seconds, and each key has a queue; calls of one key share a commit."""
    calls = [([f"c{number}", number], {}) for number in range(250)]
    limited_jobs.two_a_customer.enqueue("c0", 0)
    assert commits_of(backend, limited_jobs.two_a_customer, calls) == 3
    of_one = [(["c0", number], {}) for number in range(250)]
    assert commits_of(backend, limited_jobs.two_a_customer, of_one) == 1


def test_with_a_time(backend):
    """``using()`` is as for ``enqueue``."""
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    jobs.note.using(run_after=at, priority=3).enqueue_many([([1], {}), ([2], {})])
    assert backend.queue("default").counts().delayed == 2


@pytest.mark.django_db(transaction=True)
def test_when_the_orm_commits(configure, told):
    """With ``enqueue_on_commit`` not before, and not if it is rolled back."""
    backend = configure(enqueue_on_commit=True)
    with transaction.atomic():
        results = jobs.note.enqueue_many([([1], {}), ([2], {})])
        assert (backend.queue("default").size(), results[0].enqueued_at) == (0, None)
    assert backend.queue("default").size() == 2
    assert told == [result.id for result in results]
    assert results[0].enqueued_at is not None
    with pytest.raises(LookupError):
        enqueue_and_roll_back()
    assert backend.queue("default").size() == 2


def test_with_the_outbox(configure, work, told, tmp_path, django_db_blocker):
    """They are rows of one transaction."""
    with django_db_blocker.unblock(), database_at(str(tmp_path / "orm.sqlite3")):
        backend = configure(outbox=True)
        with pytest.raises(LookupError):
            enqueue_and_roll_back()
        with transaction.atomic():
            results = jobs.note.enqueue_many([([n], {}) for n in range(300)])
            assert told == []
        assert told == [result.id for result in results]
        assert backend.outbox().rows.count() == 300
        work()
        assert {stored(result).status for result in results} == {SUCCESSFUL}


def test_async(backend):
    """Its twin does the same."""

    async def enqueue():
        return await jobs.note.aenqueue_many([([1], {}), ([2], {})])

    assert len(async_to_sync(enqueue)()) == 2
    assert backend.queue("default").size() == 2


def test_other_backends():
    """They enqueue one after another."""
    path = f"{ImmediateBackend.__module__}.{ImmediateBackend.__name__}"
    immediate = {"default": {"BACKEND": path}}
    with override_settings(TASKS=immediate):
        results = jobs.note.enqueue_many([([1], {}), ([2], {})])
        assert [result.return_value for result in results] == [1, 2]
        with pytest.raises(TypeError, match=r"calls\[1\]"):
            jobs.note.enqueue_many([([1], {}), "ab"])


@pytest.mark.parametrize("took_effect", [True, False])
def test_an_unknown_outcome(backend, told, few_together, took_effect):
    """It says how many are enqueued, and how many may be; those that are were told of."""
    database = FailsSecond(backend.catalog.database)
    database.fail_commits(code=TIMED_OUT, took_effect=took_effect)
    there = backend.over(backend.catalog.over(database))
    with pytest.raises(PushInterrupted) as caught:
        there.enqueue_many(jobs.note, [([number], {}) for number in range(8)])
    assert caught.value.context == {"queue": "tasks-default", "pushed": 3, "unknown": 3}
    enqueued = [item.value["args"][0] for item in backend.queue("default")]
    assert enqueued == [*range(6 if took_effect else 3)]
    assert len(told) == 3


def test_a_receiver_that_raises(backend, few_together):
    """All calls are enqueued by then."""

    def refuse(**_):
        raise LookupError

    task_enqueued.connect(refuse)
    try:
        with pytest.raises(LookupError):
            jobs.note.enqueue_many([([number], {}) for number in range(8)])
    finally:
        task_enqueued.disconnect(refuse)
    assert backend.queue("default").size() == 8


@pytest.mark.parametrize("seed", range(3))
def test_whatever_commits_do(backend, faulty, seed, few_together):
    """Each call is enqueued once."""
    database = faulty(seed=seed, rate=0.4, faults=[*BEFORE, *AFTER, *LATE])
    there = backend.over(backend.catalog.over(database))
    results = there.enqueue_many(jobs.note, [([number], {}) for number in range(40)])
    assert sum(database.happened.values()) > 3
    found = [item.value["id"] for item in backend.queue("default")]
    assert found == [result.id for result in results]


def test_threads_beside(backend, few_together):
    """Nothing conflicts, and the order of each is kept."""

    def enqueue(who):
        jobs.tell.enqueue_many([([who, number], {}) for number in range(30)])

    threads = [threading.Thread(target=enqueue, args=[who]) for who in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = [item.value["args"] for item in backend.queue("default")]
    for who in range(3):
        assert [args[1] for args in found if args[0] == who] == [*range(30)]
