"""Hidden items in the order of time: dead letters as they died, leases and delays as they end."""

from __future__ import annotations

import pytest

from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import FifoQueue, run
from fdbqueue.service.tools.streams import scan_by_moment
from tests.cases import cases
from tests.concurrency.census import assert_counted

MINUTE = 60


@pytest.fixture
def queue(kind, database, subspace, clock):
    """A queue of twelve items, for which the time stands still."""
    queue = kind.open(database, subspace, max_attempts=1)
    values = [kind.value(str(number)) for number in range(12)]
    queue.push_many(kind.pairs(values, [kind.priorities[0]] * 12))
    return queue


def walk(queue, limit=5, state="dead", end="max", order="time"):
    """Return the ids of all items of a list, a page at a time."""
    found, after = [], None
    while True:
        page = queue.page(state=state, order=order, end=end, after=after, limit=limit)
        assert len(page.items) <= limit
        found += [item.id for item in page.items]
        after = page.cursor
        if after is None:
            return found


def in_any_way(queue, clock):
    """Let six items die, a minute apart, in every way there is; return their ids as they died."""
    items = queue.lease_many(6, seconds=MINUTE)
    queue.nack(items[5], reason="given up")
    clock.advance(1)
    queue.nack_many([items[4]], reason="given up, of many")
    clock.advance(1)
    ready = queue.page(limit=1).items[0].id
    queue.bury(ready, reason="buried")
    clock.advance(MINUTE)
    expired = sorted(item.id for item in items[:4])
    queue.nack(queue.lease(), reason="the next worker requeues what has expired")
    return [items[5].id, items[4].id, ready], expired


def test_every_way_to_die_is_in_the_order_of_deaths(queue, clock):
    """Given up alone and together, buried, and expired: the newest first, and the reverse."""
    first, expired = in_any_way(queue, clock)
    found = walk(queue, end="min")
    assert found[:3] == first
    assert expired == sorted(set(found[3:]) & set(expired))
    assert walk(queue) == found[::-1]
    assert walk(queue, limit=1) == found[::-1]
    assert len(found) == 8
    assert_counted(queue)


def test_what_leaves_the_dead_letters_leaves_their_order(queue, clock):
    """Redriven, removed, purged by reason and in bulk, moved away, cleared."""
    for item in queue.lease_many(12):
        queue.nack(item, reason=f"number {len(walk(queue)) % 2}")
        clock.advance(1)
    found = walk(queue)
    queue.redrive(found[:1])
    queue.remove(found[1])
    assert queue.remove_many(found[2:4]) == 2
    assert walk(queue) == found[4:]
    assert_counted(queue)
    removed = queue.clear_state("dead", reason="number 0")
    assert 0 < removed == 8 - len(walk(queue))
    assert queue.redrive(reason="number 1", limit=2) == 2
    assert len(walk(queue)) == 6 - removed
    assert_counted(queue)
    queue.bury(queue.peek().id)
    assert queue.clear_state("dead") == 7 - removed
    assert walk(queue) == []
    assert_counted(queue)
    queue.bury(queue.peek().id)
    queue.clear()
    assert walk(queue) == []
    assert_counted(queue)


def test_many_deaths_at_one_moment(queue):
    """Their order is that of their places, and each is on one page."""
    items = queue.lease_many(12)
    queue.nack_many(items)
    places = [item.id for item in queue.iterate(state="dead")]
    assert walk(queue, end="min", limit=5) == places
    assert walk(queue, end="max", limit=5) == places[::-1]


def test_pages_stay_right_while_letters_come_and_go(queue, clock):
    """A cursor is a moment and a place, whether or not the letter is still there."""
    ids = []
    for item in queue.lease_many(10):
        queue.nack(item)
        ids.insert(0, item.id)
        clock.advance(1)
    page = queue.page(state="dead", order="time", end="max", limit=4)
    assert [item.id for item in page.items] == ids[:4]
    queue.remove(ids[3])
    queue.redrive([ids[5]])
    queue.bury(queue.peek().id)
    after = queue.page(state="dead", order="time", end="max", limit=9, after=page.cursor)
    assert [item.id for item in after.items] == [ids[4], *ids[6:]]
    assert after.cursor is None


# Leases and delays


def test_leases_and_delays_as_they_end(fifo):
    """Each state alone, though they share their index."""
    delayed = [fifo.push(n, delay=(9 - n) * MINUTE).id for n in range(4)]
    fifo.push_many(range(3))
    leased = [fifo.lease(seconds=minutes * MINUTE).id for minutes in (9, 2, 4)]
    assert walk(fifo, state="delayed", end="min", limit=3) == delayed[::-1]
    assert walk(fifo, state="delayed", end="max", limit=3) == delayed
    assert walk(fifo, state="leased", end="min", limit=2) == [leased[1], leased[2], leased[0]]
    assert [item.id for item in fifo.iterate(state="leased", order="time")] == [
        leased[1],
        leased[2],
        leased[0],
    ]


