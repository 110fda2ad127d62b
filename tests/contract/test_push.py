"""Pushes: never in conflict, in few transactions, and clear about what failed."""

from __future__ import annotations

import itertools

import pytest
from fdb.subspace_impl import Subspace

from fdbqueue.exceptions import InvalidPriority, InvalidValue, PushInterrupted, ValueTooLarge
from fdbqueue.service import FifoQueue, Observer, PriorityQueue, instrumentation
from tests.concurrency.clients import together
from tests.contract.unsure import unsure_database
from tests.wrapped import WrappedTransaction


class Counting:
    """A database that counts the transactions, reads of tails and commits asked of it."""

    def __init__(self, database, fail_after=None):
        self.database = database
        self.commits = 0
        self.tails = 0
        self.fail_after = fail_after

    def create_transaction(self):
        return CountingTransaction(self, self.database.create_transaction())


class CountingReads:
    """Passes snapshot reads on, counting them."""

    def __init__(self, counting, snapshot):
        self._counting = counting
        self._snapshot = snapshot

    def __getitem__(self, key):
        self._counting.tails += 1
        return self._snapshot[key]

    def get_range(self, *args, **kwargs):
        self._counting.tails += 1
        return self._snapshot.get_range(*args, **kwargs)


class CountingTransaction(WrappedTransaction):
    """Passes everything on, counting snapshot reads and commits."""

    def __init__(self, counting, transaction):
        super().__init__(transaction)
        self._counting = counting

    @property
    def snapshot(self):
        return CountingReads(self._counting, self._transaction.snapshot)

    def commit(self):
        self._counting.commits += 1
        if self._counting.commits == self._counting.fail_after:
            raise OSError("the machine is on fire")
        return self._transaction.commit()


def test_concurrent_pushes_are_never_done_again(database, subspace):
    """What one call leaves as its receipt is in the way of no other call."""
    codes = []

    class Codes(Observer):
        def engine_error(self, code):
            codes.append(code)

    queue, observer = FifoQueue(database, subspace), Codes()
    instrumentation.add(observer)
    try:
        together(8, lambda thread: [queue.push_many([thread]) for _ in range(50)])
        together(8, lambda thread: [queue.push(thread) for _ in range(50)])
    finally:
        instrumentation.remove(observer)
    assert 1020 not in codes
    assert len(list(queue)) == 800


def test_push_many_reads_each_tail_once(database, subspace):
    """300 items of 3 priorities in one transaction read 3 tails."""
    counting = Counting(database)
    queue = PriorityQueue(counting, subspace)
    assert queue.push_many([(n, n % 3) for n in range(300)]) == 300
    # and the highest that is hidden, the format, and both ends of a queue that has none
    assert (counting.tails, counting.commits) == (3 + 4, 1)
    assert [item.value for item in queue.pop_many(100)] == list(range(0, 300, 3))


def test_push_many_goes_on_where_earlier_pushes_ended(ints):
    """Items of a second call stand behind those of the first."""
    ints.push_many([("a", 1), ("b", 2)])
    ints.push_many([("c", 1), ("d", 2)])
    assert [item.value for item in ints] == ["a", "c", "b", "d"]


def test_push_many_splits_by_bytes(database, subspace):
    """3 MB of items go in several transactions, none of more than a megabyte or so."""
    counting = Counting(database)
    queue = FifoQueue(counting, subspace, codec="bytes")
    assert queue.push_many(bytes(50_000) for _ in range(60)) == 60
    assert 3 <= counting.commits <= 5
    assert len(queue.pop_many(100)) == 60


def test_push_many_takes_no_more_than_it_needs(database, subspace):
    """A source without an end is read a transaction at a time."""
    queue = FifoQueue(database, subspace, codec="bytes")
    taken = itertools.count()
    refused = 25

    def source():
        for number in taken:
            if number == refused:
                raise LookupError
            yield bytes(90_000)

    with pytest.raises(PushInterrupted) as caught:
        queue.push_many(source())
    assert isinstance(caught.value.__cause__, LookupError)
    stored = len(list(queue))
    assert 0 < stored < refused


def test_push_many_says_how_many_were_pushed_before_a_bad_one(database, subspace):
    """When a later transaction's item is bad, the error counts those already in."""
    queue = FifoQueue(database, subspace, codec="bytes")
    values = [bytes(90_000)] * 15 + ["no bytes"]
    with pytest.raises(PushInterrupted) as caught:
        queue.push_many(values)
    pushed = caught.value.context["pushed"]
    assert 0 < pushed < 15
    assert isinstance(caught.value.__cause__, InvalidValue)
    assert len(list(queue)) == pushed


@pytest.mark.parametrize(
    ("pairs", "error"),
    [
        ([("a", 1), ("b", float("nan"))], InvalidPriority),
        ([("a", 1), ({1, 2}, 1)], InvalidValue),
        ([("a", 1), ("x" * 100_000, 1)], ValueTooLarge),
    ],
)
def test_a_bad_item_in_the_first_transaction_writes_nothing(ints, rows, pairs, error):
    """The error is the item's own, and the queue stays empty."""
    with pytest.raises(error):
        ints.push_many(pairs)
    assert rows() == []


def test_an_error_of_the_source_says_how_many_were_pushed_before_it(database, subspace):
    """Whatever stops a push, the number of items that are in the queue is told."""
    queue = FifoQueue(Counting(database, fail_after=2), subspace, codec="bytes")
    with pytest.raises(PushInterrupted) as caught:
        queue.push_many([bytes(90_000)] * 15)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.context["pushed"] == len(list(queue)) > 0


def test_an_unknown_outcome_says_how_many_may_be_in(engine, subspace):
    """Of the items of a commit whose outcome is unknown nothing is claimed."""
    queue = FifoQueue(unsure_database(engine.database, 1031), subspace, codec="bytes")
    with pytest.raises(PushInterrupted) as caught:
        queue.push_many([bytes(90_000)] * 15)
    assert caught.value.context["pushed"] == 0
    assert caught.value.context["unknown"] == FifoQueue(engine.database, subspace).size() > 0


def test_long_prefixes_keep_transactions_small(database, subspace):
    """Keys count, too: thousands of small items under a long prefix fit their transactions."""
    long = Subspace(rawPrefix=subspace.key() + b"x" * 3_000)
    queue = FifoQueue(database, long)
    assert queue.push_many(range(3_000)) == 3_000
    assert [item.value for item in queue] == list(range(3_000))
