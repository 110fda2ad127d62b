"""Leases that end in the transaction that takes the next items."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from fdbqueue.exceptions import (
    BatchTooLarge,
    CorruptItem,
    DeadlineExceeded,
    EngineUnavailable,
    IdempotencyKeyReused,
    LeaseLost,
    OutcomeUnknown,
)
from fdbqueue.service import FifoQueue, PriorityQueue
from fdbqueue.service.consume import poppers
from fdbqueue.service.consume.round import Round
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import together
from tests.concurrency.kinds import KINDS
from tests.contract.awaiting.gates import Gated, cancellation_of
from tests.contract.awaiting.test_cancelling import cancelled_at_the_gate, happens
from tests.contract.conftest import Observed
from tests.contract.test_combined_writes import SOON_SECONDS, Held
from tests.contract.test_families import in_line
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


def test_a_late_lease_that_acknowledges_waits_for_the_next_round(queue, pool, monkeypatch):
    """The round has not read what it needs, though no other needs anything."""
    combiner = queue.parts.group.poppers["min"].combiner
    (first,) = queue.lease_many(1)
    late = []

    class Joined(Round):
        def serve(self, *arguments, **options):
            if not late:
                late.append(pool.submit(queue.lease_many, 1, ack=[first]))
                wait_until(lambda: combiner.line)
            return super().serve(*arguments, **options)

    monkeypatch.setattr(poppers, "Round", Joined)
    early = in_line(combiner, pool, [queue.lease] * 2)
    assert sorted(one.result(SOON_SECONDS).value for one in early) == [1, 2]
    assert [item.value for item in late[0].result(SOON_SECONDS)] == [3]
    assert states(queue) == {"ready": [4], "leased": [1, 2, 3], "delayed": [], "dead": []}


@pytest.mark.parametrize("kind", [FifoQueue, PriorityQueue])
@pytest.mark.parametrize("end", ["min", "max"])
@pytest.mark.parametrize("shards", [None, 4])
def test_on_every_kind_of_queue(database, subspace, kind, end, shards):
    """From either end."""
    queue = kind(database, subspace, shards=shards)
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
    foreign = FifoQueue(database, subspace, codec="bytes")
    foreign.adopt_settings()
    foreign.push(b"not JSON")
    queue.adopt_settings()
    with pytest.raises(CorruptItem):
        queue.lease_many(1, ack=[item])
    queue.ack(item)


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


class Failing(Observed):
    """A database that is observed, and fails when it is told to."""

    error = None

    def create_transaction(self):
        if self.error is not None:
            raise self.error
        return super().create_transaction()


@pytest.mark.parametrize("once", [None, "key"])
@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (EngineUnavailable(reason="away"), OutcomeUnknown),
        (DeadlineExceeded(), OutcomeUnknown),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (LookupError(), LookupError),
    ],
    ids=repr,
)
def test_what_ends_the_wait_says_that_the_leases_have_ended(database, subspace, raised, told, once):
    """It is not said that nothing was changed; under a key the same call goes on."""
    failing, queue = Failing(database), FifoQueue(database, subspace)
    queue.push("a")
    item = queue.lease()

    def fail():
        assert failing.watching.wait(60)
        failing.error = raised
        queue.push("b")

    with ThreadPoolExecutor(1) as pool:
        pool.submit(fail)
        with pytest.raises(told) as caught:
            FifoQueue(failing, subspace).lease_many(1, ack=[item], wait=60, once=once)
    assert (caught.value.outcome_known, caught.value.acknowledged) == (False, True)
    if told is OutcomeUnknown:
        assert caught.value.context["acknowledged"] is True
        assert caught.value.__cause__ is raised
    assert states(queue) == {"ready": ["b"], "leased": [], "delayed": [], "dead": []}
    if once is None:
        with pytest.raises(LeaseLost) as lost:
            queue.lease_many(1, ack=[item])
        assert lost.value.outcome_known is True
    else:
        leased = queue.lease_many(1, ack=[item], once=once)
        assert [one.value for one in leased] == ["b"]
        assert queue.lease_many(1, ack=[item], once=once) == leased


def test_a_call_that_was_killed_while_it_waited_goes_on_under_its_key(engine, subspace, start):
    """Once the queue has its next item, or with nothing when the time is over."""
    queue = FifoQueue(engine.database, subspace)
    queue.push("a")
    item = queue.lease()
    child = start(KINDS[0], "acknowledge_and_wait", lease=item.lease, once="key")
    child.expect('"ready"')
    wait_until(lambda: not queue.counts().leased)
    child.kill()
    queue.push("b")
    (leased,) = queue.lease_many(1, ack=[item], once="key", wait=60)
    assert leased.value == "b"
    assert queue.lease_many(1, ack=[item], once="key") == [leased]
    assert states(queue)["leased"] == ["b"]


def test_a_key_under_which_leases_have_ended_is_still_of_one_call(database, subspace):
    """Another call under it is refused, and its leases do not end."""
    queue = FifoQueue(database, subspace)
    queue.push_many("ab")
    first, second = queue.lease_many(2)
    assert queue.lease_many(1, ack=[first], once="key", waits_while=Once()) == []
    with pytest.raises(IdempotencyKeyReused):
        queue.lease_many(1, ack=[second], once="key")
    assert states(queue)["leased"] == ["b"]
    assert queue.lease_many(1, ack=[first], once="key") == []
    queue.push("c")
    assert queue.lease_many(1, ack=[first], once="key") == []


class Once:
    """Tells a call to wait, and then to wait no longer."""

    def __init__(self):
        self._answers = iter([True])

    def __call__(self):
        return next(self._answers, False)


@pytest.mark.parametrize("has_next", [False, True])
def test_a_task_that_is_cancelled_in_the_commit(database, subspace, in_loop, has_next):
    """It is told that the lease has ended; what was leased for it is back."""
    gated, queue = Gated(database, after=False), FifoQueue(database, subspace)
    queue.push_many("ab" if has_next else "a")
    item = queue.lease()

    async def work():
        leasing = FifoQueue(gated, subspace).alease_many(1, ack=[item], wait=60)
        error = await cancelled_at_the_gate(gated, leasing)
        assert (error.outcome_known, error.acknowledged) == (False, True)

    in_loop(work())
    ready = ["b"] if has_next else []
    assert states(queue) == {"ready": ready, "leased": [], "delayed": [], "dead": []}


def test_a_task_that_is_cancelled_while_it_waits(observed, database, subspace, in_loop):
    """It is told that the lease has ended."""
    queue = FifoQueue(database, subspace)
    queue.push("a")
    item = queue.lease()

    async def work():
        leasing = FifoQueue(observed, subspace).alease_many(1, ack=[item], wait=60)
        task = asyncio.ensure_future(cancellation_of(leasing))
        await happens(observed.watching)
        task.cancel()
        error = await task
        assert (error.outcome_known, error.acknowledged) == (False, True)

    in_loop(work())
    assert not any(states(queue).values())


def leased(queue, count):
    """Push items, and lease them all."""
    queue.push_many([0] * count)
    items = []
    while len(items) < count:
        items += queue.lease_many(count - len(items), seconds=600)
    return items


@pytest.mark.parametrize("tried", [False, True])
def test_more_acks_than_a_transaction_can_send_are_refused(database, subspace, tried):
    """With how many it could have been; so many fit, and leave room for an item."""
    queue = FifoQueue(database, subspace["x" * 1_500])
    items = leased(queue, 400)
    if tried:
        for start in range(0, 400, 100):
            queue.nack_many(items[start : start + 100])
        items = []
        while len(items) < 400:
            items += queue.lease_many(400 - len(items), seconds=600)
    queue.push_many([1] * 300)
    with pytest.raises(BatchTooLarge) as caught:
        queue.lease_many(300, ack=items)
    most = caught.value.context["most"]
    if tried:
        with pytest.raises(BatchTooLarge) as caught:
            queue.lease_many(300, ack=items[:most])
        assert most > caught.value.context["most"]
        most = caught.value.context["most"]
    assert 200 < most < 400
    assert (queue.counts().leased, queue.size()) == (400, 300)
    found = queue.lease_many(300, ack=items[:most])
    assert 1 <= len(found) < 300
    assert queue.counts().leased == 400 - most + len(found)


def test_threads_with_many_acks_share_as_many_transactions_as_it_takes(database, subspace):
    """Each gets its next item, and none an error of what they send together."""
    place, threads = subspace["x" * 1_500], 8
    held = Held(database)
    queue, plain = FifoQueue(held, place), FifoQueue(database, place)
    items = leased(plain, 100 * threads)
    plain.push_many([1] * threads)
    held.is_open = True
    found = together(
        threads, lambda n: queue.lease_many(1, seconds=600, ack=items[100 * n : 100 * (n + 1)])
    )
    assert [len(one) for one in found] == [1] * threads
    assert plain.counts().leased == threads
