"""Counts of calls are the same on every machine, so their bars hold in each run of the tests."""

from __future__ import annotations

import json

from benchmarks.calls import CASES, Count, counted
from fdbqueue.service import FifoQueue
from tests.benchmarks.test_benchmarks import run


def test_no_operation_makes_more_calls_than_it_may():
    """A push, a pop, a lease with its ack, of both kinds of queues; a task's enqueue and run."""
    done = run("--json", "--scale", "tiny", "calls")  # a process without observers
    _, *lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(CASES)
    assert [line for line in lines if not line["is_met"]] == []


def test_python_calls_are_counted():
    """Functions and generators that go on; not what is written in C, and not the counting."""

    def numbers():
        yield 1
        yield 2

    def add():
        return sum(numbers())

    count, result = counted(add)
    assert (count, result) == (Count(calls=1 + 3), 3)
    assert counted(dict) == (Count(), {})


def test_the_way_to_the_first_read_is_measured(database, subspace):
    """A push has a frame for each function on its way, and enters files besides the engine's."""
    queue = FifoQueue(database, subspace)
    run = counted(lambda: queue.push(1))[0]
    direct = counted(lambda: database.create_transaction().get(b"x"))[0]
    assert (direct.frames, direct.files) == (2, 0)
    assert run.frames > direct.frames
    assert run.files > 1
