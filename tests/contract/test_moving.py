"""Moving items from one queue to another: in one transaction, exactly once."""

from __future__ import annotations

import pytest

from fdbqueue.exceptions import CorruptItem, InvalidInput, InvalidPriority, ValueTooLarge
from fdbqueue.service import FifoQueue, Mover, PriorityQueue
from tests.concurrency.census import assert_counted
from tests.contract.unsure import unsure_database


@pytest.fixture
def queue(kind, database, subspace):
    """A queue of a to d, two of the lowest priority and two of the highest."""
    queue = kind.open(database, subspace["from"])
    values = [kind.value(text) for text in "abcd"]
    low, high = kind.priorities[0], kind.priorities[-1]
    queue.push_many(kind.pairs(values, [low, low, high, high]))
    return queue


@pytest.fixture
def target(kind, database, subspace):
    """An empty queue of the same kind."""
    return kind.open(database, subspace["to"])


def test_everything_is_kept(queue, target):
    """Values, priorities, times and order are as they were; both queues' counts are right."""
    before = queue.page().items
    assert queue.move_many(target, 3) == 3
    after = target.page().items if target.options.order == "count" else list(target)
    assert [(i.value, i.priority, i.pushed_at) for i in after] == [
        (i.value, i.priority, i.pushed_at) for i in before[:3]
    ]
    assert queue.page().items == before[3:]
    assert queue.move_many(target, 3) == 1
    assert queue.move_many(target, 3) == 0
    for one in (queue, target):
        assert_counted(one)


def test_the_other_end(kind, queue, target):
    """From the max end they come in the order in which they are taken."""
    queue.move_many(target, 2, end="max")
    found = "".join(kind.text(item.value) for item in target)
    assert found == "dc"


def test_attempts_are_kept(kind, queue, target, everything):
    """An item does not become new by being moved, whatever its codec keeps; none is left behind."""
    pushed = queue.peek()
    for _ in range(2):
        queue.nack(queue.lease())
    queue.move_many(target, 4)
    attempts = {kind.text(item.value): item.attempts for item in target}
    assert attempts == {"a": 2, "b": 0, "c": 0, "d": 0}
    assert [item.attempts for item in target.peek_many(4)] == [2, 0, 0, 0]
    leased = target.lease()
    assert (leased.attempts, leased.pushed_at) == (2, pushed.pushed_at)
    target.nack(leased)
    assert target.peek().attempts == 3
    assert_counted(target)
    assert len(target.pop_many(9)) == 4
    assert not any(key.partition(b"\xff")[2].startswith(b"\x09") for key in everything())


@pytest.mark.parametrize("options", [{}, {"codec": "bytes"}, {"max_value_bytes": 300_000}], ids=str)
def test_a_redriven_item_that_was_moved_is_new(database, subspace, options):
    """Also one whose value is stored in several keys, with the attempts it came with."""
    options = {**options, "max_attempts": 5}
    source = FifoQueue(database, subspace["a"], **options)
    target = FifoQueue(database, subspace["b"], **options)
    size = options.get("max_value_bytes", 100_000) // 2
    source.push(b"x" * size if "codec" in options else "x" * size)
    for _ in range(4):
        source.nack(source.lease())
    source.move_many(target, 1)
    assert target.peek().attempts == 4
    target.nack(target.lease())
    (dead,) = target.page(state="dead").items
    assert dead.attempts == 5
    assert target.redrive() == 1
    assert target.peek().attempts == 0
    target.nack(target.lease())
    item = target.pop()
    assert (item.attempts, len(item.value)) == (1, size)


def test_priorities(database, subspace):
    """Another type takes what fits; a FIFO queue takes none; one can be given to all."""
    ints = PriorityQueue(database, subspace["i"])
    floats = PriorityQueue(database, subspace["f"], priority_type="float")
    fifo = FifoQueue(database, subspace["q"])
    ints.push_many([("a", 3), ("b", 1)])
    assert ints.move_many(floats, 9) == 2
    assert [(item.value, item.priority) for item in floats] == [("b", 1.0), ("a", 3.0)]
    assert floats.move_many(fifo, 9) == 2
    assert [(item.value, item.priority) for item in fifo] == [("b", None), ("a", None)]
    assert fifo.move_many(ints, 9, priority=7) == 2
    assert [(item.value, item.priority) for item in ints] == [("b", 7), ("a", 7)]


def test_what_does_not_fit_stays(database, subspace):
    """The error names the item; nothing of the transaction is moved."""
    floats = PriorityQueue(database, subspace["f"], priority_type="float")
    ints = PriorityQueue(database, subspace["i"], max_value_bytes=50)
    floats.push("a", 1)
    item = floats.push("b", 1.5)
    with pytest.raises(InvalidPriority) as caught:
        floats.move_many(ints, 9)
    assert caught.value.context["id"] == item.id
    assert (floats.size(), ints.size()) == (2, 0)
    floats.pop_max()
    long = floats.push("x" * 60, 2)
    with pytest.raises(ValueTooLarge) as caught:
        floats.move_many(ints, 9)
    assert caught.value.context["id"] == long.id
    assert floats.size() == 2


def test_moves_that_make_no_sense(database, subspace, engine):
    """They are refused before anything is read."""
    fifo = FifoQueue(database, subspace["q"])
    other = FifoQueue(unsure_database(database, 1021), subspace["o"])
    ints = PriorityQueue(database, subspace["i"])
    blobs = FifoQueue(database, subspace["b"], codec="bytes")
    for target, priority in ((fifo, None), (other, None), (ints, None), (blobs, None), (blobs, 1)):
        with pytest.raises(InvalidInput):
            fifo.move_many(target, 1, priority=priority)
        with pytest.raises(InvalidInput):
            Mover(fifo, target, priority=priority)


def test_an_item_that_cannot_be_decoded(database, subspace):
    """It stays where it is, with those taken with it."""
    fifo, target = FifoQueue(database, subspace["q"]), FifoQueue(database, subspace["t"])
    fifo.push("a")
    transaction = database.create_transaction()
    transaction[fifo.subspace.pack((9, b"\x00" * 20))] = b"\xff"
    transaction.commit().wait()
    with pytest.raises(CorruptItem):
        fifo.move_many(target, 9)
    assert len(list(fifo)) == 2
    assert target.size() == 0


def test_a_mover_goes_past_what_cannot_be_decoded(database, subspace):
    """It is put to the dead letters, and the rest is moved."""
    fifo, target = FifoQueue(database, subspace["q"]), FifoQueue(database, subspace["t"])
    fifo.push_many("ab")
    transaction = database.create_transaction()
    transaction[fifo.subspace.pack((1, b"\x00" * 20))] = b"\xff"
    transaction.commit().wait()
    mover = Mover(fifo, target)
    assert mover.next() == 2
    assert len(mover.buried) == fifo.counts().dead == 1


@pytest.mark.nightly
def test_many_long_values(database, subspace):
    """A mover takes as many in a transaction as FoundationDB's limits allow."""
    options = {"codec": "bytes", "max_value_bytes": 1_000_000}
    source = FifoQueue(database, subspace["a"], **options)
    target = FifoQueue(database, subspace["b"], **options)
    values = [bytes([n]) * size for n, size in enumerate([990_000] * 15 + [10] * 50)]
    for value in values:
        source.push(value)
    mover = Mover(source, target)
    moved = list(iter(mover.next, 0))
    assert sum(moved) == len(values)
    assert [len(item.value) for item in target.iterate()] == [len(value) for value in values]
    assert [item.value[:1] for item in target.iterate()] == [value[:1] for value in values]
