"""Leases that another process writes for the one that asked, and the acks that ride with them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from fdbqueue.deadlines import TimedDatabase
from fdbqueue.exceptions import CorruptItem, DeadlineExceeded, LeaseLost, OutcomeUnknown
from fdbqueue.service import FifoQueue, PriorityQueue, run
from fdbqueue.service.codecs import JsonCodec
from fdbqueue.service.consume.acks import parsed_token
from fdbqueue.service.consume.round import MAX_ASKED_KEYS_BYTES
from fdbqueue.service.storage.handoffs import packed_lease_keys
from tests.concurrency.census import assert_counted, values
from tests.concurrency.clients import another
from tests.concurrency.requests import ask, requests_of
from tests.contract.test_contention import HANDOFFS, tables
from tests.covering import pairs
from tests.engines.children import wait_until

SOON_SECONDS = 60
MINUTE_US = 60_000_000


@pytest.fixture(params=[FifoQueue, PriorityQueue])
def open_queue(request, subspace):
    """Open the queue on a database."""
    return lambda database: request.param(database, subspace)


@pytest.fixture
def rival(database, open_queue):
    """Another client's queue, of 40 items."""
    queue = open_queue(another(database))
    queue.push_many(range(40) if isinstance(queue, FifoQueue) else [(n, n) for n in range(40)])
    return queue


@pytest.fixture
def queue(meddled, rival, open_queue):
    """The queue of a client that always meets the other one."""
    return open_queue(meddled)


def fill(queue, count):
    """Push numbers, behind what is there."""
    numbers = range(count)
    queue.push_many(numbers if isinstance(queue, FifoQueue) else [(n, 50) for n in numbers])


def popping(rival, taken, known=()):
    """Return what pops an item before each commit, until a new help request is served."""

    def pop_before():
        if not any(one.is_handed and one.name not in known for one in requests_of(rival)):
            taken.extend(values(rival.pop_many(1)))

    return pop_before


def test_one_commit_ends_the_old_lease_and_begins_the_new(queue, rival, meddled, everything):
    """The client that helps writes both; the other one writes nothing but its request."""
    item = rival.lease(seconds=600)
    taken = []
    meddled.meddle = popping(rival, taken)
    found = queue.lease_many(2, seconds=600, ack=[item])
    assert len(taken) >= 2
    assert values(found) == [len(taken) + 1, len(taken) + 2]
    states = assert_counted(rival)
    assert values(states["leased"]) == values(found)
    assert len(states["ready"]) == 40 - 3 - len(taken)
    assert HANDOFFS not in tables(everything)
    meddled.meddle = lambda: None
    for one in found:  # they are ordinary leases
        queue.extend(one, 600)
        queue.ack(one)


def test_the_row_is_removed_with_the_next_request(queue, rival, meddled):
    """However often it asks, one row is left, and that one expires."""
    for _ in range(5):
        known = {one.name for one in requests_of(rival)}
        meddled.meddle = popping(rival, [], known)
        assert queue.lease_many(1, seconds=600)
        assert len(requests_of(rival)) == 1


def test_a_served_row_expires_and_its_leases_do_not(queue, rival, meddled, let_expire):
    """Then it is gone with the next pop, and the items stay leased."""
    meddled.meddle = popping(rival, [])
    (item,) = queue.lease_many(1, seconds=600)
    let_expire(rival)
    assert rival.pop() is not None
    assert requests_of(rival) == []
    assert values(assert_counted(rival)["leased"]) == [item.value]
    queue.ack(item)


def test_an_old_lease_that_is_lost_is_the_error(queue, rival, meddled):
    """The request leases nothing, and the client that helps goes on with its own pops."""
    item, other = rival.lease_many(2, seconds=600)
    acked = []

    def ack_before():
        if requests_of(rival) and not acked:
            rival.ack(item)
            acked.append(item)
        if not any(one.is_handed for one in requests_of(rival)):
            rival.pop()

    meddled.meddle = ack_before
    with pytest.raises(LeaseLost) as caught:
        queue.lease_many(2, seconds=600, ack=[other, item])
    assert acked
    assert caught.value.outcome_known is True
    assert values(assert_counted(rival)["leased"]) == [other.value]


def test_of_two_requests_that_end_one_lease_one_is_refused(rival):
    """One in each round, so the item is counted once."""
    item = rival.lease(seconds=600)
    for _ in range(2):
        ask(
            rival,
            "min",
            1,
            lease_us=MINUTE_US,
            lease_keys=packed_lease_keys([_lease_key(rival, item)]),
        )
    assert rival.pop().value == 1
    assert rival.pop().value == 3
    assert sorted(one.refused for one in requests_of(rival)) == [False, True]
    assert values(assert_counted(rival)["leased"]) == [2]


