"""Waiting for items: woken by what happens, asking for nothing meanwhile."""

from __future__ import annotations

import math
import threading
import time

import pytest

from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import FifoQueue, PriorityQueue, run
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another, together
from tests.contract.recipes import PythonQueue
from tests.engines.children import wait_until

pytestmark = pytest.mark.usefixtures("only_woken")

LONG_SECONDS = 60


def clipped(value):
    """Return what a test is called after a number."""
    return str(value)[:8]


@pytest.fixture
def waiting(observed, subspace, pool):
    """Let a thread wait for an item of a queue, once that is what it does."""

    def wait(operation="pop", queue=None, **options):
        queue = queue or FifoQueue(observed, subspace)
        found = pool.submit(getattr(queue, operation), wait=LONG_SECONDS, **options)
        # On a busy machine there may be something by then.
        wait_until(lambda: observed.watching.is_set() or found.done())
        return found

    return wait


def released(observed):
    """Whether every watch has fired or was cancelled."""
    return all(watch.is_ready() for watch in observed.watches)


@pytest.mark.parametrize("wait", [0, 0.5, LONG_SECONDS, 1e300, math.inf, 10**400], ids=clipped)
def test_what_is_there_is_returned_at_once(observed, subspace, wait):
    """However long one would have waited: nothing is watched."""
    fifo = FifoQueue(observed, subspace)
    fifo.push_many(range(5))
    assert fifo.pop(wait=wait).value == 0
    assert fifo.pop_max(wait=wait).value == 4
    assert [item.value for item in fifo.pop_many(2, wait=wait)] == [1, 2]
    assert fifo.lease(wait=wait).value == 3
    assert observed.watches == []


@pytest.mark.parametrize("wait", [0, 0.05])
def test_nothing_comes_of_an_empty_queue(fifo, wait):
    """None, or no items, when the time is over and not before."""
    for operation, nothing in (
        (lambda: fifo.pop(wait=wait), None),
        (lambda: fifo.lease_max(wait=wait), None),
        (lambda: fifo.pop_many(3, wait=wait), []),
        (lambda: fifo.lease_many(3, wait=wait), []),
    ):
        began = time.monotonic()
        assert operation() == nothing
        assert time.monotonic() - began >= wait
    with fifo.leased(wait=wait) as item:
        assert item is None


@pytest.mark.parametrize("operation", ["pop", "pop_max", "lease", "lease_max"])
@pytest.mark.parametrize("who", ["same queue", "same client", "another client"])
def test_a_push_wakes_who_waits(database, observed, subspace, waiting, operation, who):
    """Whichever thread or client pushes."""
    queue = FifoQueue(observed, subspace)
    pusher = {
        "same queue": queue,
        "same client": FifoQueue(observed, subspace),
        "another client": FifoQueue(another(database), subspace),
    }[who]
    found = waiting(operation, queue)
    pusher.push("x")
    assert found.result(LONG_SECONDS).value == "x"
    assert released(observed)


@pytest.mark.parametrize("how", ["nack", "redrive", "nack later", "delayed push", "lease ran out"])
def test_whatever_comes_back_wakes_who_waits(fifo, waiting, how):
    """At once where it is ready at once, at its time where it has one, told of while waiting."""
    fifo.push("x")
    item = fifo.peek() if how == "redrive" else fifo.lease()
    if how == "redrive":
        fifo.bury(item.id)
    elif how in {"delayed push", "lease ran out"}:
        fifo.ack(item)
    found = waiting("pop")
    if how == "nack":
        fifo.nack(item)
    elif how == "nack later":
        fifo.nack(item, delay=0.2)
    elif how == "redrive":
        fifo.redrive()
    elif how == "delayed push":
        fifo.push("x", delay=0.2)
    else:
        transaction = fifo.database.create_transaction()
        fifo.push("x", tr=transaction)
        fifo.lease(seconds=0.2, tr=transaction)
        transaction.commit().wait()
    assert found.result(LONG_SECONDS).value == "x"
    assert_counted(fifo)


@pytest.mark.parametrize("limits", [{}, {"max_leased": 1}], ids=str)
def test_a_lease_that_is_shortened_wakes_who_waits(observed, subspace, waiting, limits):
    """Who waits at a limit does not watch the ready items, and learns of the new time, too."""
    queue = FifoQueue(observed, subspace, **limits)
    queue.push_many("xy"[: 1 + len(limits)])
    item = queue.lease(seconds=600)
    found = waiting("lease", queue)
    queue.extend(item, 0.2)
    assert found.result(LONG_SECONDS / 2).value == "x"  # before it looks for the last time
    assert_counted(queue)


def test_a_lease_that_takes_the_place_of_a_longer_one_wakes_who_waits(observed, subspace, waiting):
    """Who waits at a limit learns of the new time, though as many items are leased as before."""
    queue = FifoQueue(observed, subspace, max_leased=1)
    queue.push_many("xyz")
    item = queue.lease(seconds=600)
    found = waiting("lease", queue)
    assert [one.value for one in queue.lease_many(1, seconds=0.2, ack=[item])] == ["y"]
    assert found.result(LONG_SECONDS / 2).value == "y"  # before it looks for the last time
    assert_counted(queue)


