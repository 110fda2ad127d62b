"""How many queues are, asked at once: the same as asked one by one, in few reads."""

from __future__ import annotations

import fdb.tuple
import pytest
from fdb.subspace_impl import Subspace

from fdbqueue.exceptions import CorruptItem
from fdbqueue.service import FifoQueue, PriorityQueue, Undecodable, run
from fdbqueue.service.browse import Ends, Overview, counts_of, depths, ends_of, figures
from fdbqueue.service.clock import moment
from fdbqueue.service.storage.counts import Counts, Minute

MINUTE_US = 60_000_000


@pytest.fixture
def several(observed, subspace):
    """Queues of each kind and codec, through a database that is observed."""
    return [
        FifoQueue(observed, Subspace(("fifo",), subspace.key())),
        PriorityQueue(observed, Subspace(("priority",), subspace.key())),
        FifoQueue(observed, Subspace(("bytes",), subspace.key()), codec="bytes"),
        FifoQueue(observed, Subspace(("empty",), subspace.key())),
    ]


def fill(queues, clock):
    """Push into all but the last, the oldest first."""
    fifo, priority, raw, _ = queues
    fifo.push_many(["a", "b", "c"])
    priority.push("old", 9)
    clock.advance(90)
    priority.push("new", 1)
    raw.push(b"x")
    fifo.pop()
    fifo.lease()


def histories_of(tr, queues, minutes):
    """Return the last minutes of queues."""
    return figures(tr, queues, lambda overview, tr: overview.begin_history(tr, minutes))


def oldest_of(tr, queues):
    """Return when the oldest ready item of queues was pushed."""
    return [result() for result in figures(tr, queues, Overview.begin_oldest)]


def test_many_queues_say_together_what_each_says_alone(several, observed, clock):
    """Counts, history and the oldest, of queues of every kind."""
    fill(several, clock)
    found = run(
        observed,
        lambda tr: (counts_of(tr, several), histories_of(tr, several, 60), oldest_of(tr, several)),
    )
    assert found == (
        [queue.counts() for queue in several],
        [queue.history(60) for queue in several],
        [queue.oldest() for queue in several],
    )
    assert found[2][0] is not None
    assert found[2][1] is not None
    assert found[2][2:] == [None, None]


def test_the_reads_of_a_queue_do_not_grow_with_it(several, observed, clock):
    """Two each for counts, three for ends, one for the history, at most two for the oldest."""
    fill(several, clock)
    several[1].push_many([(number, number % 7) for number in range(500)])
    for ask, most in (
        (lambda tr: counts_of(tr, several[:2]), 4),
        (lambda tr: histories_of(tr, several[:2], 60), 2),
        (lambda tr: oldest_of(tr, several[:2]), 3),
        (lambda tr: ends_of(tr, several[:2]), 6),
    ):
        observed.reads.clear()
        run(observed, ask, read_only=True)
        assert len(observed.reads) <= most


def test_an_oldest_that_was_taken_by_others_is_passed_by(several, observed, clock):
    """What the recipe's program pops stays in the table of ages; the next that is there counts."""
    queue = several[1]
    first = queue.push("first", 1)
    clock.advance(5)
    second = queue.push("second", 2)
    run(observed, lambda tr: tr.clear(queue.overview.key_of(first)))
    assert run(observed, lambda tr: oldest_of(tr, [queue])) == [second.pushed_at]


def test_the_oldest_may_be_one_that_cannot_be_decoded(several, observed, clock):
    """Its push time counts while it is ready, and not when it is buried; redriven, again."""
    for queue in several[:2]:
        first = queue.push("first")
        clock.advance(90)
        second = queue.push("second")
        key = queue.overview.key_of(first)
        run(observed, lambda tr, key=key: tr.set(key, bytes(tr[key]).replace(b"first", b'"')))
        assert run(observed, lambda tr, queue=queue: oldest_of(tr, [queue])) == [first.pushed_at]
        assert queue.get(first.id).pushed_at == first.pushed_at
        queue.bury(first.id)
        assert queue.oldest() == second.pushed_at
        assert not list(run(observed, lambda tr, queue=queue: ghosts(tr, queue)))
        assert queue.redrive([first.id]) == 1
        assert queue.oldest() == first.pushed_at


