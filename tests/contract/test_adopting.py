"""A queue whose settings change while processes with the former ones are at work.

A process that knows the queue's format pushes without looking for it. Whatever it is about to write
when another setting is adopted, before or meanwhile, is refused, and nothing is where no pop looks.
"""

from __future__ import annotations

import pytest

from fdbqueue.exceptions import FormatMismatch
from fdbqueue.service import FifoQueue, Push, ends_of, run
from fdbqueue.service.tools.examination import Examiner
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another
from tests.wrapped import Meanwhile

#: The numbers of shards before and after, and the order.
SHAPES = [(None, 16, "count"), (16, None, "commit"), (16, 5, "count"), (5, 16, "commit")]
OWNER = bytes(16)


class Worker:
    """A process that is at work on a queue, with all that it holds.

    Attributes:
        meanwhile: Its database.
        queue: Its queue object, which knows the format.
        held: The items that it leases.
        ready: The id of an item that is ready.
        popped: The items that it has popped, for a thread that has gone.
        values: The values of the items that are in the queue, in whatever state.
    """

    def __init__(self, database, subspace, shards, order):
        self.meanwhile = Meanwhile(database)
        self.queue = queue = FifoQueue(
            self.meanwhile, subspace, name="mail", shards=shards, order=order
        )
        for number in range(3):
            queue.push(number)
        queue.push_many(range(3, 40))
        assert queue.parts.store.format.known_key
        for _ in range(3):
            queue.nack(queue.lease(), retry=False)
        self.held = queue.lease_many(4, seconds=600)
        consumer = queue.parts.consumer
        (self.popped,) = consumer.take_now(consumer.pop_request("min", 3, None))
        self.ready = queue.peek().id
        self.values = set(range(40)) - {item.value for item in self.popped}


WRITES = {
    "push": lambda worker: worker.queue.push("x"),
    "push_many": lambda worker: worker.queue.push_many("xyz"),
    "push_batch": lambda worker: worker.queue.push_batch([Push("x")]),
    "push once": lambda worker: worker.queue.push("x", once="key"),
    "push unique": lambda worker: worker.queue.push("x", unique="key"),
    "push delayed": lambda worker: worker.queue.push("x", delay=60),
    "push in": lambda worker: run(worker.meanwhile, lambda tr: worker.queue.push("x", tr=tr)),
    "nack": lambda worker: worker.queue.nack(worker.held[0]),
    "nack once": lambda worker: worker.queue.nack(worker.held[0], once="key"),
    "nack_many": lambda worker: worker.queue.nack_many(worker.held),
    "requeue": lambda worker: worker.queue.requeue(worker.held[0]),
    "requeue leased": lambda worker: worker.queue.parts.consumer.requeue_leased(worker.held),
    "redrive": lambda worker: worker.queue.redrive(),
    "give_back": lambda worker: worker.queue.give_back(),
    "remove": lambda worker: worker.queue.remove(worker.ready),
    "bury": lambda worker: worker.queue.bury(worker.ready),
    "clear_state": lambda worker: worker.queue.clear_state("ready"),
    "recount": lambda worker: worker.queue.recount(),
}

READS = {
    "peek": lambda worker: worker.queue.peek(),
    "get": lambda worker: worker.queue.get(worker.ready),
    "has_item": lambda worker: worker.queue.has_item(worker.ready),
    "page": lambda worker: worker.queue.page(),
    "iterate": lambda worker: list(worker.queue),
    "page of leased": lambda worker: worker.queue.page(state="leased"),
    "page by time": lambda worker: worker.queue.page(state="leased", order="time"),
    "clear_state of none": lambda worker: worker.queue.clear_state("delayed"),
}


def stored(database, subspace):
    """Return all rows."""
    begin = subspace.key()
    return run(
        database,
        lambda tr: [
            (bytes(row.key), bytes(row.value)) for row in tr.get_range(begin, begin + b"\xff\xff")
        ],
    )


