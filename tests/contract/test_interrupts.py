"""An interrupt goes through, and says whether a commit was under way."""

from __future__ import annotations

import contextlib

import pytest

from fdbqueue.exceptions import EngineUnavailable
from fdbqueue.service import FifoQueue
from tests.concurrency.census import assert_counted
from tests.engines.interrupts import handled_at_each_place
from tests.wrapped import WrappedTransaction


class Interrupting:
    """A database whose transactions are interrupted once, where they are told to be."""

    def __init__(self, database, at):
        self.database, self.at = database, at
        self.is_armed = False

    def create_transaction(self):
        return _Transaction(self, self.database.create_transaction())


class _Transaction(WrappedTransaction):
    def __init__(self, owner, transaction):
        super().__init__(transaction)
        self._owner = owner

    def __getattr__(self, name):
        if name == self._owner.at and self._owner.is_armed:
            self._owner.is_armed = False
            raise KeyboardInterrupt
        return super().__getattr__(name)


@pytest.fixture
def interrupted(database, subspace):
    """Pop from a queue of three, interrupted at a step; return the error and the queue."""

    def pop(at):
        interrupting = Interrupting(database, at)
        queue = FifoQueue(interrupting, subspace, name="mail")
        queue.push_many([1, 2, 3])
        interrupting.is_armed = True
        with pytest.raises(KeyboardInterrupt) as caught:
            queue.pop()
        return caught.value, queue

    return pop


def test_before_the_commit_the_outcome_is_known(interrupted):
    """Nothing was taken: the next pop gets the first item."""
    error, queue = interrupted("snapshot")
    assert error.outcome_known is True
    assert [queue.pop().value, queue.size()] == [1, 2]


def test_in_the_commit_the_outcome_is_not_known(interrupted):
    """The error says so, and the queue goes on."""
    error, queue = interrupted("commit")
    assert error.outcome_known is False
    assert queue.pop().value in {1, 2}
    assert queue.size() in {1, 2}


@pytest.mark.parametrize("verb", ["push", "pop", "lease"])
def test_a_handler_that_pushes(database, subspace, verb):
    """It pushes or is refused at once, and the call that it interrupts does what it does alone."""
    FifoQueue(database, subspace).push_many(range(1_000))
    done, handled = [], []

    def use():
        queue = FifoQueue(database, subspace)
        done.append(queue.push("below") if verb == "push" else getattr(queue, verb)())

    def handler():
        handled.append(False)
        with contextlib.suppress(EngineUnavailable):
            FifoQueue(database, subspace).push("handler")
            handled[-1] = True

    runs = 1
    for place in handled_at_each_place(use, handler, stride=17):
        runs += bool(place)
    assert len(done) == runs > 10
    assert len(handled) == runs - 1
    assert {True, False} == set(handled)
    states = assert_counted(FifoQueue(database, subspace))
    values = [item.value for item in states["ready"]]
    assert values.count("handler") == sum(handled)
    if verb == "push":
        assert values.count("below") == runs
    else:
        assert sorted(item.value for item in done) == list(range(runs))
        assert len(states["leased"]) == (runs if verb == "lease" else 0)
