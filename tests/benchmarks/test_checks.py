"""What goes wrong in a round is found, and what goes right is not refused."""

from __future__ import annotations

import json

import pytest

from benchmarks.clients import NOTHING, Clients, ItemsWentWrong, Operation, check_pops, check_pushes
from benchmarks.plan import Plan
from benchmarks.queues import Load, Ours, queue_of

HELD = 4
CLIENTS = 2
LOAD = Load()


@pytest.fixture
def queue(tmp_path):
    """A queue of ours with four items."""
    plan = Plan(tmp_path, scale="tiny")
    with plan.subspace(database := plan.open()) as subspace:
        queue = queue_of(database, subspace, LOAD)
        queue.fill(HELD)
        yield queue


def done(*numbers):
    """Operations on these numbers, one after the other."""
    return [Operation(number, 2.0 * n, 2.0 * n + 1) for n, number in enumerate(numbers)]


def pushed(queue, *numbers):
    """Push, and say that 4, 5 and 6 were."""
    for number in numbers:
        queue.push(number)
    check_pushes(LOAD, done(4, 5, 6), HELD, CLIENTS, queue)


@pytest.mark.parametrize("numbers", [(4, 5, 6), (5, 4, 6)])
def test_pushes_that_are_all_there_are_right(queue, numbers):
    """Items of different clients have no order among themselves."""
    pushed(queue, *numbers)


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [
        ((4, 5), "'gone': 1"),
        ((4, 5, 6, 6), "'there twice': 1"),
        ((4, 5, 5), "'gone': 1, 'there twice': 1"),
        ((4, 5, 6, 7), "'there twice': 1"),
        ((6, 5, 4), "'out of order': 1"),
    ],
)
def test_a_push_that_went_wrong_is_found(queue, numbers, wrong):
    """An item that is missing, pushed twice, unknown, or before one that was pushed earlier."""
    with pytest.raises(ItemsWentWrong, match=wrong):
        pushed(queue, *numbers)


def test_pops_that_took_each_item_once_are_right(queue):
    """Those that are left are the others, and an empty queue has no more."""
    assert [queue.take(), queue.take()] == [0, 1]
    check_pops(LOAD, done(0, 1), HELD, queue)
    assert [queue.take(), queue.take(), queue.take()] == [2, 3, None]
    check_pops(LOAD, done(0, 1, 2, 3, NOTHING), HELD, queue)


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [
        ((0,), "'gone': 1"),
        ((0, 1, 1), "'there twice': 1"),
        ((0, 1, 2), "'there twice': 1"),
        ((1, 0), "'taken too late': 1"),
        ((0, 1, NOTHING), "'pops that found none': 1"),
    ],
)
def test_a_pop_that_went_wrong_is_found(queue, numbers, wrong):
    """An item that is gone, taken twice or too late, or was there and not found."""
    assert [queue.take(), queue.take()] == [0, 1]
    with pytest.raises(ItemsWentWrong, match=wrong):
        check_pops(LOAD, done(*numbers), HELD, queue)


def test_a_lease_that_was_not_acknowledged_is_found(queue):
    """After leases with their acks nothing is leased any more."""
    queue.queue.lease()
    with pytest.raises(ItemsWentWrong, match="'counted wrongly': True"):
        check_pops(Load(method="lease+ack"), done(0), HELD, queue)
    check_pops(Load(method="lease"), done(0), HELD, queue)


def test_a_client_that_chains_leases_leaves_none(queue):
    """The last item is acknowledged at the end."""
    load = Load(method="lease_many(ack=)")
    client = Ours(queue.queue.database, queue.items, load).client()
    assert [client.work(), client.work()] == [0, 1]
    client.finish()
    check_pops(load, done(0, 1), HELD, queue)


def test_workers_are_not_timed_one_by_one(tmp_path):
    """A worker's items have a rate and no latencies; its round is checked as others are."""
    with Clients(Plan(tmp_path, scale="tiny"), 1, 2) as clients:
        run = clients.run(Load(method="worker"))
    assert run.a_second > 0
    assert json.dumps(run.latency([run])) == "null"
