"""Batches: many items under one token, for whoever brings them elsewhere."""

from __future__ import annotations

import os

import pytest

from fdbqueue.exceptions import CorruptItem, LeaseLost, OutcomeUnknown
from fdbqueue.service import Batcher, Counts, FifoQueue, PriorityQueue
from fdbqueue.service.storage.tables import TableKeys
from fdbqueue.service.tools.examination import Examiner
from tests.concurrency.census import assert_counted
from tests.contract.unsure import unsure_database

OWNER = bytes(range(16))


@pytest.fixture
def queue(kind, database, subspace, clock):
    """A queue of a to f, of one priority, for which the time stands still."""
    queue = kind.open(database, subspace, max_attempts=2)
    values = [kind.value(text) for text in "abcdef"]
    queue.push_many(kind.pairs(values, [kind.priorities[0]] * 6))
    return queue


def test_a_batch_is_taken_from_either_end(kind, queue):
    """Its items are the ones that would be popped, and nobody else gets them."""
    assert kind.texts(queue.lease_batch(2)) == "ab"
    assert kind.texts(queue.lease_batch(2, end="max")) == "fe"
    assert kind.texts(queue) == "cd"
    assert kind.texts(queue.pop_many(9)) == "cd"
    assert queue.pop() is None


def test_an_acknowledged_batch_is_gone(kind, queue, everything):
    """Nothing is left of its items, and they count as taken."""
    before = queue.page().items
    batch = queue.lease_batch(6)
    assert list(batch) == before
    assert batch.size_bytes == sum(item.size_bytes for item in before)
    assert queue.counts().ready == 6
    queue.ack_batch(batch)
    assert queue.counts() == Counts(0, 0, 0, 0)
    assert queue.history(1)[0].pops == 6
    assert_counted(queue)
    tables = {key[1:2] for key in everything() if key.startswith(b"\xff")}
    assert tables <= {b"\x01", b"\x02", b"\x05", b"\x07", b"\x0f"}  # counts and the format
    assert all(key.startswith(b"\xff") for key in everything())


def test_a_batch_that_is_given_back(kind, queue):
    """Its items are at their places as they were: nobody has tried them."""
    before = queue.page().items
    queue.return_batch(queue.lease_batch(4))
    assert queue.page().items == before
    assert_counted(queue)


def test_a_batch_whose_time_is_over(kind, queue, clock):
    """It comes back with whoever consumes next, and its owner learns of it."""
    before = queue.page().items
    batch = queue.lease_batch(3, seconds=10)
    clock.advance(10.1)
    assert kind.texts(queue.peek_many(9)) == "abcdef"
    assert kind.texts(queue.pop_many(1)) == "a"
    assert queue.page().items == before[1:]
    for use in (queue.ack_batch, queue.return_batch):
        with pytest.raises(LeaseLost):
            use(batch)
    assert queue.counts().dead == 0
    assert_counted(queue)


def test_a_late_acknowledgement(kind, queue, clock):
    """It is good for as long as nobody has brought the batch back."""
    batch = queue.lease_batch(3, seconds=10)
    clock.advance(60)
    queue.ack_batch(batch)
    assert kind.texts(queue.pop_many(9)) == "def"
    assert_counted(queue)


def test_an_empty_queue_gives_an_empty_batch(kind, database, subspace):
    """It is nothing to acknowledge or to give back."""
    queue = kind.open(database, subspace)
    batch = queue.lease_batch(5)
    assert list(batch) == []
    queue.ack_batch(batch)
    queue.return_batch(batch)


def test_attempts_are_kept(database, subspace):
    """Those of an item whose value cannot hold them come back with the batch."""
    queue = FifoQueue(database, subspace, codec="bytes")
    queue.push(b"x")
    queue.nack(queue.lease())
    batch = queue.lease_batch(1)
    assert batch[0].attempts == 1
    queue.return_batch(batch)
    assert queue.lease().attempts == 1


