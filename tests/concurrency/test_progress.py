"""No popper starves beside other poppers and pushers.

Counted in what others do meanwhile, not in seconds.
"""

from __future__ import annotations

import threading

import pytest

from fdbqueue.service import FifoQueue, PriorityQueue
from tests.concurrency.clients import another, together

PATIENCE_SECONDS = 100


@pytest.mark.parametrize("count", [1_000, 2_500])
def test_pops_of_many_beside_single_pops(database, subspace, count):
    """A process that pops many at once gets all of them while four threads of another pop on."""
    queue = FifoQueue(database, subspace)
    rival = FifoQueue(another(database), subspace)
    items, calls = 30_000, 3
    queue.push_many(range(items))
    is_done = threading.Event()

    def work(thread):
        if thread == 0:
            found = [queue.pop_many(count) for _ in range(calls)]
            is_done.set()
            return found
        popped = []
        while not is_done.is_set() and (item := rival.pop()):
            popped.append([item])
        return popped

    many, *others = together(5, work, deadline_seconds=PATIENCE_SECONDS)
    assert [len(each) for each in many] == [count] * calls
    values = [item.value for each in (many, *others) for found in each for item in found]
    assert sorted(values) == list(range(len(values)))
    assert all(
        [item.value for item in each] == list(range(each[0].value, each[-1].value + 1))
        for each in many
    )


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


def test_a_pop_at_the_max_end_that_met_pushes_took_the_last_it_saw(database, subspace):
    """It was the last at a moment within the call, and no push near it is lost."""
    queue = FifoQueue(another(database), subspace)
    pusher = FifoQueue(database, subspace)
    pusher.push_many(range(5))
    numbers = iter(range(5, 100))
    pushed = []
    create = queue.database.create_transaction

    class Meddled:
        """The database: something is pushed before each commit that takes items."""

        def create_transaction(self):
            transaction = create()
            commit = transaction.commit

            def pushed_before():
                pushed.append(pusher.push(next(numbers)).value)
                return commit()

            transaction.commit = pushed_before
            return transaction

    queue.parts.runner.database = Meddled()
    item = queue.pop_max()
    queue.parts.runner.database = pusher.database
    assert len(pushed) == 3
    assert item.value == pushed[1]  # the last before the third attempt
    assert [one.value for one in pusher] == [*range(5), pushed[0], pushed[2]]
    assert pusher.size() == 7
