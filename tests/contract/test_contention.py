"""Many poppers: each item once, in strict order, whoever takes for whom."""

from __future__ import annotations

import statistics
import threading
import time

import pytest

from fdbqueue.exceptions import CorruptItem
from fdbqueue.service import PriorityQueue, run
from fdbqueue.service.consume.help.asking import Asking
from fdbqueue.service.consume.round import Round
from fdbqueue.service.storage.tables import TableKeys
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another, together
from tests.concurrency.kinds import KINDS, STRICT
from tests.concurrency.requests import ask, requests_of
from tests.engines.children import wait_until

CLIENTS, THREADS = 4, 12
REQUESTS, HANDOFFS = 0x03, 0x10
ITEMS = 240
MEAN_RANK = 4
#: Of the strict kinds, one of each order, codec and type of priority.
SOME = STRICT[::2]


def fill(kind, queue, count=ITEMS):
    """Push numbers, in the order of their priorities."""
    levels = sorted(kind.priorities) if not kind.is_fifo else [None]
    numbers = [(number, levels[number * len(levels) // count]) for number in range(count)]
    values = [kind.value(f"{number:04}") for number, _ in numbers]
    queue.push_many(kind.pairs(values, [level for _, level in numbers]))


def number(kind, item):
    """Return the number that an item was pushed with."""
    return int(kind.text(item.value))


def numbers(kind, items):
    """Return the numbers that items were pushed with."""
    return [number(kind, item) for item in items]


def tables(everything):
    """Return the tables in which something is stored, besides the items."""
    return {key[1] for key in everything() if key[:1] == b"\xff"}


# What it costs


def test_an_uncontended_pop_reads_once_more_than_the_recipe(kind, observed, subspace):
    """The recipe reads the head; a pop reads that and what else it must know, and commits."""
    queue = kind.open(observed, subspace)
    fill(kind, queue, 40)
    for operation in (queue.pop_min, queue.pop_max, lambda: queue.pop_many(5), queue.lease):
        for _ in range(3):
            observed.reads.clear()
            transactions = observed.transactions
            assert operation()
            assert len(observed.reads) <= 2
            assert observed.transactions == transactions + 1


def test_a_pop_of_an_empty_queue_costs_no_more(kind, observed, subspace):
    """Two reads, and nothing is written."""
    queue = kind.open(observed, subspace)
    assert queue.pop() is None
    assert len(observed.reads) <= 2
    assert observed.transactions == 1


def test_threads_of_one_client_share_transactions(observed, subspace):
    """Where many pop at once, they take far fewer transactions than they are."""
    kind = STRICT[0]
    queue = kind.open(observed, subspace)
    fill(kind, queue, 960)
    observed.transactions = 0
    found = together(32, lambda _: [queue.pop() for _ in range(30)])
    assert sorted(number(kind, item) for each in found for item in each) == list(range(960))
    assert observed.transactions < 960 // 2


# Those who ask for help


@pytest.fixture
def rival(kind, database, subspace):
    """Another client's queue."""
    return kind.open(another(database), subspace)


@pytest.fixture
def queue(kind, meddled, rival, subspace):
    """A queue of 40 items in their order, with somebody meddling."""
    fill(kind, rival, 40)
    return kind.open(meddled, subspace)


@pytest.mark.parametrize("kind", SOME, ids=str)
@pytest.mark.parametrize("end", ["min", "max"])
def test_where_a_file_can_be_reserved_nobody_asks_for_help(
    kind, meddled, rival, subspace, database, end
):
    """It takes again until it has what comes behind what the other took, in its order."""
    if not getattr(database, "has_reservations", False):
        pytest.skip("a cluster has no reservations")
    meddled.has_reservations = True
    fill(kind, rival, 40)
    queue = kind.open(meddled, subspace)
    taken = []

    def pop_before():
        assert requests_of(rival) == []
        if len(taken) < 5:
            taken.extend(numbers(kind, rival.pop_many(1, end=end)))

    meddled.meddle = pop_before
    found = numbers(kind, queue.pop_many(3, end=end))
    order = list(range(40)) if end == "min" else list(range(40))[::-1]
    assert taken == order[:5]
    assert found == order[5:8]


@pytest.mark.parametrize("kind", SOME, ids=str)
@pytest.mark.parametrize("end", ["min", "max"])
@pytest.mark.parametrize("operation", ["pop_many", "lease_many"])
def test_who_meets_another_again_and_again_is_helped(
    kind, meddled, rival, queue, everything, end, operation
):
    """It asks the other to take for it, and gets what comes behind what the other took."""
    taken = []

    def pop_before():
        if not any(one.is_handed for one in requests_of(rival)):
            taken.extend(numbers(kind, rival.pop_many(1, end=end)))

    meddled.meddle = pop_before
    found = numbers(kind, getattr(queue, operation)(3, end=end))
    order = list(range(40)) if end == "min" else list(range(40))[::-1]
    assert len(taken) >= 2
    assert (taken, found) == (order[: len(taken)], order[len(taken) :][:3])
    assert HANDOFFS not in tables(everything)
    assert len(requests_of(rival)) == (operation == "lease_many")  # the next one removes it
    assert len(assert_counted(rival)["ready"]) == 37 - len(taken)
    assert numbers(kind, rival.pop_many(40, end=end)) == order[len(taken) + 3 :]


@pytest.mark.parametrize("kind", SOME[:1], ids=str)
@pytest.mark.parametrize("operation", ["pop_many", "lease_many"])
def test_whom_nobody_serves_races_after_a_second(
    kind, meddled, rival, queue, everything, operation, monkeypatch
):
    """Others take all the time, of a version that passes over requests: it tries at once again."""
    monkeypatch.setattr(Round, "_begin_help", lambda *_: None)
    take, asked = Asking.take, []
    monkeypatch.setattr(Asking, "take", lambda *given: asked.append(1) or take(*given))
    rival.push_many([kind.value(f"{number:04}") for number in range(40, 1000)])
    taken, lost = [], []
    begun = time.monotonic()

    def pop_before():
        lost.extend([True] * (time.monotonic() - begun > 1.1))
        if len(lost) <= 20:
            taken.extend(numbers(kind, rival.pop_many(1)))

    meddled.meddle = pop_before
    found = numbers(kind, getattr(queue, operation)(3))
    assert time.monotonic() - begun > 1.0
    assert (len(asked), len(lost)) == (1, 21)
    assert found == list(range(len(taken), len(taken) + 3))
    del lost[:6]
    assert getattr(queue, operation)(3)
    assert len(lost) > 20
    assert asked == [1]
    rival.pop()
    assert not tables(everything) & {REQUESTS, HANDOFFS}
    assert_counted(rival)


@pytest.mark.parametrize("kind", [k for k in STRICT if "bytes" not in k.name], ids=str)
def test_who_is_handed_a_corrupt_item_is_told(
    kind, meddled, rival, queue, database, subspace, everything
):
    """It goes back to its place, and all who come to it are told."""
    corrupt = []

    def corrupt_the_second():
        if HANDOFFS in tables(everything):
            return
        if REQUESTS in tables(everything):
            corrupt.append(rival.peek_many(2)[1].id)
            key = subspace.key() + rival.parts.store.keys.place_named(corrupt[0])
            run(database, lambda tr: tr.set(key, b"\xff"))
        assert rival.pop() is not None

    meddled.meddle = corrupt_the_second
    with pytest.raises(CorruptItem) as caught:
        queue.pop()
    assert [caught.value.context["id"]] == corrupt
    assert not tables(everything) & {REQUESTS, HANDOFFS}
    with pytest.raises(CorruptItem):
        rival.pop()
    rival.bury(corrupt[0])
    assert rival.pop() is not None
    assert_counted(rival)


@pytest.mark.parametrize("behind", [0, 1, 2, 5])
def test_a_corrupt_item_stops_all_who_take_together(meddled, database, subspace, behind):
    """Threads that one transaction serves come no further than one alone would."""
    kind = STRICT[0]
    queue = kind.open(meddled, subspace)
    fill(kind, queue, 2 + behind)
    corrupt = queue.page().items[1].id
    key = queue.parts.store.keys.key(queue.parts.store.keys.place_named(corrupt))
    run(database, lambda tr: tr.set(key, b"\xff"))
    is_first = threading.Lock()

    def wait_for_the_others():
        if is_first.acquire(blocking=False):
            wait_until(lambda: queue.parts.group.poppers["min"].combiner.in_line == 2)

    def pop(thread):
        if thread == 0:
            meddled.meddle = wait_for_the_others
            return queue.pop()
        wait_until(is_first.locked)
        try:
            return queue.pop_max() if thread % 2 else queue.pop_min()
        except CorruptItem as error:
            return error.context["id"]

    first, *others = together(5, pop)
    assert number(kind, first) == 0
    assert others[1::2] == [corrupt] * 2
    found = [number(kind, item) for item in others[::2] if item != corrupt]
    assert set(found) <= set(range(2, 2 + behind))
    assert len(list(queue)) == 1 + behind - len(found)
    queue.bury(corrupt)
    assert_counted(queue)


# Those who ask for help and die


@pytest.fixture
def ten(kind, database, subspace):
    """A queue of 10 items in their order."""
    queue = kind.open(database, subspace)
    fill(kind, queue, 10)
    return queue


def test_a_clock_that_is_ahead_takes_nothing_back(kind, ten, ask_and_die, clock):
    """What was handed over is its owner's, if clocks differ by less than the timeout."""
    ask_and_die(ten, lowest=3)
    assert numbers(kind, [ten.pop()]) == [0]
    clock.advance(3_500)
    assert numbers(kind, ten.peek_many(20)) == [4, 5, 6, 7, 8, 9]
    assert numbers(kind, [ten.pop()]) == [4]


def test_more_requests_than_are_read_at_once_hide_nothing(kind, ten, clock):
    """What is due comes back although hundreds ask."""
    lease = ten.lease_min(seconds=1)
    assert numbers(kind, [lease]) == [0]
    for _ in range(310):
        ask(ten, "max", 1)
    clock.advance(2)
    assert numbers(kind, ten.peek_many(1)) == [0]
    assert numbers(kind, [ten.pop()]) == [0]


def test_attempts_are_kept_by_what_a_dead_popper_was_handed(kind, ten, ask_and_die, let_expire):
    """It is no attempt to be handed an item."""
    for lease in ten.lease_many(2):
        ten.nack(lease)
    ask_and_die(ten, lowest=2)
    assert numbers(kind, [ten.pop()]) == [0]
    let_expire(ten)
    assert [item.attempts for item in ten.peek_many(2)] == [1, 0]
    ten.nack(ten.lease())
    assert [item.attempts for item in ten.pop_many(2)] == [2, 0]
    assert_counted(ten)


def test_a_request_that_has_expired_is_dropped(kind, ten, ask_and_die, let_expire, everything):
    """Nothing is taken for it, and nothing is left of it."""
    for _ in range(5):
        ask_and_die(ten, lowest=3, highest=3)
    let_expire(ten)
    assert numbers(kind, [ten.pop()]) == [0]
    assert numbers(kind, assert_counted(ten)["ready"]) == list(range(1, 10))
    assert not tables(everything) & {REQUESTS, HANDOFFS}


def test_a_request_of_an_empty_queue_goes_away_too(
    kind, database, subspace, ask_and_die, let_expire, everything
):
    """Its owner is told that there was nothing; dead, it leaves nothing behind."""
    queue = kind.open(database, subspace)
    ask_and_die(queue, lowest=1)
    assert queue.pop() is None
    queue.push(kind.value("1"), kind.priorities[0])
    assert numbers(kind, [queue.pop()]) == [1]
    let_expire(queue)
    assert queue.pop() is None
    assert not tables(everything) & {REQUESTS, HANDOFFS}
    assert_counted(queue)


def test_nonsense_among_the_requests_stops_nobody(fifo, database, subspace, let_expire):
    """What cannot be read as a request is passed by."""
    tables = TableKeys(subspace.key())

    def write(tr):
        tr[tables.request(b"x" * 8)] = b"\xff\xff"
        tr[tables.request(b"y" * 8)] = b""
        tr[tables.request(b"z" * 8)] = bytes(10) + b"\xff" * 14
        tr[tables.request(b"z" * 8) + b"more"] = bytes(24)

    run(database, write, wrote=lambda _: True)
    ask(fifo, "min", 0)
    fifo.push_many(range(3))
    assert fifo.pop().value == 0
    let_expire(fifo)
    assert [item.value for item in fifo.pop_many(3)] == [1, 2]
    assert fifo.pop() is None


# Shards


@pytest.mark.parametrize("end", ["min", "max"])
@pytest.mark.parametrize("kind", [k for k in KINDS if not k.is_strict], ids=str)
def test_a_pop_from_shards_takes_one_near_the_end(kind, database, subspace, end):
    """At random, and each once."""
    queue = kind.open(database, subspace)
    fill(kind, queue)
    left = list(range(ITEMS)) if end == "min" else list(range(ITEMS))[::-1]
    at = []
    for _ in range(ITEMS):
        (item,) = queue.pop_many(1, end=end)
        at.append(left.index(number(kind, item)))
        del left[at[-1]]
    assert statistics.mean(at) < MEAN_RANK
    assert len(set(at)) > 3
    assert queue.pop() is None
    assert not any(assert_counted(queue).values())


def test_pops_from_shards_of_different_items_do_not_conflict(database, subspace):
    """Nor do they with pushes, also in callers' transactions."""
    queue = PriorityQueue(database, subspace, shards=16)
    queue.push_many([(n, 1) for n in range(ITEMS)])
    committed = 0
    for _ in range(20):
        transactions = [database.create_transaction() for _ in range(2)]
        one, two = (queue.pop(tr=transaction) for transaction in transactions)
        pushing = database.create_transaction()
        queue.push("x", 1, tr=pushing)
        pushing.commit().wait()
        transactions[0].commit().wait()
        if one.id != two.id:
            transactions[1].commit().wait()
            committed += 1
    assert committed > 10
    assert queue.size() == ITEMS - committed
