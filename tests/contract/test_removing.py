"""One item is removed for good by its id, whatever state it is in."""

from __future__ import annotations

import pytest

from fdbqueue.exceptions import BatchTooLarge, ItemNotFound, LeaseLost
from fdbqueue.service import FifoQueue
from tests.concurrency.census import assert_counted


@pytest.mark.parametrize("state", ["ready", "leased", "delayed", "dead"])
def test_an_item_is_removed_from_every_state(kind, database, subspace, everything, state):
    """Nothing of it is left, and others stay."""
    queue = kind.open(database, subspace)
    delay = 60 if state == "delayed" else None
    arguments = () if kind.is_fifo else (kind.priorities[0],)
    for _ in range(2):
        item = queue.push(kind.value("x"), *arguments, delay=delay)
        lease = queue.lease() if state == "leased" else None
        if state == "dead":
            queue.bury(item.id)
        assert queue.get(item.id).state == state
        assert queue.remove(item.id) is None
        for look in (queue.get, queue.remove):
            with pytest.raises(ItemNotFound):
                look(item.id)
        if lease is not None:
            with pytest.raises(LeaseLost):
                queue.ack(lease)
        assert not any(assert_counted(queue).values())


def test_of_a_pop_and_a_removal_one_takes_effect(fifo, database, engine):
    """The other conflicts."""
    item = fifo.push("x")
    transaction = database.create_transaction()
    fifo.remove(item.id, tr=transaction)
    assert fifo.pop().id == item.id
    with pytest.raises(engine.error) as caught:
        transaction.commit().wait()
    assert caught.value.code == 1020
    assert not any(assert_counted(fifo).values())


def test_removing_at_most_so_many_of_a_state(fifo):
    """The first in their order, and the rest stays."""
    fifo.push_many(range(30))
    for item in list(fifo)[:20]:
        fifo.bury(item.id)
    assert fifo.clear_state("dead", limit=0) == 0
    assert fifo.clear_state("dead", limit=5) == 5
    assert fifo.clear_state("ready", limit=3) == 3
    held = assert_counted(fifo)
    assert [item.value for item in held["dead"]] == list(range(5, 20))
    assert [item.value for item in held["ready"]] == list(range(23, 30))
    assert fifo.clear_state("dead", limit=50) == 15


@pytest.mark.nightly
def test_the_acks_of_tried_items_are_bounded(database, subspace):
    """More than one transaction removes are refused with their number, and nothing is changed."""
    queue = FifoQueue(database, subspace)
    queue.push_many(range(7_000))
    for is_tried in (False, True):
        tokens = []
        while items := queue.lease_many(1_000, seconds=600):
            tokens += [item.lease for item in items]
        for start in range(0, 0 if is_tried else len(tokens), 1_000):
            queue.nack_many(tokens[start : start + 1_000])
    with pytest.raises(BatchTooLarge) as caught:
        queue.ack_many(tokens)
    assert queue.counts().leased == 7_000
    most = caught.value.context["most"]
    assert queue.ack_many(tokens[:most]) == most
    assert queue.ack_many(tokens[most:]) == 7_000 - most
    assert not any(assert_counted(queue).values())
