"""Take many items to bring them elsewhere, and remove many."""

from __future__ import annotations

import pytest

from fdbqueue.exceptions import CorruptItem
from fdbqueue.service import Batcher, FifoQueue, PriorityQueue
from tests.concurrency.census import assert_counted


@pytest.fixture
def queue(kind, database, subspace, clock):
    """A queue of a to f, of one priority, for which the time stands still."""
    queue = kind.open(database, subspace, max_attempts=2)
    values = [kind.value(text) for text in "abcdef"]
    queue.push_many(kind.pairs(values, [kind.priorities[0]] * 6))
    return queue


def test_an_item_that_cannot_be_decoded(fifo, database):
    """It leaves all where they are; a batcher buries it and goes on."""
    fifo.push_many("ab")
    transaction = database.create_transaction()
    transaction[fifo.subspace.pack((1, b"\x00" * 20))] = b"\xff"
    transaction.commit().wait()
    with pytest.raises(CorruptItem):
        fifo.lease_many(3)
    batcher = Batcher(fifo, limit=9)
    assert [item.value for item in batcher.next()] == ["a", "b"]
    assert len(batcher.buried) == fifo.counts().dead == 1
    assert not batcher.next()


# Removing by id


def test_removing_what_was_taken_for_a_popper(kind, queue, ask_and_die, let_expire):
    """It does not come back with the rest."""
    first, second, _ = queue.peek_many(3)
    ask_and_die(queue, lowest=2)
    assert kind.texts(queue.pop_many(1)) == "a"
    assert queue.remove_many([second.id]) == 1
    let_expire(queue)
    assert kind.texts(queue.pop_many(9)) == "cdef"
    assert_counted(queue)
    assert first.id != second.id


def test_removing_many(database, subspace):
    """There may be more than one transaction takes."""
    queue = PriorityQueue(database, subspace)
    queue.push_many((n, n % 3) for n in range(1_500))
    ids = [item.id for item in queue if item.value % 2]
    assert queue.remove_many(iter(ids)) == 750
    assert {item.value % 2 for item in queue} == {0}
    assert_counted(queue)


# Removing all in a state


@pytest.mark.parametrize("state", ["ready", "leased", "delayed", "dead"])
def test_clearing_a_state(kind, queue, state):
    """The items in it go, no others, and the history does not count them as taken."""
    queue.lease(seconds=100)
    queue.nack(queue.lease(), delay=100)
    queue.bury(queue.peek().id)
    before = queue.counts()
    assert queue.clear_state(state) == getattr(before, state) == (3 if state == "ready" else 1)
    after = queue.counts()
    assert getattr(after, state) == 0
    assert sum(map(_total, [before])) - _total(after) == getattr(before, state)
    assert queue.history(1)[0].pops == 0
    assert_counted(queue)


def _total(counts):
    return counts.ready + counts.leased + counts.delayed + counts.dead


def test_clearing_ends_with_what_was_there(database, subspace):
    """More than one transaction's items go, and what is no item, too."""
    queue = FifoQueue(database, subspace)
    queue.push_many(range(1_200))
    transaction = database.create_transaction()
    transaction[subspace.pack(("foreign",))] = b"?"
    transaction.commit().wait()
    assert queue.clear_state("ready") == 1_201
    assert list(queue) == []
