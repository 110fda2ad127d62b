"""Handoffs expire by the clock, as batches do."""

from __future__ import annotations

import time

import pytest

from fdbqueue.service import FifoQueue, run
from fdbqueue.service.storage.handoffs import (
    all_handoffs,
)
from fdbqueue.service.storage.tables import Kind
from tests.concurrency.census import assert_counted, values
from tests.concurrency.clients import another
from tests.concurrency.requests import ask, requests_of
from tests.contract.test_contention import HANDOFFS, REQUESTS, tables

DUES = 0x04
HOUR = 3_600


@pytest.fixture
def rival(database, subspace):
    """Another client's queue, of ten items."""
    queue = FifoQueue(another(database), subspace)
    queue.push_many(range(10))
    return queue


@pytest.fixture
def queue(meddled, rival, subspace):
    """The queue of a client that always meets the other one."""
    return FifoQueue(meddled, subspace)


def batches_due(queue):
    """Return what expires of batches and handoffs, and when."""
    keys = queue.parts.store.tables
    read = run(queue.database, lambda tr: [*tr.get_range(*keys.dues)], read_only=True)
    dues = [keys.parse_due(bytes(row.key)) for row in read]
    return [(one.moment, one.rest) for one in dues if one.kind is Kind.HANDOFF]


def test_a_handoff_has_the_row_of_a_batch(rival, everything):
    """It says when its items return; an open request and a handoff of nothing have none."""
    request = ask(rival, "min", 2)
    assert batches_due(rival) == []
    assert rival.pop().value == 0
    assert batches_due(rival) == [(request.until, request.name)]
    rival.clear()
    ask(rival, "min", 2)
    assert rival.pop() is None
    assert [one.is_handed for one in requests_of(rival)] == [True]
    assert batches_due(rival) == []


def test_two_processes_serve_a_request_once(meddled, database, subspace):
    """They take items of different shards, which do not conflict: the request itself does."""
    queue, rival = (FifoQueue(one, subspace, shards=64) for one in (meddled, another(database)))
    rival.push_many(range(200))
    rounds = 5
    for _ in range(rounds):
        ask(rival, "min", 2)
        pops = [rival.pop]
        meddled.meddle = lambda pops=pops: pops and pops.pop()()
        assert queue.pop() is not None
        assert pops == []
    store = queue.parts.store
    found = run(rival.database, lambda tr: [*all_handoffs(tr, store.tables)], read_only=True)
    assert [len(handoff.rows) for _, handoff in found] == [2] * rounds
    in_place = len([*rival])
    assert (in_place, rival.size()) == (200 - 4 * rounds, 200 - 2 * rounds)


def test_who_collects_removes_all_rows(queue, rival, meddled, everything):
    """The one that says when the handoff expires, too."""
    seen = []

    def pop_before():
        seen.extend(batches_due(rival))
        if not seen:
            rival.pop()

    meddled.meddle = pop_before
    assert queue.pop() is not None
    assert seen
    meddled.meddle = lambda: None
    assert not tables(everything) & {REQUESTS, HANDOFFS, DUES}


class Noted:
    """A database object around another, which keeps its transactions."""

    def __init__(self, database):
        self.made = []
        self._database = database

    def create_transaction(self):
        self.made.append(self._database.create_transaction())
        return self.made[-1]


def test_a_round_that_finds_nothing_commits_nothing(rival, database, subspace):
    """Though other processes have yet to collect: a commit that writes nothing has no version."""
    ask(rival, "min", 20)
    assert rival.pop().value == 0
    noted = Noted(database)
    queue = FifoQueue(noted, subspace)
    assert queue.pop() is None
    assert {tr.get_committed_version() for tr in noted.made} == {-1}
    queue.push("more")
    assert queue.pop().value == "more"
    assert noted.made[-1].get_committed_version() > 0


def test_a_helped_pop_is_two_commits_of_its_own(queue, rival, meddled, subspace):
    """It asks, and it collects; what it does meanwhile writes nothing."""
    noted = Noted(meddled)
    queue = FifoQueue(noted, subspace)
    poppers = queue.parts.group.poppers["min"]
    poppers._contention.helped_until = time.monotonic() + HOUR
    is_served = []

    def pop_once_asked():
        if requests_of(rival) and not is_served:
            is_served.append(rival.pop())

    meddled.meddle = pop_once_asked
    assert queue.pop().value == 1
    assert is_served
    versions = [tr.get_committed_version() for tr in noted.made]
    assert sum(one > 0 for one in versions) == 2


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_who_meets_a_client_with_another_time_takes_each_item_once(
    queue, rival, meddled, clock, ahead
):
    """That client requeues at once what it hands over, or long after; both go on."""
    taken = []

    def pop_before():
        clock.advance(ahead)
        if len(taken) < 4:
            taken.append(rival.pop().value)
        clock.advance(-ahead)

    meddled.meddle = pop_before
    found = values(queue.pop_many(3))
    assert len(found) == 3
    assert sorted([*taken, *found, *values(assert_counted(rival)["ready"])]) == list(range(10))
