"""The hooks of the service: what an observer is told, and that it can do no harm."""

from __future__ import annotations

import contextlib
import logging

import pytest

from fdbqueue.exceptions import CorruptItem, LeaseLost, OutcomeUnknown
from fdbqueue.service import Batcher, FifoQueue, Mover, instrumentation, run
from fdbqueue.service.instrumentation import Observer
from tests.contract.unsure import unsure_database


@pytest.fixture
def fifo(database, subspace):
    """An empty FIFO queue."""
    return FifoQueue(database, subspace["fifo"], name="fifo", max_attempts=1)


def test_each_operation_is_told_with_its_items(notes, fifo):
    """One line for each that ran in transactions of its own, in their order."""
    fifo.push("a")
    fifo.push_many(["b", "c", "d"])
    fifo.pop_many(2)
    first, second = fifo.lease_many(5)
    fifo.extend(first, 60)
    fifo.ack(first)
    fifo.nack(second)
    fifo.redrive()
    fifo.ack_many(fifo.lease_many(1))
    fifo.pop()
    fifo.clear()
    assert notes.said("fifo") == [
        ("push", 1),
        ("push_many", 3),
        ("pop", 2),
        ("lease", 2),
        ("extend", 1),
        ("ack", 1),
        ("nack", 1),
        ("redrive", 1),
        ("lease", 1),
        ("ack", 1),
        ("pop", 0),
        ("clear", 1),
    ]
    assert all(done.error is None and done.seconds > 0 for done in notes.operations)


def test_batches_and_moves_are_told(notes, fifo, database, subspace):
    """So is what takes many items at once."""
    target = FifoQueue(database, subspace["target"], name="target")
    fifo.push_many(range(6))
    assert fifo.ack_many(Batcher(fifo, limit=2).next()) == 2
    Mover(fifo, target, limit=3).next()
    fifo.move_many(target, 1)
    assert notes.said("fifo")[1:] == [
        ("lease", 2),
        ("ack", 2),
        ("move", 3),
        ("move", 1),
    ]


def test_what_takes_part_in_a_transaction_is_not_told(notes, fifo, database):
    """It is the caller's to commit."""
    run(database, lambda tr: [fifo.push("a", tr=tr), fifo.pop(tr=tr)])
    assert notes.said("fifo") == []


def test_a_failure_is_told_with_its_error(notes, fifo):
    """The operation raises as it does unobserved."""
    fifo.push("a")
    lease = fifo.lease()
    fifo.ack(lease)
    with pytest.raises(LeaseLost):
        fifo.ack(lease)
    assert notes.said("fifo")[-1] == ("ack", 0)
    assert isinstance(notes.operations[-1].error, LeaseLost)


def test_a_corrupt_item_is_a_failure_of_its_pop(notes, fifo, database, subspace):
    """Threads that combine are each told of their own."""
    run(database, lambda tr: tr.set(subspace["fifo"].pack((0, b"r")), b"\xff"))
    with contextlib.suppress(CorruptItem):
        fifo.pop()
    assert [type(done.error) for done in notes.operations] == [CorruptItem]


def test_conflicts_are_told_by_their_code(notes, database, subspace):
    """1020 for each time a transaction conflicted."""
    key, runs = subspace.pack(("k",)), []

    def change(tr):
        runs.append(tr[key].present())
        if len(runs) < 3:  # somebody else is faster
            run(database, lambda other: other.set(key, b"%d" % len(runs)))
        tr[key] = b"mine"

    run(database, change)
    assert notes.codes == [1020, 1020]


def test_an_unknown_outcome_is_told(notes, engine, subspace):
    """The commit that timed out by its code, and the push by its error."""
    fifo = FifoQueue(unsure_database(engine.database, 1031), subspace, name="unsure")
    with pytest.raises(OutcomeUnknown):
        fifo.push("a")
    assert notes.codes == [1031]
    assert isinstance(notes.operations[-1].error, OutcomeUnknown)


def test_an_observer_that_fails_is_logged_and_harms_nothing(fifo, caplog):
    """What it raises goes no further."""

    class Failing(Observer):
        def operation(self, done):
            raise ZeroDivisionError

    failing = Failing()
    instrumentation.add(failing)
    try:
        fifo.push("a")
        assert fifo.pop().value == "a"
    finally:
        instrumentation.remove(failing)
    assert [record.msg for record in caplog.records] == ["an observer failed"] * 2
    assert caplog.records[0].levelno == logging.ERROR


def test_one_that_is_added_twice_is_told_once_and_then_no_more(notes, fifo):
    """Adding is idempotent, and removing ends it."""
    instrumentation.add(notes)
    fifo.push("a")
    assert notes.said("fifo") == [("push", 1)]
    instrumentation.remove(notes)
    fifo.push("b")
    assert notes.said("fifo") == [("push", 1)]
