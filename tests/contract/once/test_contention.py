"""Idempotency keys among many: whoever takes for whom, a call has its effect once."""

from __future__ import annotations

import random
import threading

import pytest

from fdbqueue.exceptions import IdempotencyKeyReused
from fdbqueue.service import IdempotencyKey, Push, run
from fdbqueue.service.consume.round import TakeRequest
from fdbqueue.service.storage.handoffs import begin_handoff, parse_handoff
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another, together
from tests.concurrency.kinds import STRICT
from tests.concurrency.requests import ask
from tests.contract.once.test_once import ENDS, TAKES, long_queue
from tests.contract.test_contention import HANDOFFS, REQUESTS, fill, numbers, tables
from tests.engines.children import wait_until


@pytest.fixture
def crowd(database, subspace):
    """Open a kind of queue as several clients of the same data."""

    def open_all(kind, count=4, **options):
        return [kind.open(another(database), subspace, **options) for _ in range(count)]

    return open_all


def combined(queue, meddled, operations):
    """Let threads join one round, in this order, while the commit before it is held up."""
    is_first = threading.Lock()

    def wait_for_the_others():
        if is_first.acquire(blocking=False):
            wait_until(lambda: queue.parts.group.poppers["min"].combiner.in_line == len(operations))

    def work(thread):
        if thread == 0:
            meddled.meddle = wait_for_the_others
            return queue.pop_many(1)
        wait_until(is_first.locked)
        wait_until(lambda: queue.parts.group.poppers["min"].combiner.in_line >= thread - 1)
        try:
            return operations[thread - 1]()
        except Exception as error:  # noqa: BLE001  # a result like another
            return error

    first, *others = together(1 + len(operations), work)
    assert len(first) == 1
    return others


# Many at once


@pytest.mark.parametrize("operation", ["push", *TAKES])
def test_threads_and_clients_with_one_key_make_one_call(kind, crowd, operation):
    """All get the same answer, among many without a key; each item is taken once."""
    queues = crowd(kind, 3)
    turns, threads = 12, 9
    queues[0].push_batch([Push(kind.value(f"{n:04}")) for n in range(turns * threads)])
    calls = {
        "push": lambda queue, key: [queue.push(kind.value("9999"), kind.priorities[0], once=key)],
        "pop_many": lambda queue, key: queue.pop_many(2, once=key),
        "lease_many": lambda queue, key: queue.lease_many(2, once=key),
    }

    def work(thread):
        queue = queues[thread % 3]
        if thread < 4:
            return [calls[operation](queue, f"key {turn}") for turn in range(turns)]
        return [queue.pop_many(1, end=ENDS[thread % 2]) for _ in range(turns)]

    found = together(threads, work)
    assert found[0] == found[1] == found[2] == found[3]
    keyed = [item for items in found[0] for item in items]
    popped = [item for each in found[4:] for items in each for item in items]
    assert len(keyed) == (turns if operation == "push" else 2 * turns)
    assert len({item.id for item in keyed}) == len(keyed)
    taken = {item.id for item in [*popped, *([] if operation == "push" else keyed)]}
    assert len(taken) == len(popped) + (0 if operation == "push" else len(keyed))
    there = turns * threads + (turns if operation == "push" else 0)
    assert len(assert_counted(queues[0])["ready"]) == there - len(taken)


@pytest.mark.parametrize("take", TAKES)
def test_calls_with_one_key_that_are_served_together(kind, meddled, subspace, take):
    """One of them takes, all have its answer, and those without a key the items behind."""
    queue = kind.open(meddled, subspace)
    fill(kind, queue, 20)
    same = [lambda: getattr(queue, take)(2, once="key")] * 3
    *keyed, other = combined(queue, meddled, [*same, lambda: queue.pop_many(1)])
    assert keyed[0] == keyed[1] == keyed[2]
    ids = {item.id for item in [*keyed[0], *other]}
    assert len(ids) == 3
    held = assert_counted(queue)
    assert len(held["ready"]) == 16
    assert not ids & {item.id for item in held["ready"]}


def test_different_calls_with_one_key_that_are_served_together(kind, meddled, subspace):
    """One of them is made; each of the others is refused, and hinders nobody else."""
    queue = kind.open(meddled, subspace)
    fill(kind, queue, 20)
    *keyed, other = combined(
        queue,
        meddled,
        [
            lambda: queue.pop_many(2, once="key"),
            lambda: queue.lease_many(2, once="key"),
            lambda: queue.pop_many(3, once="key"),
            lambda: queue.pop_many(1),
        ],
    )
    items, *refused = keyed
    assert [type(one) for one in refused] == 2 * [IdempotencyKeyReused]
    assert (len(items), len(other)) == (2, 1)
    assert len(assert_counted(queue)["ready"]) == 16


@pytest.mark.parametrize("size", [1, 2])
def test_who_is_served_with_an_answered_call_is_told_the_truth(kind, meddled, subspace, size):
    """What there is, or that there is nothing: the call that was made before takes nothing."""
    queue = kind.open(meddled, subspace)
    fill(kind, queue, 1 + size)
    items = queue.pop_many(1, once="key")
    fill(kind, queue, 1)
    again, empty, *others = combined(
        queue,
        meddled,
        [
            lambda: queue.pop_many(1, once="key"),
            lambda: queue.pop_many(1, once="another"),
            lambda: queue.pop_many(1),
        ],
    )
    assert again == items
    assert sum(map(len, [empty, *others])) == size
    assert not any(assert_counted(queue).values())


