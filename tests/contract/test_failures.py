"""The last three failures of an item: when, who held the lease, and why."""

from __future__ import annotations

import datetime

import pytest

from fdbqueue.service import Failure, FifoQueue, PriorityQueue
from fdbqueue.service.storage.store import ItemStore
from tests.concurrency.census import assert_counted, with_failures
from tests.concurrency.clients import another

SECOND = datetime.timedelta(seconds=1)


@pytest.fixture
def queue(kind, database, subspace, clock):
    """A queue of one item, for which the time stands still."""
    queue = kind.open(database, subspace, max_attempts=5)
    queue.push_many(kind.pairs([kind.value("a")], [kind.priorities[0]]))
    return queue


def fail(queue, *reasons, worker="w"):
    """Lease the first item and give it up, once for each reason; return its id."""
    for reason in reasons:
        item = queue.lease(worker=worker)
        queue.nack(item, reason=reason)
    return item.id


def said(item):
    """Return the attempt, the worker and the reason of each failure."""
    return [(one.attempt, one.worker, one.reason) for one in item.failures]


def test_the_last_three_are_kept(queue, clock):
    """The latest last, each with its time, its worker and its reason."""
    began = queue.peek().pushed_at
    item_id = ""
    for number, worker in enumerate(["w1", None, "w3", "w4", "w5"], 1):
        clock.advance(1)
        item_id = fail(queue, f"reason {number}", worker=worker)
        found = queue.get(item_id)
        assert [one.attempt for one in found.failures] == list(range(1, number + 1))[-3:]
    assert found.state == "dead"
    assert said(found) == [(3, "w3", "reason 3"), (4, "w4", "reason 4"), (5, "w5", "reason 5")]
    times = [one.at for one in found.failures]
    assert times[1] - times[0] == times[2] - times[1] == SECOND
    assert times[2] == found.died_at
    if began is not None:
        assert found.died_at - began == 5 * SECOND
    assert queue.page(state="dead").items == [found]
    assert list(queue.iterate(state="dead")) == [found]
    assert_counted(queue)


def test_a_lease_that_expires_is_a_failure(queue, clock):
    """It names the worker that held the lease, not the popper that found it expired; and when."""
    item = queue.lease(seconds=30, worker="gone")
    clock.advance(31)
    queue.lease(worker="next")
    found = queue.get(item.id)
    assert said(found) == [(1, "gone", "its lease expired")]
    assert isinstance(found.failures[0], Failure)
    assert found.failures[0].at == item.until
    assert found.failures[0].leased_at == item.until - 30 * SECOND


def test_many_that_are_given_up_at_once(kind, database, subspace):
    """Each has its failure."""
    queue = kind.open(database, subspace)
    queue.push_many(kind.pairs([kind.value(text) for text in "abc"], [kind.priorities[0]] * 3))
    items = queue.lease_many(3, worker="w")
    assert queue.nack_many(items, reason="all", delay=5) == 3
    for item in items:
        found = queue.get(item.id)
        assert (found.state, said(found)) == ("delayed", [(1, "w", "all")])


def test_only_get_and_the_pages_of_the_dead_return_them(queue):
    """Other verbs need no read more."""
    item_id = fail(queue, "one")
    assert said(queue.get(item_id)) == [(1, "w", "one")]
    assert queue.page().items[0].failures == queue.peek().failures == ()
    assert queue.lease().failures == ()


def test_how_they_end(queue, clock):
    """With the item, in whatever way it leaves; and with a redrive, as the attempts do."""
    item_id = fail(queue, "one", "two")
    queue.bury(item_id)
    assert said(queue.get(item_id)) == [(1, "w", "one"), (2, "w", "two")]
    queue.redrive([item_id])
    assert said(queue.get(item_id)) == []
    assert with_failures(queue) == set()
    fail(queue, "three")
    assert said(queue.get(item_id)) == [(1, "w", "three")]


def _ack(queue, item_id):
    queue.ack(queue.lease())


def _ack_many(queue, item_id):
    assert queue.ack_many([queue.lease()]) == 1


def _ack_with_a_lease(queue, item_id):
    assert queue.lease_many(1, ack=[queue.lease()]) == []


def _pop_expired(queue, item_id):
    queue.lease(seconds=0.000_001)
    assert queue.pop().attempts == 3


def _bury_and(remove):
    def bury(queue, item_id):
        queue.bury(item_id)
        remove(queue, item_id)

    return bury