# Refusals and cost


@cases(
    "arguments",
    [
        {"order": "time"},
        {"order": "time", "state": "ready"},
        {"order": "age", "state": "dead"},
        {"order": None, "state": "dead"},
        {"order": "time", "state": "gone"},
        {"order": "time", "state": "dead", "after": "nope"},
        {"order": "time", "state": "dead", "after": "12"},
        {"order": "time", "state": "dead", "after": "12-~"},
        {"order": "time", "state": "dead", "after": "-12-AA"},
        {"order": "time", "state": "dead", "after": "9" * 19 + "-AA"},
        {"order": "time", "state": "dead", "after": 12},
    ],
)
def test_what_cannot_be_is_refused(fifo, arguments):
    """An order that there is not, or that the items do not have; and positions of no list."""
    fifo.push("a")
    fifo.bury(fifo.peek().id)
    with pytest.raises(InvalidInput):
        fifo.page(**arguments)


def test_the_orders_do_not_share_positions(fifo):
    """An id is no position in the order of time, nor the other way round."""
    fifo.push_many(range(3))
    for item in list(fifo):
        fifo.bury(item.id)
    by_time = fifo.page(state="dead", order="time", limit=1).cursor
    by_place = fifo.page(state="dead", limit=1).cursor
    with pytest.raises(InvalidInput):
        fifo.page(state="dead", after=by_time)
    with pytest.raises(InvalidInput):
        fifo.page(state="dead", order="time", after=by_place)


def test_a_death_and_its_end_read_nothing_more(observed, subspace):
    """The rows are written and removed blindly; a page reads by its rows, not by the queue."""
    queue = FifoQueue(observed, subspace, max_attempts=1)

    def reads(act):
        observed.reads.clear()
        act()
        return len(observed.reads)

    queue.push_many(range(40))
    ids = [item.id for item in queue]
    queue.bury(ids[0])
    assert reads(lambda: queue.bury(ids[1])) <= 3
    assert reads(lambda: queue.redrive([ids[1]])) <= 6
    for item_id in ids[1:20]:
        queue.bury(item_id)
    few = reads(lambda: queue.page(state="dead", order="time", end="max", limit=10))
    for item_id in ids[20:]:
        queue.bury(item_id)
    assert reads(lambda: queue.page(state="dead", order="time", end="max", limit=10)) == few <= 24


def test_deaths_at_once_do_not_conflict(fifo, database):
    """The index is written without a read."""
    items = [fifo.push(number) for number in range(3)]
    transactions = [database.create_transaction() for _ in items]
    for item, transaction in zip(items, transactions, strict=True):
        fifo.bury(item.id, tr=transaction)
    for transaction in transactions:
        transaction.commit().wait()
    assert len(walk(fifo)) == 3
    assert_counted(fifo)


def test_a_letter_whose_key_is_too_long_is_listed_by_its_place(database, subspace):
    """Another program pushed it; it has no row in the order of time."""
    fifo = FifoQueue(database, subspace)
    key = subspace.pack((1, b"x" * (9_995 - len(subspace.pack((1, b""))))))
    run(database, lambda tr: tr.set(key, b'{"v": 1}'))
    (item,) = fifo.page().items
    assert len(key) < 10_000
    fifo.bury(item.id)
    fifo.push("usual")
    fifo.bury(fifo.peek().id)
    assert len(walk(fifo, order="place")) == 2
    assert len(walk(fifo)) == 1
    fifo.remove(item.id)
    assert fifo.counts().dead == len(walk(fifo)) == 1


def test_a_search_by_death(fifo, clock):
    """It finds what matches, the newest first, from a position on."""
    fifo.push_many(range(30))
    for item in list(fifo):
        fifo.bury(item.id)
        clock.advance(1)

    def search(tr, after=None):
        return scan_by_moment(
            fifo,
            lambda item: item.value % 5 == 0,
            state="dead",
            tr=tr,
            most_found=4,
            most_looked_at=100,
            after=after,
            is_backward=True,
        )

    found = run(fifo.database, search, read_only=True)
    assert [item.value for _passed, item in found.found] == [25, 20, 15, 10]
    rest = run(fifo.database, lambda tr: search(tr, found.cursor), read_only=True)
    assert [item.value for _passed, item in rest.found] == [5, 0]
