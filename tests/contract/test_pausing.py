"""Pausing a queue: nothing is taken until it is resumed, and everything else goes on."""

from __future__ import annotations

import datetime

import pytest

from fdbqueue.service import FifoQueue, IdempotencyKey, PriorityQueue, Worker, pauses_of, run
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another
from tests.concurrency.kinds import KINDS
from tests.concurrency.requests import ask, requests_of
from tests.contract.conftest import Meddled
from tests.engines.children import wait_until

SOON_SECONDS = 60


@pytest.fixture(params=KINDS, ids=str)
def filled(request, database, subspace):
    """A queue of any kind with six items."""
    kind = request.param
    queue = kind.open(database, subspace)
    levels = sorted(kind.priorities, key=str) * 6
    queue.push_many(kind.pairs([kind.value(str(n)) for n in range(6)], levels[:6]))
    return queue


@pytest.fixture
def paused(filled):
    """A queue of any kind, with six items and paused."""
    filled.pause(reason="a test")
    return filled


def takes(queue, **options):
    """Return each way of taking an item, called once."""
    return [
        lambda: queue.pop(**options),
        lambda: queue.pop_max(**options),
        lambda: queue.pop_many(3, **options),
        lambda: queue.lease(**options),
        lambda: queue.lease_max(**options),
        lambda: queue.lease_many(2, **options),
    ]


def test_nothing_is_taken_from_a_paused_queue(paused):
    """Whatever takes, at either end, finds nothing; items are seen and counted as before."""
    assert not any(take() for take in takes(paused))
    run(paused.database, lambda tr: [paused.pop(tr=tr), paused.lease_max(tr=tr)])
    assert paused.size() == len(paused.page().items) == 6
    assert paused.peek() is not None
    assert_counted(paused)


def test_since_when_and_why_is_kept(fifo):
    """A second pause gives another reason; the time stays."""
    assert fifo.paused() is None
    before = datetime.datetime.now(datetime.timezone.utc)
    pause = fifo.pause(reason="<deploy> é")
    assert pause.reason == "<deploy> é"
    assert abs(pause.since - before) < datetime.timedelta(seconds=SOON_SECONDS)
    assert fifo.paused() == pause
    again = fifo.pause(reason="x" * 5_000)
    assert again.since == pause.since
    assert fifo.paused().reason == "x" * 1_000


def test_pauses_of_many_queues_are_read_at_once(database, subspace):
    """Each has its own."""
    queues = [FifoQueue(database, subspace[n]) for n in range(3)]
    queues[1].pause(reason="one")
    found = run(database, lambda tr: pauses_of(tr, queues), read_only=True)
    assert [pause and pause.reason for pause in found] == [None, "one", None]


def test_a_popper_whose_commit_comes_after_the_pause_finds_nothing(database, subspace):
    """Its own retry sees the pause."""
    other = FifoQueue(another(database), subspace)
    other.push_many(range(5))
    meddled = Meddled(database)
    queue = FifoQueue(meddled, subspace)
    meddled.meddle = lambda: other.pause() if other.paused() is None else None
    assert queue.pop() is None
    assert other.size() == 5


def test_what_expires_while_a_queue_is_paused_returns_when_it_is_resumed(fifo, clock):
    """Until then even a late worker may acknowledge."""
    fifo.push_many(range(3))
    first, second = fifo.lease_many(2, seconds=1)
    fifo.push("later", delay=1)
    fifo.pause()
    clock.advance(5)
    assert fifo.pop_many(5) == []
    assert fifo.counts().leased == 2
    fifo.ack(first)
    fifo.resume()
    assert [item.value for item in fifo.pop_many(5)] == [second.value, 2, "later"]
    assert_counted(fifo)


def test_a_saved_response_is_returned_while_the_queue_is_paused(fifo):
    """The first call took the item; under a new key nothing is found, and that is saved."""
    fifo.push_many(range(3))
    item = fifo.pop_many(1, once="a")
    fifo.pause()
    assert fifo.pop_many(1, once="a") == item
    key = IdempotencyKey("b")
    assert fifo.pop_many(1, once=key) == []
    fifo.resume()
    assert fifo.pop_many(1, once=key) == []
    assert key.replayed


@pytest.mark.parametrize("lease_us", [0, 60_000_000])
def test_a_process_that_asked_for_help_is_told_of_an_empty_queue(fifo, ask_and_die, lease_us):
    """The next popper answers its request, and takes nothing for it."""
    fifo.push_many(range(3))
    ask(fifo, "min", 2, lease_us=lease_us)
    fifo.pause()
    assert fifo.pop() is None
    assert all(one.is_handed for one in requests_of(fifo))
    assert fifo.size() == 3


def test_a_worker_follows_a_pause(fifo, pool):
    """It works on nothing while the queue is paused, and goes on when it is resumed."""
    done = []
    fifo.push("a")
    worker = Worker(fifo, done.append, follow=True)
    found = pool.submit(worker.run)
    wait_until(lambda: worker.handled == 1, SOON_SECONDS)
    fifo.pause()
    fifo.push("b")
    assert not fifo.wait_for_items(0.5)
    assert worker.handled == 1
    fifo.resume()
    wait_until(lambda: worker.handled == 2, SOON_SECONDS)
    worker.stop()
    found.result(SOON_SECONDS)


def test_a_move_takes_nothing_from_a_paused_queue(database, subspace):
    """Into a paused queue it pushes, as any push does."""
    source, target = FifoQueue(database, subspace["a"]), FifoQueue(database, subspace["b"])
    source.push_many(range(3))
    source.pause()
    assert source.move_many(target, 3) == 0
    source.resume()
    target.pause()
    assert source.move_many(target, 3) == 3
    assert target.pop() is None


def test_removing_all_items_leaves_a_queue_paused(fifo):
    """Otherwise the poppers that the pause is to stop would take what is pushed next."""
    fifo.push("a")
    pause = fifo.pause(reason="broken")
    fifo.clear()
    assert fifo.paused() == pause
    fifo.push("b")
    assert fifo.pop() is None


def test_a_queue_that_is_not_paused_reads_nothing_more(observed, subspace):
    """A pop reads a range of state and a range of items; a push its tail and its format."""
    queue = PriorityQueue(observed, subspace)
    for _ in range(2):
        queue.push("a", 1)
    observed.reads.clear()
    queue.push("a", 1)
    assert len(observed.reads) == 3
    observed.reads.clear()
    queue.pop()
    assert observed.reads == ["get_range", "get_range"]


def test_a_pause_that_others_wrote_is_read_all_the_same(fifo):
    """However short or odd its bytes are."""
    key = fifo.parts.store.tables.paused
    for stored in (b"", b"\x00", b"\xff" * 8, bytes(8) + b"\xff\xfe"):
        run(fifo.database, lambda tr, stored=stored: tr.set(key, stored), wrote=lambda _: True)
        assert fifo.paused() is not None
        assert fifo.pop() is None