def ghosts(tr, queue):
    """Return the ages of items that are not ready."""
    begin, end = queue.parts.store.tables.ages
    places = [queue.parts.store.tables.parse_dated(row.key)[1] for row in tr.get_range(begin, end)]
    return [place for place in places if not tr[queue.parts.store.keys.key(place)].present()]


def test_the_ends_that_cannot_be_decoded(several, observed, clock):
    """Each end by itself; leased and delayed items are at no end."""
    fill(several, clock)
    fifo, priority, raw, empty = several
    empty.push("later", delay=600)
    keys = [
        fifo.subspace.pack((10**6, b"r")),
        priority.subspace.pack((-1, 0, b"r")),
        priority.subspace.pack((5, 0, b"r")),
        raw.subspace.pack(("no", "place")),
    ]
    run(observed, lambda tr: [tr.set(key, b"\xff") for key in keys])
    found = run(observed, lambda tr: ends_of(tr, several))
    assert [(one.is_empty, one.undecodable) for one in found] == [
        (False, ("max",)),
        (False, ("min",)),
        (False, ("min",)),
        (True, ()),
    ]
    for queue, ends in zip(several, found, strict=True):
        assert len(ends.undecodable_ids) == len(ends.undecodable)
        for end, item_id in zip(ends.undecodable, ends.undecodable_ids, strict=True):
            (item,) = queue.page(end=end, limit=1).items
            assert (item.id, type(item.value)) == (item_id, Undecodable)
    with pytest.raises(CorruptItem):
        fifo.pop_max()
    assert fifo.pop().value == "c"
    (ends,) = run(observed, lambda tr: ends_of(tr, [fifo]))
    assert ends == Ends(False, ("min", "max"), found[0].undecodable_ids * 2)


def test_the_depth_goes_back_from_now(clock):
    """Each minute's end holds what was there at the next one's, less what came, and what left."""
    counts = Counts(ready=5, leased=2, delayed=1, dead=2)
    minutes = [
        Minute(moment(n * MINUTE_US), *work) for n, work in enumerate([(4, 0), (8, 3), (1, 0)])
    ]
    assert [depth.items for depth in depths(counts, minutes)] == [4, 9, 10]
    assert [depth.at for depth in depths(counts, minutes)] == [minute.at for minute in minutes]


def test_the_depth_counts_what_is_leased_delayed_and_dead(several, clock):
    """Moves between the states change nothing; a pop and an ack do."""
    queue = several[0]
    queue.push_many(["x"] * 6)
    queue.push("later", delay=600)
    clock.advance(60)
    item = queue.lease(seconds=600)
    queue.bury(queue.peek().id)
    clock.advance(60)
    queue.pop()
    queue.ack(item)
    found = depths(queue.counts(), queue.history(5))
    assert [depth.items for depth in found] == [0, 0, 7, 7, 5]


def test_the_depth_is_never_below_nothing():
    """Where what others did is in no minute, there is no negative number of items."""
    found = depths(Counts(1, 0, 0, 0), [Minute(moment(0), 0, 0), Minute(moment(MINUTE_US), 9, 0)])
    assert [depth.items for depth in found] == [0, 1]


def test_the_key_of_an_item_is_where_its_value_is(several, observed, clock):
    """In whatever state it is."""
    queue = several[0]
    item = queue.push("x")
    assert b"x" in bytes(run(observed, lambda tr: bytes(tr[queue.overview.key_of(item)])))
    queue.lease()
    leased = queue.get(item.id)
    key = queue.overview.key_of(leased)
    assert key != queue.overview.key_of(item)
    assert fdb.tuple.unpack(run(observed, lambda tr: bytes(tr[key])))[0] == '"x"'