def test_who_waits_asks_for_nothing(observed, subspace):
    """In a second without events there are a few reads at its ends, none in between."""
    queue = FifoQueue(observed, subspace)
    assert queue.pop(wait=1.0) is None
    assert observed.transactions <= 4
    assert len(observed.reads) <= 8
    assert len(observed.watches) == 1


def test_many_who_wait_share_one_watch(observed, subspace):
    """They cost the database what one of them costs."""
    queue = PriorityQueue(observed, subspace)
    assert together(32, lambda _: queue.pop(wait=0.3)) == [None] * 32
    assert len(observed.watches) <= 3
    assert len(observed.reads) <= 32 * 8  # and not one for each moment of the wait
    assert released(observed)


@pytest.mark.nightly
def test_a_foreign_push_is_noticed_in_time(database, observed, subspace, waiting, monkeypatch):
    """The recipes change no count: one look in five seconds finds what they pushed."""
    monkeypatch.setattr("fdbqueue.service.consume.waiting.UNWOKEN_LOOK_SECONDS", 5.0)
    found = waiting("pop", FifoQueue(observed, subspace, codec="bytes"))
    reads = len(observed.reads)
    PythonQueue(database, subspace).enqueue(b"theirs")
    assert found.result(LONG_SECONDS).value == b"theirs"
    assert len(observed.reads) - reads <= 6


def test_a_watch_is_released_when_the_wait_ends(observed, subspace):
    """Whether something came or not: after 200 waits in sequence none is left."""
    queue = FifoQueue(observed, subspace)
    for number in range(200):
        if number % 10 == 0:
            queue.push(number)
        found = queue.pop(wait=0.002)
        assert (found is not None) is (number % 10 == 0)
        assert released(observed)
    assert observed.watches


def test_a_transaction_does_not_wait(fifo, database):
    """It would see nothing new: to ask for both is refused, also where there is an item."""
    fifo.push("x")
    transaction = database.create_transaction()
    for wait in (0, 1):
        for operation in (
            lambda wait=wait: fifo.pop(wait=wait, tr=transaction),
            lambda wait=wait: fifo.pop_max(wait=wait, tr=transaction),
            lambda wait=wait: fifo.pop_many(2, wait=wait, tr=transaction),
            lambda wait=wait: fifo.lease(wait=wait, tr=transaction),
            lambda wait=wait: fifo.lease_max(wait=wait, tr=transaction),
            lambda wait=wait: fifo.lease_many(2, wait=wait, tr=transaction),
        ):
            with pytest.raises(InvalidInput):
                operation()
    assert fifo.pop(wait=None, tr=transaction).value == "x"


@pytest.mark.parametrize("operation", ["pop_many", "lease_many"])
def test_who_does_not_want_to_wait_any_more_takes_nothing(fifo, waiting, operation):
    """What comes when the wait has been given up stays for somebody else."""
    wanted = threading.Event()
    wanted.set()
    found = waiting(operation, count=1, waits_while=wanted.is_set)
    wanted.clear()
    item = fifo.push("kept")
    assert found.result(LONG_SECONDS) == []
    assert assert_counted(fifo)["ready"] == [item]


@pytest.mark.parametrize("operation", ["pop_many", "lease_many"])
def test_a_transaction_takes_nothing_that_is_not_wanted(fifo, database, operation):
    """Nothing is saved under the key, either."""
    item = fifo.push("kept")
    options = {"once": "key", "waits_while": lambda: False}
    assert run(database, lambda tr: getattr(fifo, operation)(1, tr=tr, **options)) == []
    assert assert_counted(fifo)["ready"] == [item]
    options["waits_while"] = lambda: True
    (found,) = run(database, lambda tr: getattr(fifo, operation)(1, tr=tr, **options))
    assert found.id == item.id


def test_a_wait_that_is_given_up_ends_without_an_item(fifo, waiting, observed):
    """Nothing has to happen in the queue for it to be noticed."""
    wanted = threading.Event()
    wanted.set()
    found = waiting("pop_many", count=1, waits_while=wanted.is_set)
    wanted.clear()
    assert found.result(LONG_SECONDS) == []
    wait_until(lambda: released(observed))


def test_an_answer_is_not_kept_of_a_wait_that_was_given_up(fifo, waiting):
    """The same call made again gets what has come meanwhile."""
    wanted = threading.Event()
    wanted.set()
    found = waiting("pop_many", count=1, waits_while=wanted.is_set, once="key")
    wanted.clear()
    assert found.result(LONG_SECONDS) == []
    item = fifo.push("late")
    assert fifo.pop_many(1, once="key") == [item]


@pytest.mark.parametrize("operation", ["pop_many", "lease_many"])
@pytest.mark.parametrize("wait", [None, LONG_SECONDS])
def test_who_gave_up_before_the_first_take_takes_nothing(fifo, operation, wait):
    """What is there stays there, and the key is not used."""
    fifo.push_many(range(3))
    take = getattr(fifo, operation)
    assert take(2, wait=wait, waits_while=lambda: False, once="key") == []
    assert (fifo.size(), fifo.counts().leased) == (3, 0)
    assert [item.value for item in take(2, wait=wait, waits_while=lambda: True, once="key")] == [
        0,
        1,
    ]
