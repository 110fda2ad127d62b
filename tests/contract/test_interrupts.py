"""An interrupt goes through, and says whether a commit was under way."""

from __future__ import annotations

import contextlib

import pytest

from fdbqueue.exceptions import EngineUnavailable
from fdbqueue.service import FifoQueue
from tests.concurrency.census import assert_counted
from tests.engines.interrupts import handled_at_each_place


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
