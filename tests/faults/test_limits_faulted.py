"""The limits of a queue when commits fail before, after and long after they take effect."""

from __future__ import annotations

import pytest

from fdbqueue.service import FifoQueue
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import together

THREADS, ITEMS = 4, 120


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("once", [True, False])
def test_each_item_costs_one_token(faulty, subspace, seed, once):
    """However often its commit runs: as many are taken as there are tokens, and no more."""
    database = faulty(seed=seed, rate=0.3)
    queue = FifoQueue(database, subspace, rate="1/d", burst=60)
    queue.push_many(range(ITEMS))
    takes = [queue.pop_many, queue.lease_many]
    taken = []

    def work(number):
        for turn in range(THREADS * 8):
            key = {"once": f"{number} {turn}"} if once else {}
            taken.extend(item.value for item in takes[turn % 2](1, **key))

    together(THREADS, work)
    assert sorted(taken) == list(range(60))
    assert queue.size() == ITEMS - 60


@pytest.mark.parametrize("seed", range(6))
def test_no_more_are_leased(faulty, engine, subspace, seed):
    """At no moment, and each thread that has given a lease up can have another."""
    database = faulty(seed=seed, rate=0.3)
    queue = FifoQueue(database, subspace, max_leased=THREADS)
    plain = FifoQueue(engine.database, subspace)
    plain.push_many(range(ITEMS))

    def work(number):
        item = queue.lease()
        for turn in range(20):
            assert plain.counts().leased <= THREADS
            if turn % 2:
                (item,) = queue.lease_many(1, ack=[item])
            else:
                queue.ack(item)
                (item,) = queue.lease_many(1, end=("min", "max")[number % 2])
        queue.ack(item)

    together(THREADS, work)
    assert len(assert_counted(plain)["ready"]) == ITEMS - THREADS * 21
