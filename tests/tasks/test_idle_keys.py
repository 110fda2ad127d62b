"""What an empty queue of limited tasks leaves: nothing, a day after its last task."""

from __future__ import annotations

import dataclasses

import pytest
from django.core.management.base import CommandError

from fdbqueue.service import Examiner, run
from fdbqueue.tasks import housekeeping
from fdbqueue.tasks.housekeeping import Housekeeping, _Pace
from fdbqueue.tasks.key_limit_queues import LIMITED, member_name
from tests.called import called
from tests.concurrency.conftest import clock
from tests.contract.conftest import Meddled
from tests.tasks import jobs, limited_jobs
from tests.tasks.stored import SUCCESSFUL, stored

__all__ = ["clock"]

DAY = 86_400


def member(backend, job, key):
    """Return the queue of a task's key."""
    return backend.catalog.queue(member_name(backend.queue("default").name, job.module_path, key))


def rows(queue):
    """Return how many rows are stored of a queue."""
    begin, end = queue.subspace.key(), queue.subspace.key() + b"\xff\xff"
    return len(run(queue.database, lambda tr: list(tr.get_range(begin, end)), read_only=True))


@pytest.fixture
def keep_house(backend):
    """Look at what is left of keys, once."""
    house = Housekeeping(backend, backend.catalog)

    def look():
        house._remove_idle_keys(_Pace(house._is_over, house._periodic))

    return look


def test_a_key_that_was_idle_for_a_day_leaves_nothing(backend, work, clock, keep_house):
    """And its next task runs as its first did, also in a process that knows the queue."""
    result = limited_jobs.one_a_customer.enqueue("a", 1)
    work()
    queue = member(backend, limited_jobs.one_a_customer, "a")
    assert stored(result).status is SUCCESSFUL
    keep_house()
    clock.advance(DAY - 120)
    keep_house()
    assert rows(queue) > 0
    clock.advance(240)
    keep_house()
    assert rows(queue) == 0
    assert stored(result).status is SUCCESSFUL
    again = [limited_jobs.one_a_customer.enqueue("a", number) for number in range(3)]
    assert queue.size() == 3
    work(threads=3)
    assert [stored(one).status for one in again] == [SUCCESSFUL] * 3
    assert limited_jobs.most["a"] == 1
    keep_house()
    assert rows(queue) > 0


@pytest.mark.parametrize("has", ["a task", "a lease", "a delay", "a dead letter", "a pause"])
def test_a_key_that_has_something_stays(backend, clock, keep_house, has):
    """However long it waits."""
    limited_jobs.one_a_customer.enqueue("a", 1)
    queue = member(backend, limited_jobs.one_a_customer, "a")
    if has == "a lease":
        queue.lease(seconds=9 * DAY)
    elif has == "a delay":
        queue.nack(queue.lease(), delay=9 * DAY)
    elif has == "a dead letter":
        queue.bury(queue.peek_min().id)
    elif has == "a pause":
        queue.lease(seconds=1)
        queue.pause()
        queue.clear()
    before = rows(queue)
    clock.advance(2 * DAY)
    keep_house()
    assert rows(queue) == before


def test_a_rate_that_is_slower_than_a_day(backend, work, clock, keep_house):
    """The tokens that are spent stay, or its next task would begin too early."""
    slow = dataclasses.replace(limited_jobs.one_an_hour, rate="2/d", burst=6)
    results = [slow.enqueue("a", number) for number in range(6)]
    queue = member(backend, limited_jobs.one_an_hour, "a")
    assert len(queue.lease_many(9)) == 6
    queue.clear_state("leased")
    clock.advance(2 * DAY)
    keep_house()
    assert rows(queue) > 0
    clock.advance(2 * DAY)
    keep_house()
    assert rows(queue) == 0
    assert len(results) == 6


def test_a_push_at_the_same_moment(backend, work, clock):
    """One of both comes first: the task is there, and its queue has all that belongs to it."""
    limited_jobs.one_a_customer.enqueue("a", 1)
    work()
    clock.advance(2 * DAY)
    queue = member(backend, limited_jobs.one_a_customer, "a")
    pushed = []

    meddled = Meddled(queue.database)
    meddled.meddle = lambda: pushed or pushed.append(queue.push("x"))
    other = backend.catalog.over(meddled).queue(queue.name)
    assert not Examiner(other).remove_idle(DAY)
    assert queue.peek_min().id == pushed[0].id
    assert queue.counts().ready == 1


def test_many_keys_are_looked_at_in_turn(backend, work, clock, keep_house, monkeypatch):
    """Some at each look, so that none takes long."""
    monkeypatch.setattr(housekeeping, "_KEYS_AT_ONCE", 4)
    for number in range(10):
        limited_jobs.one_a_customer.enqueue(f"k{number}", 1)
    jobs.note.enqueue(1)
    work(threads=4)
    clock.advance(2 * DAY)

    def left():
        return sum(name.startswith(LIMITED) for name in backend.catalog.names())

    counts = [left()]
    for _ in range(3):
        keep_house()
        counts.append(left())
    assert counts == [10, 6, 2, 0]


def test_a_purge_of_all_keys(backend):
    """Says what to do."""
    with pytest.raises(CommandError, match="a worker removes what an empty queue has left"):
        called("queue_purge", f"{LIMITED}*", "--no-input")