def values_left(queue):
    """Return the values of all items: those that are leased, and those that pops then get."""
    assert Examiner(queue).strays() == 0
    assert_counted(queue)
    leased = queue.page(state="leased", limit=100).items
    taken = [item.value for item in leased]
    queue.remove_many([item.id for item in leased])
    queue.redrive()
    while items := queue.pop_many(7):
        taken += [item.value for item in items]
    return sorted(taken)


@pytest.fixture(params=SHAPES, ids=str)
def shape(request):
    """The numbers of shards before and after, and the order."""
    return request.param


@pytest.fixture
def worker(database, subspace, shape):
    """A process with the number of shards before."""
    before, _, order = shape
    return Worker(another(database), subspace, before, order)


@pytest.fixture
def new(database, subspace, shape):
    """The queue of a process with the number after."""
    _, after, order = shape
    return FifoQueue(another(database), subspace, name="mail", shards=after, order=order)


@pytest.mark.parametrize("verb", WRITES)
def test_what_knows_the_format_writes_nothing_after_a_change(database, subspace, worker, new, verb):
    """It gets the error, and not one row is changed."""
    new.adopt_settings()
    before = stored(database, subspace)
    with pytest.raises(FormatMismatch, match="shards"):
        WRITES[verb](worker)
    assert stored(database, subspace) == before


@pytest.mark.parametrize("verb", READS)
def test_what_knows_the_format_shows_no_part_of_the_items(worker, new, verb):
    """It gets the error, because it would look where some items are not."""
    new.adopt_settings()
    with pytest.raises(FormatMismatch, match="shards"):
        READS[verb](worker)


def test_what_knows_the_format_says_what_it_cannot_see(worker, new):
    """A page or a command that shows the queue in another way."""
    new.adopt_settings()
    (ends,) = run(worker.meanwhile, lambda tr: ends_of(tr, [worker.queue]), read_only=True)
    assert "shards" in ends.mismatch.context["here"]
    assert worker.queue.counts() == new.counts()


@pytest.mark.parametrize("verb", WRITES)
def test_what_is_under_way_writes_nothing_after_a_change(database, subspace, worker, new, verb):
    """Its commit conflicts with that of the change, and then it sees the other format."""
    rows = []

    def change():
        new.adopt_settings()
        rows.extend(stored(database, subspace))

    worker.meanwhile.let(change)
    with pytest.raises(FormatMismatch, match="shards"):
        WRITES[verb](worker)
    assert stored(database, subspace) == rows
    assert values_left(new) == sorted(worker.values)


def test_a_first_push_under_way_writes_nothing_after_a_change(database, subspace, worker, new):
    """That of a process that has never seen the row, and finds the former one."""
    meanwhile = Meanwhile(another(database))
    spec = worker.queue.options
    late = FifoQueue(meanwhile, subspace, name="mail", shards=spec.shards, order=spec.order)
    meanwhile.let(new.adopt_settings)
    with pytest.raises(FormatMismatch, match="shards"):
        late.push("x")
    assert values_left(new) == sorted(worker.values)


TAKES = {
    "pop": lambda queue: queue.pop(),
    "pop_max": lambda queue: queue.pop_max(),
    "pop_many": lambda queue: queue.pop_many(100),
    "lease": lambda queue: queue.lease(),
    "requeue_expired": lambda queue: Examiner(queue).requeue_expired(),
}


@pytest.mark.parametrize("verb", TAKES)
def test_what_a_round_requeues_is_where_the_new_setting_looks(worker, new, clock, verb):
    """Leases that have expired are requeued by a take that is under way, and it takes nothing."""
    clock.advance(601)
    worker.meanwhile.let(new.adopt_settings)
    with pytest.raises(FormatMismatch, match="shards"):
        TAKES[verb](worker.queue)
    assert values_left(new) == sorted(worker.values)


def test_a_paused_round_requeues_nothing(worker, new, clock):
    """So it depends on nothing but the pause, and says that there is nothing."""
    worker.queue.pause()
    clock.advance(601)
    worker.meanwhile.let(new.adopt_settings)
    assert worker.queue.pop() is None
    new.resume()
    assert values_left(new) == sorted(worker.values)


