"""Leases that end in the transaction that takes the next items."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from fdbqueue.exceptions import CorruptItem, InvalidInput, LeaseLost
from fdbqueue.service import FifoQueue, PriorityQueue
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another, together
from tests.contract.test_combined_writes import Held
from tests.engines.children import wait_until


@pytest.fixture
def queue(database, subspace):
    """A queue of five items."""
    queue = FifoQueue(database, subspace)
    queue.push_many(range(5))
    return queue


def leased_again(queue, **options):
    """Return the first item, leased once the lease before has expired."""
    items = []
    wait_until(lambda: items.extend(queue.lease_many(1, **options)) or items)
    return items[0]


def states(queue):
    """Return the values of the items in each state, which are counted right."""
    return {state: [item.value for item in items] for state, items in assert_counted(queue).items()}


def test_one_ends_and_the_next_begins(queue):
    """In one transaction, and each once."""
    item, taken = None, []
    while items := queue.lease_many(1, ack=[item] if item else []):
        (item,) = items
        taken.append(item.value)
    assert taken == list(range(5))
    assert not any(states(queue).values())  # the last ended with a lease that found nothing


@pytest.mark.parametrize("kind", [FifoQueue, PriorityQueue])
@pytest.mark.parametrize("end", ["min", "max"])
@pytest.mark.parametrize("contention", ["strict", "relaxed"])
def test_on_every_kind_of_queue(database, subspace, kind, end, contention):
    """From either end."""
    queue = kind(database, subspace, contention=contention)
    queue.push_many(range(6) if kind is FifoQueue else [(n, n % 2) for n in range(6)])
    first = queue.lease_many(2, end=end)
    second = queue.lease_many(3, end=end, ack=[first[0], first[1].lease])
    assert len({item.id for item in first + second}) == 5
    found = assert_counted(queue)
    assert sorted(item.id for item in found["leased"]) == sorted(item.id for item in second)
    assert len(found["ready"]) == 1


def test_all_of_them_or_nothing(queue):
    """One that is lost is the error; nothing is leased, and the other is still held."""
    lost, held = queue.lease_many(2)
    queue.ack(lost)
    with pytest.raises(LeaseLost) as caught:
        queue.lease_many(2, ack=[held, lost])
    assert caught.value.outcome_known is True
    assert caught.value.context["lease"] == lost.lease
    assert states(queue) == {"ready": [2, 3, 4], "leased": [1], "delayed": [], "dead": []}
    queue.ack(held)


def test_in_the_callers_transaction(queue, database):
    """Both take effect with it, or neither does."""
    (item,) = queue.lease_many(1)
    tr = database.create_transaction()
    (later,) = queue.lease_many(1, ack=[item], tr=tr)
    del tr
    assert states(queue)["leased"] == [0]
    tr = database.create_transaction()
    (later,) = queue.lease_many(1, ack=[item], tr=tr)
    tr.commit().wait()
    assert states(queue)["leased"] == [later.value]


def test_an_expired_lease_that_is_still_held(database, subspace):
    """It ends, and does not expire as well in that transaction."""
    queue = FifoQueue(database, subspace)
    queue.push_many(["a", "b"])
    (item,) = queue.lease_many(1, seconds=0.001)
    (later,) = queue.lease_many(1, ack=[item])
    assert later.value == "b"
    assert states(queue) == {"ready": [], "leased": ["b"], "delayed": [], "dead": []}


def test_an_expired_lease_that_was_lost_expires(database, subspace):
    """A caller whose lease was lost gets its error, and the next pop gets the item."""
    queue = FifoQueue(database, subspace)
    queue.push("a")
    old = queue.lease(seconds=0.001)
    new = leased_again(queue, seconds=0.001)
    with pytest.raises(LeaseLost):
        queue.lease_many(1, ack=[old])
    popped = []
    wait_until(lambda: popped.extend(queue.pop_many(1)) or popped)
    assert popped[0].id == new.id


def test_the_same_lease_from_two_threads(database, subspace):
    """Of two threads in one round, one ends it and the other finds it lost."""
    held = Held(database)
    queue = FifoQueue(held, subspace)
    held.is_open = True
    queue.push_many(range(9))
    item = queue.lease()
    outcomes = []

    def lease(_):
        try:
            outcomes.append(queue.lease_many(1, ack=[item]))
        except LeaseLost as error:
            outcomes.append(error)

    together(6, lease)
    assert len([one for one in outcomes if isinstance(one, LeaseLost)]) == 5
    assert len(states(queue)["leased"]) == 1


def test_two_leases_of_one_item(database, subspace):
    """The older one is lost, so nothing happens."""
    queue = FifoQueue(database, subspace)
    queue.push(0)
    old = queue.lease(seconds=0.001)
    new = leased_again(queue)
    assert new.id == old.id
    with pytest.raises(LeaseLost):
        queue.lease_many(1, ack=[old, new])
    assert states(queue)["leased"] == [0]


def test_a_corrupt_item_keeps_the_lease(database, subspace):
    """What cannot be decoded is not leased, and nothing has ended."""
    queue = FifoQueue(database, subspace)
    queue.push("a")
    item = queue.lease()
    FifoQueue(database, subspace, codec="bytes").push(b"not JSON")
    with pytest.raises(CorruptItem):
        queue.lease_many(1, ack=[item])
    queue.ack(item)


def test_bad_input(queue):
    """A text that is not a token, and more than a thousand."""
    (item,) = queue.lease_many(1)
    with pytest.raises(InvalidInput):
        queue.lease_many(1, ack=["no token"])
    with pytest.raises(InvalidInput):
        queue.lease_many(1, ack=[queue.peek()])
    with pytest.raises(InvalidInput, match="0 to 1000"):
        queue.lease_many(1, ack=[item] * 1_001)
    assert states(queue)["leased"] == [0]


def test_under_an_idempotency_key(queue):
    """The same call returns the same leases, and ends nothing more."""
    (item,) = queue.lease_many(1)
    first = queue.lease_many(2, ack=[item], once="key")
    assert queue.lease_many(2, ack=[item], once="key") == first
    assert states(queue)["leased"] == [1, 2]


def test_for_event_loops(queue):
    """The same for tasks."""

    async def work():
        (item,) = await queue.alease_many(1)
        return await queue.alease_many(1, ack=[item])

    (item,) = asyncio.run(work())
    assert item.value == 1
    assert states(queue)["leased"] == [1]


def test_waiting_ends_the_leases_at_once(database, subspace):
    """Who waits for the next item has acknowledged the one before."""
    queue = FifoQueue(database, subspace)
    queue.push("a")
    item = queue.lease()
    assert queue.lease_many(1, ack=[item], wait=0.05) == []
    assert not any(states(queue).values())


@pytest.mark.slow
def test_threads_and_processes_that_ask_for_help(database, subspace):
    """Whoever takes for them, each item is leased once and acknowledged once."""
    queues = [FifoQueue(another(database), subspace) for _ in range(3)]
    queues[0].push_many(range(240))

    def work(thread):
        queue, taken, done = queues[thread % 3], [], []
        while items := queue.lease_many(1 + thread % 2, seconds=600, ack=done):
            taken += [item.value for item in items]
            done = items
        return taken

    with ThreadPoolExecutor(9) as pool:
        taken = [value for each in pool.map(work, range(9)) for value in each]
    assert sorted(taken) == list(range(240))
    assert not any(states(queues[0]).values())