WAYS_OUT = {
    "pop": lambda queue, _: queue.pop(),
    "pop_many": lambda queue, _: queue.pop_many(5),
    "ack": _ack,
    "ack_many": _ack_many,
    "lease_many(ack=)": _ack_with_a_lease,
    "pop of what has expired": _pop_expired,
    "remove": lambda queue, item_id: queue.remove(item_id),
    "remove_many": lambda queue, item_id: queue.remove_many([item_id]),
    "clear_state": lambda queue, _: queue.clear_state("ready"),
    "clear": lambda queue, _: queue.clear(),
    "remove the dead": _bury_and(lambda queue, item_id: queue.remove(item_id)),
    "clear the dead": _bury_and(lambda queue, _: queue.clear_state("dead")),
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_nothing_stays_behind_an_item(kind, database, subspace, everything, way):
    """No failure is left when the item is gone."""
    queue = kind.open(database, subspace)
    queue.push(kind.value("a"), kind.priorities[0]) if not kind.is_fifo else queue.push(
        kind.value("a")
    )
    WAYS_OUT[way](queue, fail(queue, "one", "two"))
    assert with_failures(queue) == set()
    assert not any(assert_counted(queue).values())


def test_a_moved_item_leaves_them_behind(database, subspace):
    """It keeps its attempts, and the failures are those of the old queue."""
    source, target = (FifoQueue(database, subspace[name]) for name in ("source", "target"))
    source.push("x")
    fail(source, "one")
    assert source.move_many(target, 1) == 1
    assert with_failures(source) == with_failures(target) == set()
    moved = target.peek()
    assert moved.attempts == 1
    fail(target, "two")
    assert said(target.get(moved.id)) == [(2, "w", "two")]


@pytest.mark.parametrize("adopted", [False, True], ids=["", "settings"])
def test_a_pop_that_is_undone_keeps_them(database, subspace, adopted):
    """For a thread that has gone: also if the queue has other settings by then."""
    queue = FifoQueue(database, subspace)
    queue.push_many(["tried", "not tried"])
    item_id = fail(queue, "one", "two")
    before = said(queue.get(item_id))
    consumer = queue.parts.consumer
    (items,) = consumer.take_now(consumer.pop_request("min", 2, None))
    if adopted:
        queue = FifoQueue(another(database), subspace, shards=4)
        queue.adopt_settings()
    consumer.requeue_popped(items)
    assert said(queue.get(item_id)) == before == [(1, "w", "one"), (2, "w", "two")]
    taken = queue.pop_many(2)
    assert [item.attempts for item in taken] == [2, 0]


def test_an_item_that_was_never_tried_costs_nothing(database, subspace, monkeypatch):
    """Nothing is cleared for it when it leaves."""
    cleared = []
    store = FifoQueue(database, subspace).parts.store
    monkeypatch.setattr(
        type(store.failures), "remove", lambda self, tr, place: cleared.append(place)
    )
    for queue in (FifoQueue(database, subspace["f"]), PriorityQueue(database, subspace["p"])):
        queue.push_many([1, 2, 3, 4] if queue.kind == "fifo" else [(1, 1)] * 4)
        queue.pop()
        queue.ack(queue.lease())
        queue.clear_state("ready")
        assert cleared == []
    assert isinstance(store, ItemStore)


def test_a_long_text_is_kept_to_1000_characters(fifo):
    """Whatever characters these are."""
    fifo.push("x")
    item_id = fail(fifo, "\U0001f600" * 2_000, "\ud800", worker="\u00e9" * 200)
    first, second = fifo.get(item_id).failures
    assert (first.reason, first.worker) == ("\U0001f600" * 1_000, "\u00e9" * 200)
    assert second.reason == "?"


@pytest.mark.nightly
def test_a_page_of_the_dead_is_bounded_by_their_failures(fifo):
    """Up to 10,000 dead letters come in several pages, and none is passed over."""
    fifo.push_many(range(1_500))
    while items := fifo.lease_many(500, seconds=600):
        fifo.nack_many(items, reason="no")
        for item in items:
            fifo.bury(item.id)
    pages, after = [], None
    while not pages or after is not None:
        page = fifo.page(state="dead", after=after, limit=10_000)
        pages.append(page.items)
        after = page.cursor
    assert len(pages) > 1
    assert [item.value for items in pages for item in items] == list(range(1_500))
    assert all(said(item) == [(1, None, "no")] for item in pages[-1])