def test_of_a_round_and_a_request_that_end_one_lease_the_round_does(rival):
    """The request is refused by the next."""
    item = rival.lease(seconds=600)
    ask(
        rival, "min", 1, lease_us=MINUTE_US, lease_keys=packed_lease_keys([_lease_key(rival, item)])
    )
    assert values(rival.lease_many(1, seconds=600, ack=[item])) == [1]
    assert [one.is_handed for one in requests_of(rival)] == [False]
    assert rival.pop().value == 2
    assert [one.refused for one in requests_of(rival)] == [True]
    assert values(assert_counted(rival)["leased"]) == [1]


def _lease_key(queue, item):
    token = parsed_token(queue.parts.store, item.lease)
    return token.place, token.secret


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("open_queue", "is_served", "acks"),
    pairs([FifoQueue, PriorityQueue], [True, False], [True, False]),
    indirect=["open_queue"],
)
def test_who_gives_up_meanwhile(meddled, rival, open_queue, is_served, acks):
    """What is leased for it is requeued; with an old lease it does not know."""
    item = rival.lease(seconds=600)
    hurried = open_queue(TimedDatabase(meddled, lambda: 3.0))
    left = []

    def leave_before():
        requests = requests_of(rival)
        if not requests:
            rival.pop()
        elif not left:
            if is_served:
                rival.pop()
            wait_until(asking.done, SOON_SECONDS)
            left.append(True)

    meddled.meddle = leave_before
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(hurried.lease_many, 1, seconds=600, ack=[item] if acks else [])
        with pytest.raises(OutcomeUnknown if acks else DeadlineExceeded) as caught:
            asking.result(SOON_SECONDS)
    assert caught.value.outcome_known is not acks
    combiner = hurried.parts.group.poppers["min"].combiner
    wait_until(lambda: left and not combiner.is_busy and not combiner.in_line)
    still_held = [] if acks and is_served else [item.value]
    wait_until(lambda: values(assert_counted(rival)["leased"]) == still_held)


def test_a_corrupt_item_refuses_a_request_that_ends_a_lease(rival, database, subspace):
    """Nothing of it is done; the client that asked finds the item itself."""
    item = rival.lease(seconds=600)
    third = rival.peek_many(3)[2].id
    key = subspace.key() + rival.parts.store.keys.place_named(third)
    run(database, lambda tr: tr.set(key, b"\xff"))
    ask(
        rival, "min", 2, lease_us=MINUTE_US, lease_keys=packed_lease_keys([_lease_key(rival, item)])
    )
    assert rival.pop().value == 1
    (refused,) = requests_of(rival)
    assert (refused.refused, refused.lease_keys) == (True, b"")
    assert rival.pop().value == 2
    with pytest.raises(CorruptItem):
        rival.pop()
    rival.ack(item)
    rival.bury(third)
    assert_counted(rival)


class Later(JsonCodec):
    """The codec of a version that reads nothing that the former one has written."""

    def decode(self, data):
        raise ValueError("it was written by an earlier version")


@pytest.mark.parametrize("acks", [False, True])
def test_what_this_process_cannot_decode_is_requeued(meddled, database, subspace, acks):
    """Although the one that helped could: it stays leased by nobody, and is the error."""
    rival = FifoQueue(another(database), subspace)
    rival.push_many(range(40))
    queue = FifoQueue(meddled, subspace, codec=Later())
    old = rival.lease(seconds=600)
    taken = []
    meddled.meddle = popping(rival, taken)
    if acks:
        assert queue.lease_many(1, ack=[old], seconds=600) == []
    else:
        with pytest.raises(CorruptItem):
            queue.lease(seconds=600)
    meddled.meddle = lambda: None
    states = assert_counted(rival)
    assert len(states["leased"]) == (0 if acks else 1)
    assert len(states["ready"]) == 39 - len(taken)


def test_more_than_a_row_can_name_is_refused(rival):
    """A client of ours does not ask for so much; nothing breaks where one does."""
    fill(rival, 2_700)
    ask(rival, "min", 2_700, lease_us=MINUTE_US)
    assert rival.pop().value == 0
    (refused,) = requests_of(rival)
    assert refused.refused
    assert rival.pop().value == 1
    assert len(assert_counted(rival)["ready"]) == 2_738


def test_long_names_are_not_asked_for(queue, rival, meddled):
    """Leases whose names a row cannot hold end when the items are collected."""
    fill(rival, 1_000)
    old = rival.lease_many(1_000, seconds=600)
    assert len(packed_lease_keys(_lease_key(rival, item) for item in old)) > MAX_ASKED_KEYS_BYTES
    meddled.meddle = popping(rival, [])
    found = queue.lease_many(1, seconds=600, ack=old)
    assert len(assert_counted(rival)["leased"]) == len(found) == 1
