"""What comes, or may begin, while a worker waits for tasks: it runs, and the worker lives on.

Each of :data:`PAIRS` is one feature beside a worker that waits, as a generator: what it does before
it first yields comes before the worker; it goes on each time the worker waits; and it returns the
tasks that are to succeed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import time

import pytest
from django.db import transaction
from django.utils import timezone

from fdbqueue.tasks import abort, abort_group, call, chain, group, group_result
from fdbqueue.tasks.key_limit_queues import family_of, member_name
from fdbqueue.tasks.task_worker import TaskWorker
from tests.asleep import is_asleep, work_in_thread
from tests.engines.children import wait_until
from tests.faulty_database import TIMED_OUT, UNKNOWN_RESULT, FaultyDatabase
from tests.tasks import group_jobs, jobs, limited_jobs, waiting_jobs
from tests.tasks.outboxes import database_at
from tests.tasks.stored import FAILED, SUCCESSFUL, stored

__all__ = ["is_asleep"]

MOMENT = datetime.timedelta(seconds=0.5)
#: How long the leases of a worker that died still last.
DEAD_SECONDS = 2


def has_ended(result):
    """Return what tells whether a task has ended."""
    return lambda: stored(result).is_finished


def plain(_):
    yield
    first = jobs.note.using(priority=-1).enqueue(1)
    yield
    return [first, *jobs.note.enqueue_many([([2], {}), ([3], {})])]


def rate(_):
    yield
    found = [waiting_jobs.two_a_second.enqueue(number) for number in range(2)]
    yield
    return [*found, waiting_jobs.two_a_second.enqueue(3)]


def rate_that_is_raised(_):
    found = [limited_jobs.one_an_hour.enqueue("a", number) for number in range(2)]
    yield
    raised = dataclasses.replace(limited_jobs.one_an_hour, rate="1000/s")
    return [*found, raised.enqueue("b", 0)]


def max_running(_):
    yield
    found = [limited_jobs.two_a_customer.enqueue(f"k{n % 4}", n) for n in range(8)]
    yield
    return [*found, limited_jobs.one_a_customer.enqueue("a", 1)]


def max_running_and_a_backoff(_):
    yield
    return [waiting_jobs.fail_first.enqueue("a") for _ in range(2)]


def max_running_and_run_after(_):
    yield
    at = timezone.now() + MOMENT
    return [limited_jobs.one_a_customer.using(run_after=at).enqueue("a", n) for n in range(2)]


def max_running_and_a_worker_that_died(backend):
    found = [limited_jobs.one_a_customer.enqueue("a", number) for number in range(2)]
    path = limited_jobs.one_a_customer.module_path
    member = member_name(backend.queue("default").name, path, "a")
    backend.catalog.queue(member).lease(seconds=DEAD_SECONDS)
    yield
    return found


def a_worker_that_died(backend):
    found = [jobs.note.enqueue(1)]
    backend.queue("default").lease(seconds=DEAD_SECONDS)
    yield
    return found


def backoff(_):
    yield
    return [waiting_jobs.fail_first_without_limits.enqueue()]


def a_retry_that_spends_nothing(_):
    yield
    return [waiting_jobs.ask_to_wait.enqueue()]


def run_after(_):
    yield
    return [jobs.note.using(run_after=timezone.now() + MOMENT).enqueue(1)]


def a_schedule(_):
    yield
    wait_until(lambda: "scheduled" in jobs.done)
    return []


def an_outbox(_):
    yield
    with transaction.atomic():
        found = [jobs.note.enqueue(1), waiting_jobs.fail_first.enqueue("a")]
    return found


def a_group(_):
    yield
    made = group([call(group_jobs.add, number) for number in range(3)]).then(group_jobs.count)
    result = made.enqueue()
    wait_until(lambda: group_result(result.id).status is SUCCESSFUL)
    return []


def a_chain_with_limits(_):
    yield
    result = chain(call(group_jobs.add, 1), waiting_jobs.pass_on, group_jobs.add).enqueue()
    wait_until(lambda: group_result(result.id).status is SUCCESSFUL)
    return []


def what_a_task_enqueues(_):
    yield
    first = waiting_jobs.enqueue_another.enqueue("another")
    wait_until(lambda: "another" in jobs.done)
    return [first]


def expires(backend):
    queue = backend.queue("default")
    queue.pause()
    yield
    late = jobs.note.using(expires=0.5).enqueue("late")
    wait_until(lambda: timezone.now() > stored(late).enqueued_at + MOMENT)
    queue.resume()
    wait_until(lambda: stored(late).status is FAILED)
    yield
    return [jobs.note.using(expires=600).enqueue("in time")]


def a_unique_key(_):
    yield
    first = jobs.unique.enqueue("a")
    wait_until(has_ended(first))
    yield
    second = jobs.unique.enqueue("a")
    assert second.id != first.id
    return [first, second]


def a_pause(backend):
    queue = backend.queue("default")
    yield
    queue.pause()
    held = jobs.note.enqueue(1)
    yield
    queue.resume()
    return [held]


def a_pause_of_limited_tasks(backend):
    family = backend.catalog.family(family_of(backend.queue("default").name))
    family.pause()
    yield
    held = [limited_jobs.one_a_customer.enqueue("a", number) for number in range(2)]
    yield
    family.resume()
    return held


def a_pattern(_):
    yield
    first = jobs.note.using(queue_name="mail-1").enqueue(1)
    wait_until(has_ended(first))
    yield
    return [first, jobs.note.using(queue_name="mail-2").enqueue(2)]


def a_pattern_and_limits(_):
    yield
    named = [waiting_jobs.fail_first.using(queue_name=name) for name in ("mail-1", "mail-2")]
    return [one.enqueue("a") for one in named]


def several_queues(_):
    yield
    first = jobs.note.using(queue_name="other").enqueue(1)
    wait_until(has_ended(first))
    yield
    named = [waiting_jobs.fail_first.using(queue_name=name) for name in ("default", "other")]
    return [first, *(one.enqueue("a") for one in named)]


def a_dead_letter_that_is_redriven(backend):
    yield
    first = group_jobs.fail_while_closed.enqueue()
    wait_until(lambda: stored(first).status is FAILED)
    yield
    group_jobs.is_open.append(True)
    assert backend.queue("default").redrive() == 1
    return [first]


def an_abort(_):
    yield
    later = limited_jobs.one_a_customer.using(run_after=timezone.now() + MOMENT)
    first, second = later.enqueue("a", 1), later.enqueue("a", 2)
    assert abort(first.id) == "aborted"
    made = group([call(waiting_jobs.fail_first, "a")] * 2).enqueue()
    abort_group(made.id)
    wait_until(lambda: group_result(made.id).is_finished)
    return [second]


def an_unknown_outcome(_, database, code, took_effect):
    yield
    database.fail_commits(code=code, took_effect=took_effect)
    first = jobs.note.enqueue(1)
    wait_until(lambda: database.happened == 1)
    wait_until(has_ended(first))
    yield
    database.fail_commits(code=code, took_effect=took_effect)
    return [first, limited_jobs.one_a_customer.enqueue("a", 1)]


#: The pairs, and the options of the backend if they are not the default.
PAIRS = {
    plain: {},
    rate: {},
    rate_that_is_raised: {},
    max_running: {},
    max_running_and_a_backoff: {},
    max_running_and_run_after: {},
    max_running_and_a_worker_that_died: {},
    a_worker_that_died: {},
    backoff: {},
    a_retry_that_spends_nothing: {},
    run_after: {},
    a_schedule: {
        "schedules": {"one": {"task": jobs.note.module_path, "args": ["scheduled"], "every": 1}}
    },
    an_outbox: {"outbox": True},
    a_group: {},
    a_chain_with_limits: {},
    what_a_task_enqueues: {},
    expires: {},
    a_unique_key: {},
    a_pause: {},
    a_pause_of_limited_tasks: {},
    a_pattern: {"queues": []},
    a_pattern_and_limits: {"queues": []},
    several_queues: {},
    a_dead_letter_that_is_redriven: {},
    an_abort: {},
}
#: From which queues the worker takes, if not from default alone.
NAMES = {a_pattern: ["mail-*"], a_pattern_and_limits: ["mail-*"], several_queues: []}


@contextlib.contextmanager
def waiting(worker, is_asleep):
    """Have a worker work in a thread; yield what waits until it waits, or has ended by an error."""
    thread, errors = work_in_thread(worker)

    def rest():
        wait_until(lambda: is_asleep() or errors)

    try:
        yield rest
        assert errors == []
    finally:
        worker.stop()
        worker.backend.queue("default").resume()
        deadline = time.monotonic() + 60
        while thread.is_alive() and time.monotonic() < deadline:
            for name in ("default", "mail-1") if "mail" in worker.queue.name else ("default",):
                jobs.note.using(queue_name=name).enqueue("the end")  # which wakes it, unless a
            thread.join(1)  # thread that still collected has taken it
    assert not thread.is_alive()


def check(steps, worker, is_asleep):
    """Have a pair go on each time its worker waits; its tasks succeed."""
    next(steps)
    with waiting(worker, is_asleep) as rest:
        results = None
        while results is None:
            rest()
            try:
                next(steps)
            except StopIteration as end:
                results = end.value
        wait_until(lambda: all(stored(one).is_finished for one in results))
        rest()
    assert [stored(one).status for one in results] == [SUCCESSFUL] * len(results)


@pytest.fixture(autouse=True)
def _database(tmp_path, django_db_blocker):
    group_jobs.is_open.clear()
    with django_db_blocker.unblock(), database_at(str(tmp_path / "orm.sqlite3")):
        yield
    group_jobs.is_open.clear()


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.__name__)
def test_a_worker_that_waits_runs_what_may_begin(configure, is_asleep, pair):
    """However long its waits last, and whatever it has met before."""
    backend = configure(**PAIRS[pair])
    check(pair(backend), TaskWorker(backend, NAMES.get(pair, ["default"])), is_asleep)


@pytest.mark.parametrize("took_effect", [True, False])
@pytest.mark.parametrize("code", [UNKNOWN_RESULT, TIMED_OUT])
def test_a_worker_that_waits_survives_an_unknown_outcome(configure, is_asleep, code, took_effect):
    """What it leased and ended then has one end, and it waits again."""
    backend = configure(lease_seconds=2)
    database = FaultyDatabase(backend.catalog.database)
    worker = TaskWorker(backend, ["default"], catalog=backend.catalog.over(database))
    steps = functools.partial(an_unknown_outcome, database=database, code=code)
    check(steps(backend, took_effect=took_effect), worker, is_asleep)