def test_keys_are_used_anew_while_answers_are_removed(kind, crowd, clock):
    """Each round of calls under the same keys takes each item once, and keeps what it took."""
    random.seed(3)
    queues = crowd(kind)
    for _ in range(3):
        queues[0].push_batch([Push(kind.value(f"{n:04}")) for n in range(80)])

        def take(thread):
            return [
                queues[thread].pop_many(1, once=IdempotencyKey(f"{thread} {turn}", kept_seconds=10))
                for turn in range(20)
            ]

        taken = together(4, take)
        found = sorted(n for each in taken for items in each for n in numbers(kind, items))
        assert found == list(range(80))
        assert together(4, take) == taken
        clock.advance(3_611)  # they are removed an hour after they have run out
    assert not any(assert_counted(queues[0]).values())


# Those who ask others for help


#: Of the strict kinds, one of each order, codec and type of priority.
SOME = STRICT[::2]


@pytest.mark.parametrize("kind", SOME, ids=str)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("take", TAKES)
def test_what_another_took_for_a_call_is_its_answer(
    kind, meddled, rival, subspace, everything, end, take
):
    """It is kept once it is collected, and taken once."""
    fill(kind, rival, 40)
    queue = kind.open(meddled, subspace)
    taken = []

    def pop_before():
        if HANDOFFS not in tables(everything):
            taken.extend(numbers(kind, rival.pop_many(1, end=end)))

    meddled.meddle = pop_before
    once = IdempotencyKey("key")
    items = getattr(queue, take)(3, end=end, once=once)
    assert not once.replayed
    order = list(range(40)) if end == "min" else list(range(40))[::-1]
    assert len(taken) >= 2
    assert numbers(kind, items) == order[len(taken) :][:3]
    meddled.meddle = lambda: None
    assert getattr(queue, take)(3, end=end, once=once) == items
    assert getattr(rival, take)(3, end=end, once=once) == items
    assert not tables(everything) & ({REQUESTS, HANDOFFS} if take == "pop_many" else {REQUESTS})
    assert len(assert_counted(rival)["ready"]) == 37 - len(taken)


@pytest.mark.parametrize("kind", SOME, ids=str)
def test_a_kept_answer_asks_nobody_for_items(kind, meddled, rival, subspace, everything):
    """Among poppers it is found without taking anything, even for a moment."""
    fill(kind, rival, 40)
    queue = kind.open(meddled, subspace)
    answer = rival.pop_many(1, once="key")

    def pop_before():
        if HANDOFFS not in tables(everything):
            assert rival.pop() is not None

    meddled.meddle = pop_before
    assert queue.pop() is not None  # it was helped, and would ask again straight away
    seen = []
    meddled.meddle = lambda: seen.append(tables(everything))
    assert queue.pop_many(1, once="key") == answer
    assert seen
    assert not set().union(*seen) & {REQUESTS, HANDOFFS}
    assert_counted(rival)


def ask_for(queue, wanted):
    """Ask as a popper does, and return what collects for it what others took."""
    request = ask(queue, "min", wanted)

    def collect(*requests):
        def work(tr):
            found = parse_handoff(begin_handoff(tr, queue.parts.store.tables, request.name))
            return queue.parts.group.poppers["min"]._asking.collect(tr, requests, request, found)

        results = dict(run(queue.database, work, wrote=lambda _: True).results)
        return [results.get(one) for one in requests]

    return collect


def pop_of(queue, count, *, once=None):
    """Return the request of a thread that pops."""
    call = queue.parts.responses.call(once, "pop", "min", count)
    consumer = queue.parts.consumer
    return TakeRequest("min", count, call, requeue=consumer.requeue_popped)


@pytest.mark.parametrize("kind", SOME, ids=str)
def test_what_was_taken_for_a_call_made_meanwhile_goes_to_the_next(kind, queue, rival):
    """In order, and what is left goes back: nobody gets past an item."""
    fill(kind, queue, 4)
    collect = ask_for(rival, 3)
    answer = queue.pop_many(1, once="key")
    found = collect(
        pop_of(rival, 1, once="key"), pop_of(rival, 1), pop_of(rival, 1, once="another")
    )
    assert [numbers(kind, items) for items in found] == [[0], [1], [2]]
    assert found[0] == answer
    assert queue.pop_many(1, once="another") == found[2]
    assert numbers(kind, assert_counted(queue)["ready"]) == [3]


def test_what_is_taken_for_others_is_no_more_than_they_can_keep(database, subspace, clock):
    """They collect it under their keys, copies and all, in one transaction."""
    place = subspace["x" * 2_000]
    queue = long_queue("bytes", database, place)
    rival = long_queue("bytes", another(database), place)
    queue.push(b"first")
    ids = [queue.push(bytes(990_000)).id for _ in range(12)]
    collect = ask_for(rival, 12)
    assert queue.pop().value == b"first"
    (items,) = collect(pop_of(rival, 12, once="key"))
    assert [item.id for item in items] == ids[: len(items)]
    assert 0 < len(items) < 10  # a transaction has 10,000,000 bytes
    assert queue.pop_many(12, once="key") == items
    assert len(assert_counted(queue)["ready"]) == 12 - len(items)