def test_long_values(database, subspace, everything):
    """Values in several keys come whole, and nothing of them is left."""
    queue = FifoQueue(database, subspace, codec="bytes", max_value_bytes=1_000_000)
    values = [os.urandom(350_000) for _ in range(3)]
    queue.push_many(values)
    batch = queue.lease_batch(2)
    assert [item.value for item in batch] == values[:2]
    queue.ack_batch(batch)
    assert [item.value for item in queue] == values[2:]
    queue.clear_state("ready")
    assert not [key for key in everything() if key.startswith(b"\xff\x0d")]


def test_an_item_that_cannot_be_decoded(fifo, database):
    """It leaves all where they are; a batcher buries it and goes on."""
    fifo.push_many("ab")
    transaction = database.create_transaction()
    transaction[fifo.subspace.pack((1, b"\x00" * 20))] = b"\xff"
    transaction.commit().wait()
    with pytest.raises(CorruptItem):
        fifo.lease_batch(3)
    batcher = Batcher(fifo, limit=9)
    assert [item.value for item in batcher.next()] == ["a", "b"]
    assert len(batcher.buried) == fifo.counts().dead == 1
    assert not batcher.next()


def test_a_batch_is_cleared_with_its_queue(queue):
    """Then it is not held any more."""
    batch = queue.lease_batch(2)
    queue.clear()
    with pytest.raises(LeaseLost):
        queue.ack_batch(batch)


# After a crash


@pytest.mark.parametrize("done", ["", "a", "ab", "abc", "abcdef"])
@pytest.mark.parametrize("late", [False, True])
def test_what_an_owner_left(kind, queue, clock, done, late):
    """What is done is removed, wherever it is by then; the rest is at its place at once."""
    ids = {kind.text(item.value): item.id for item in queue}
    queue.lease_batch(3, seconds=10, owner=OWNER)
    if late:
        clock.advance(11)
        queue.nack(queue.lease())
    removed = queue.settle_batch(OWNER, [ids[text] for text in done])
    assert removed == len(done)
    left = "".join(text for text in "abcdef" if text not in done)
    assert sorted(kind.texts(queue)) == sorted(left)
    assert_counted(queue)
    assert queue.settle_batch(OWNER, [ids[text] for text in done]) == 0
    assert kind.texts(queue.pop_many(9)) == left


def test_what_nobody_left(queue):
    """An owner without a batch has nothing to settle, and what is done may be long gone."""
    item = queue.pop()
    assert queue.settle_batch(OWNER) == 0
    assert queue.settle_batch(OWNER, [item.id]) == 0
    assert queue.size() == 5


def test_an_owner_has_one_batch(kind, queue):
    """The next one begins when the one before is finished."""
    for text in "abc":
        batch = queue.lease_batch(1, owner=OWNER)
        assert kind.texts(batch) == text
        queue.ack_batch(batch)
    assert queue.settle_batch(OWNER) == 0
    assert Examiner(queue).stale_holds() == 0


def test_a_settled_batch_is_lost_to_its_owner(queue):
    """Its former owner, should it live, learns of it."""
    batch = queue.lease_batch(2, owner=OWNER)
    queue.settle_batch(OWNER)
    with pytest.raises(LeaseLost):
        queue.ack_batch(batch)
    assert queue.size() == 6


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


@pytest.mark.parametrize("byte", [b"\x00", b"\x7f", b"\xff"])
def test_every_name_is_in_its_range(fifo, byte):
    """Names are random bytes: ranges of them hold those of the highest, too."""
    tables = TableKeys(fifo.subspace.key())
    for bounds, key in (
        (tables.handoffs, tables.handoff(byte * 8, 0)),
        (tables.batches, tables.batch(byte * 16)),
    ):
        assert bounds[0] < key < bounds[1]
        assert tables.bounds[0] < key < tables.bounds[1]


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


def test_an_unknown_outcome_with_a_timeout_is_told(database, subspace, engine):
    """A lease whose commit timed out may be held: it comes back by its time."""
    queue = FifoQueue(database, subspace)
    queue.push_many("ab")
    unsure = FifoQueue(unsure_database(database, 1031), subspace)
    with pytest.raises(OutcomeUnknown):
        unsure.lease_batch(2, seconds=0)
    assert [item.value for item in queue.pop_many(2)] == ["a", "b"]
