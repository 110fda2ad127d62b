"""No popper starves beside other poppers and pushers.

Counted in what others do meanwhile, not in seconds.
"""

from __future__ import annotations

import threading

import pytest

from fdbqueue.service import FifoQueue, PriorityQueue
from tests.concurrency.clients import another, together

PATIENCE_SECONDS = 100


@pytest.mark.parametrize("codec", ["json", "bytes"])
def test_the_max_end_under_steady_pushes(database, subspace, codec):
    """Pops of the last item go on, and so do pops of the first, while others push and push."""
    queue = PriorityQueue(database, subspace, codec=codec)
    pushers = [PriorityQueue(another(database), subspace, codec=codec) for _ in range(2)]
    is_max_done, is_over = threading.Event(), threading.Event()
    pops = 40

    def push(pusher, thread):
        pushed = 0
        while not is_over.is_set():
            pusher.push(b"x" if codec == "bytes" else "x", thread % 3)
            pushed += 1
        return pushed

    def pop(end):
        found = 0
        while found < pops or (end == "min" and not is_max_done.is_set()):
            found += queue.pop_many(1, end=end) != []
        return found

    def work(thread):
        if thread < 2:
            try:
                return pop(("min", "max")[thread])
            finally:
                (is_over, is_max_done)[thread].set()  # the pops of the first end last
        return push(pushers[thread % 2], thread)

    lowest, highest, *pushed = together(6, work, deadline_seconds=PATIENCE_SECONDS)
    assert lowest >= pops
    assert highest == pops
    assert sum(pushed) + lowest < 200 * pops


@pytest.mark.parametrize("end", ["min", "max"])
def test_a_pop_of_more_than_there_is_under_steady_pushes(database, subspace, end):
    """It takes what there is, however much is pushed meanwhile."""
    queue = FifoQueue(database, subspace)
    pusher = FifoQueue(another(database), subspace)
    is_done = threading.Event()
    pushed, calls = [], 10

    def work(thread):
        if thread:
            while not is_done.is_set():
                pushed.append(pusher.push(len(pushed)))
            return 0
        try:
            return sum(len(queue.pop_many(10_000, end=end, wait=60)) for _ in range(calls))
        finally:
            is_done.set()

    popped, _ = together(2, work, deadline_seconds=PATIENCE_SECONDS)
    assert len(pushed) == popped + len(queue.pop_many(10_000))
    assert len(pushed) < 5_000
