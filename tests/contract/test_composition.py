"""Operations given ``tr`` take part in the caller's transaction, and commit nothing."""

from __future__ import annotations

import pytest

import fdbqueue
from fdbqueue.exceptions import OutcomeUnknown
from fdbqueue.service import FifoQueue, run
from tests.contract.unsure import unsure_database


def stored(database, key):
    """Return the bytes at a key, or None."""

    def read(tr):
        value = tr[key]
        return bytes(value) if value.present() else None

    return run(database, read)


def test_nothing_is_there_before_the_caller_commits(fifo, database):
    """A push in a transaction that is dropped never happened."""
    transaction = database.create_transaction()
    fifo.push("a", tr=transaction)
    fifo.push_many(["b", "c"], tr=transaction)
    assert fifo.peek() is None
    transaction.cancel()
    assert list(fifo) == []


def test_a_transaction_sees_its_own_pushes_and_pops(fifo, database):
    """Within one transaction the queue is as its operations left it."""
    fifo.push("old")
    transaction = database.create_transaction()
    fifo.push("new", tr=transaction)
    assert fifo.pop(tr=transaction).value == "old"
    assert fifo.peek(tr=transaction).value == "new"
    assert [item.value for item in fifo.page(tr=transaction).items] == ["new"]
    transaction.commit().wait()
    assert [item.value for item in fifo] == ["new"]


def test_an_item_moves_between_queues_with_the_callers_own_keys(database, subspace):
    """A pop, a push elsewhere and a key of the application commit as one."""
    source = FifoQueue(database, subspace["source"])
    target = FifoQueue(database, subspace["target"])
    source.push("job")

    @fdbqueue.transactional
    def move(tr, note):
        item = source.pop(tr=tr)
        target.push(item.value, tr=tr)
        tr[subspace["note"].key()] = note
        return item

    moved = move(database, b"moved")
    assert moved.value == "job"
    assert source.peek() is None
    assert target.peek().value == "job"
    assert stored(database, subspace["note"].key()) == b"moved"


def test_a_conflict_runs_a_transactional_function_again(database, subspace):
    """The function is run until its reads are still true when it commits."""
    counter = subspace["counter"].key()
    runs = []

    @fdbqueue.transactional
    def increment(tr):
        value = tr[counter]
        number = int(bytes(value)) if value.present() else 0
        runs.append(number)
        if len(runs) == 1:
            other = database.create_transaction()
            other[counter] = b"41"
            other.commit().wait()
        tr[counter] = b"%d" % (number + 1)
        return number + 1

    assert increment(database) == 42
    assert runs == [0, 41]


def test_a_transactional_function_joins_the_callers_transaction(database, subspace):
    """Called with a transaction it commits nothing itself."""

    @fdbqueue.transactional
    def write(tr, value):
        tr[subspace.key()] = value

    transaction = database.create_transaction()
    write(transaction, b"x")
    assert stored(database, subspace.key()) is None
    transaction.commit().wait()
    assert stored(database, subspace.key()) == b"x"


def test_an_error_of_the_function_leaves_nothing(database, subspace):
    """What a function wrote before it raised is not committed."""

    @fdbqueue.transactional
    def fail(tr):
        tr[subspace.key()] = b"x"
        raise LookupError

    with pytest.raises(LookupError):
        fail(database)
    assert stored(database, subspace.key()) is None


@pytest.mark.parametrize("wrong", ["no_tr", "generator"])
def test_what_cannot_be_retried_is_refused(wrong):
    """A function without tr first, or one that yields, cannot be decorated."""

    def no_tr(database):
        return database

    def generator(tr):
        yield tr

    with pytest.raises(TypeError):
        fdbqueue.transactional({"no_tr": no_tr, "generator": generator}[wrong])


@pytest.mark.parametrize("code", [1021, 1039])
@pytest.mark.parametrize("order", ["count", "commit"])
def test_an_unknown_outcome_is_found_out(engine, subspace, code, order):
    """Where a commit took effect without saying so, its call returns what it did, once."""
    queue = FifoQueue(unsure_database(engine.database, code), subspace, order=order)
    pushed = [queue.push("first"), queue.push("second")]
    other = FifoQueue(engine.database, subspace, order=order)
    assert [item.id for item in other] == [item.id for item in pushed]
    assert queue.pop().value == "first"
    leased = queue.lease()
    assert leased.value == "second"
    queue.ack(leased)
    assert queue.pop() is None
    assert queue.counts() == other.recount()


def test_a_function_of_the_callers_takes_effect_once(engine, subspace):
    """A transactional function is not run again when its commit took effect."""
    key = subspace["count"].key()

    @fdbqueue.transactional
    def increment(tr):
        found = tr[key]
        count = int.from_bytes(bytes(found), "big") if found.present() else 0
        tr[key] = (count + 1).to_bytes(4, "big")
        return count + 1

    unsure = unsure_database(engine.database, 1021)
    assert [increment(unsure) for _ in range(3)] == [1, 2, 3]
    assert stored(engine.database, key) == bytes([0, 0, 0, 3])


def test_a_timeout_while_committing_says_that_the_outcome_is_unknown(engine, subspace):
    """What a timed out commit did cannot be found out in the time there was."""
    queue = FifoQueue(unsure_database(engine.database, 1031), subspace)
    with pytest.raises(OutcomeUnknown) as caught:
        queue.push("once")
    assert caught.value.context == {"fdb_code": 1031}
    assert [item.value for item in FifoQueue(engine.database, subspace)] == ["once"]