def test_what_was_popped_for_a_thread_that_has_gone_is_not_lost(worker, new):
    """Nobody else has it: it returns through the delayed items."""
    new.adopt_settings()
    lost = {item.value for item in worker.popped}
    worker.queue.parts.consumer.requeue_popped(worker.popped)
    assert new.counts().delayed == len(lost) == 3
    assert values_left(new) == sorted(worker.values | lost)


def test_acks_and_extends_go_on(worker, new):
    """They know their item by its place, whatever the shards."""
    new.adopt_settings()
    worker.queue.extend(worker.held[0], 900)
    worker.queue.ack(worker.held[1])
    worker.queue.ack_many(worker.held[2:])
    gone = {item.value for item in worker.held[1:]}
    assert values_left(new) == sorted(worker.values - gone)


def test_a_push_that_finds_no_row_any_more_writes_it_again(database, subspace):
    """Somebody has removed all of the queue's keys, not by its verbs."""
    queue = FifoQueue(another(database), subspace)
    for _ in range(3):
        queue.push("gone")
    begin = subspace.key()
    run(database, lambda tr: tr.clear_range(begin, begin + b"\xff\xff"))
    queue.push("a")
    with pytest.raises(FormatMismatch):
        FifoQueue(another(database), subspace, shards=4).pop()
    assert [item.value for item in queue.pop_many(5)] == ["a"]


def test_a_clear_does_not_conflict_with_pushes(database, subspace):
    """It leaves the row of the format alone, on which they depend."""
    queue = FifoQueue(database, subspace)
    queue.push("a")
    queue.push("b")
    tr = database.create_transaction()
    queue.push("c", tr=tr)
    queue.clear()
    tr.commit().wait()
    assert [item.value for item in queue.pop_many(5)] == ["c"]


@pytest.mark.parametrize("commits", [1, 2, 3])
def test_of_two_moves_at_once_the_later_is_made(database, subspace, commits):
    """The other ends with the error, whichever step it has come to."""
    FifoQueue(database, subspace, name="mail").push_many(range(700))
    meanwhile = Meanwhile(another(database))
    first = FifoQueue(meanwhile, subspace, name="mail", shards=5)
    second = FifoQueue(another(database), subspace, name="mail", shards=16)
    meanwhile.let(second.adopt_settings, commits)
    with pytest.raises(FormatMismatch):
        first.adopt_settings()
    assert values_left(second) == list(range(700))


def test_of_two_equal_moves_at_once_both_are_made(database, subspace):
    """The first finds all moved, and the queue open."""
    FifoQueue(database, subspace).push_many(range(700))
    meanwhile = Meanwhile(another(database))
    first = FifoQueue(meanwhile, subspace, shards=5)
    second = FifoQueue(another(database), subspace, shards=5)
    meanwhile.let(second.adopt_settings, 1)
    first.adopt_settings()
    assert values_left(first) == list(range(700))


@pytest.mark.parametrize(
    ("shards", "elsewhere"), [(None, 3), (None, 16), (5, None), (5, 3), (5, 16)], ids=str
)
def test_rows_in_other_shards_are_found_and_rescued(database, subspace, shards, elsewhere):
    """Whoever wrote them; while the queue stays open."""
    queue = FifoQueue(database, subspace, shards=shards)
    queue.push_many(range(30))
    there = FifoQueue(database, subspace, shards=elsewhere).parts.store.keys
    here = queue.parts.store.keys
    places = [here.place_named(item.id) for item in queue.page(limit=100).items[::2]]
    moved = [place for place in places if here.key(place) != there.key(place)]
    assert len(moved) > 2

    def scatter(tr):
        for place in moved:
            tr[there.key(place)] = bytes(tr[here.key(place)])
            tr.clear(here.key(place))

    assert Examiner(queue).strays() == 0
    run(database, scatter)
    assert Examiner(queue).strays() == len(moved)
    assert queue.adopt_settings() == len(moved)
    assert queue.adopt_settings() == 0
    assert values_left(queue) == list(range(30))
