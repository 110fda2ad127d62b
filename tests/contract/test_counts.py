"""Counts and history: what they say is what a full count would find."""

from __future__ import annotations

import datetime
import itertools

import fdb.tuple
import pytest

from fdbqueue.exceptions import InvalidInput, LeaseLost
from fdbqueue.service import FifoQueue, PriorityQueue, run
from fdbqueue.service.storage.tables import TableKeys
from tests.cases import cases
from tests.concurrency.census import assert_counted
from tests.concurrency.kinds import KINDS, STRICT

MINUTE = datetime.timedelta(minutes=1)


@pytest.fixture(params=KINDS, ids=str)
def kind(request):
    """Each kind of queue, those with shards included."""
    return request.param


@pytest.fixture
def queue(kind, database, subspace, clock):
    """An empty queue in which a second failure is the last, and for which the time stands still."""
    return kind.open(database, subspace, max_attempts=2)


def fill(kind, queue, count, **options):
    """Push so many items of all priorities."""
    priorities = itertools.islice(itertools.cycle(kind.priorities), count)
    values = [kind.value(str(number)) for number in range(count)]
    return queue.push_many(kind.pairs(values, list(priorities)), **options)


def counted(queue):
    """Return what a queue says it holds, once that is what it does hold."""
    assert_counted(queue)
    counts = queue.counts()
    assert queue.size() == counts.ready
    return counts.ready, counts.leased, counts.delayed, counts.dead


def under(database, bounds):
    """Return the rows of a range."""
    return list(database.create_transaction().get_range(*bounds))


def test_the_callers_transaction_counts_what_it_does(kind, queue, database):
    """Within it the counts are as its operations left them; elsewhere not before it commits."""
    fill(kind, queue, 6)
    transaction = database.create_transaction()
    queue.pop(tr=transaction)
    leased = queue.lease(tr=transaction)
    assert (queue.size(tr=transaction), queue.counts(tr=transaction).leased) == (4, 1)
    queue.nack(leased, tr=transaction)
    assert (queue.size(tr=transaction), queue.counts(tr=transaction).leased) == (5, 0)
    for _ in range(2):
        queue.push(kind.value("x"), kind.priorities[0], tr=transaction)
    queue.push(kind.value("y"), kind.priorities[0], delay=9, tr=transaction)
    counts = queue.counts(tr=transaction)
    assert (counts.ready, counts.delayed) == (7, 1)
    if not kind.is_fifo:
        assert sum(count for _, count in queue.by_priority(tr=transaction)) == 7
    assert queue.history(1, tr=transaction)[0].pushes == 9
    assert counted(queue) == (6, 0, 0, 0)
    transaction.commit().wait()
    assert counted(queue) == (7, 0, 1, 0)


# Conflicts


def work(kind, queue, tr, doing, leases):
    """Do one thing in a caller's transaction."""
    value, priority = kind.value(doing), kind.priorities[0]
    if doing == "push":
        queue.push(value, priority, tr=tr)
    elif doing == "delay":
        queue.push(value, priority, delay=5, tr=tr)
    elif doing == "push many":
        fill(kind, queue, 10, tr=tr)
    elif doing == "pop":
        assert queue.pop_min(tr=tr) is not None
    elif doing == "pop max":
        assert queue.pop_max(tr=tr) is not None
    elif doing == "ack":
        queue.ack(leases[0], tr=tr)
    elif doing == "nack later":
        queue.nack(leases[1], delay=5, tr=tr)
    else:
        queue.extend(leases[2], 500, tr=tr)


ALWAYS = ["push", "delay", "push many", "ack", "nack later", "extend"]


@cases(
    ("one", "two"),
    [
        *(pair for pair in itertools.product(ALWAYS, ["push", "delay", "push many"])),
        ("ack", "nack later"),
        ("extend", "ack"),
        ("pop", "pop max"),
        ("pop", "ack"),
        ("ack", "pop"),
        ("pop", "nack later"),
        ("nack later", "pop"),
    ],
)
@pytest.mark.parametrize("kind", STRICT[1::3], ids=str)
def test_what_does_not_meet_does_not_conflict(kind, database, subspace, one, two):
    """Prepared at once, both commit: no count makes them meet. All is counted afterwards."""
    queue = kind.open(database, subspace)
    fill(kind, queue, 8)
    leases = queue.lease_many(3)
    first, second = database.create_transaction(), database.create_transaction()
    work(kind, queue, first, one, leases)
    work(kind, queue, second, two, leases)
    first.commit().wait()
    second.commit().wait()
    counted(queue)


@pytest.mark.parametrize("push_first", [False, True])
def test_a_push_and_a_pop_of_a_queue_that_is_not_empty_do_not_conflict(
    database, subspace, kind, push_first
):
    """The push goes behind what the pop took, whichever commits first."""
    queue = kind.open(database, subspace)
    queue.push(kind.value("a"), kind.priorities[0])
    queue.push(kind.value("b"), kind.priorities[0])
    popping, pushing = database.create_transaction(), database.create_transaction()
    popped = queue.pop_min(tr=popping)
    queue.push(kind.value("c"), kind.priorities[0], tr=pushing)
    both = [pushing, popping] if push_first else [popping, pushing]
    for transaction in both:
        transaction.commit().wait()
    left = {kind.text(item.value) for item in queue}
    assert left | {kind.text(popped.value)} == set("abc")
    assert counted(queue) == (2, 0, 0, 0)


# Priorities


def test_a_fifo_queue_has_no_priorities_to_count(fifo):
    """The list is empty, whatever it holds."""
    fifo.push("x")
    assert fifo.by_priority() == []


# The oldest


@pytest.mark.parametrize("kind", [k for k in KINDS if "bytes" not in k.name], ids=str)
def test_the_oldest_is_the_one_pushed_first(kind, queue, clock):
    """Of those that are ready: neither leased, nor delayed, nor dead."""
    pushed = []
    for priority in itertools.islice(itertools.cycle(reversed(kind.priorities)), 5):
        pushed.append(queue.push(kind.value("x"), priority))
        clock.advance(10)
    ages = [item.pushed_at for item in pushed]
    assert queue.oldest() == ages[0]
    queue.bury(pushed[0].id)
    assert queue.oldest() == ages[1]
    transaction = queue.database.create_transaction()
    leases = queue.lease_many(4, tr=transaction)
    assert queue.oldest(tr=transaction) is None
    transaction.commit().wait()
    assert queue.oldest() is None
    for lease in leases:
        queue.nack(lease)
    assert queue.oldest() == ages[1]
    queue.redrive()
    assert queue.oldest() == ages[0]
    assert len(queue.pop_many(9)) == 5
    assert queue.oldest() is None


def test_without_a_record_there_is_no_oldest(database, subspace):
    """The codecs bytes and tuple keep none."""
    queue = PriorityQueue(database, subspace, codec="bytes")
    queue.push(b"x", 1)
    assert queue.oldest() is None


@pytest.mark.parametrize("value", [b"\xff", fdb.tuple.pack(("{",)), fdb.tuple.pack(('"no time"',))])
def test_the_oldest_behind_a_head_that_does_not_tell(database, subspace, clock, value):
    """In a FIFO queue the first item counts that says when it was pushed; else it is unknown."""
    queue = FifoQueue(database, subspace)
    keys = [queue.subspace.pack((-number, b"r")) for number in range(3)]
    run(database, lambda tr: [tr.set(key, value) for key in keys])
    assert queue.oldest() is None
    pushed = queue.push("x")
    clock.advance(10)
    queue.push("y")
    assert queue.oldest() == pushed.pushed_at


# History


def done(queue, minutes):
    """Return what was pushed and taken in the last minutes."""
    return [(minute.pushes, minute.pops) for minute in queue.history(minutes)]


def test_history_says_what_was_pushed_and_taken_in_each_minute(kind, queue, clock):
    """Pushes, delayed ones included; pops and acknowledgements. Nothing else."""
    fill(kind, queue, 10)
    fill(kind, queue, 2, delay=30)
    clock.advance(60)
    assert len(queue.pop_many(3)) == 3
    queue.pop_max()
    clock.advance(120)
    one, two, three, four = queue.lease_many(4)
    queue.ack(one)
    assert queue.ack_many([one, two]) == 1
    queue.nack(three)
    queue.extend(four, 60)
    queue.bury(queue.page().items[0].id)
    queue.redrive()
    queue.recount()
    queue.push(kind.value("x"), kind.priorities[0])
    assert done(queue, 5) == [(0, 0), (12, 0), (0, 4), (0, 0), (1, 2)]
    clock.advance(600)
    assert done(queue, 3) == [(0, 0)] * 3


def test_minutes_are_named_by_their_beginning(fifo, clock):
    """In UTC, in order, the present one last; an hour of them where nothing is said."""
    fifo.push("x")
    minutes = fifo.history()
    assert len(minutes) == 60
    assert {minute.at.second for minute in minutes} == {0}
    steps = {later.at - earlier.at for earlier, later in itertools.pairwise(minutes)}
    assert steps == {MINUTE}
    age = datetime.datetime.fromtimestamp(clock.time_ns() / 1e9, tz=datetime.timezone.utc)
    assert datetime.timedelta(0) <= age - minutes[-1].at < MINUTE
    assert minutes[-1].at.tzinfo is datetime.timezone.utc
    assert len(fifo.history(1)) == 1


@cases("minutes", [0, -1, 1_441, True, 1.5, "60", None])
def test_history_is_of_at_most_a_day(fifo, minutes):
    """From 1 to 1,440 minutes."""
    with pytest.raises(InvalidInput):
        fifo.history(minutes)
    assert len(fifo.history(1_440)) == 1_440


def test_history_is_forgotten_after_a_day(fifo, database, subspace, clock):
    """What is older is removed now and then by those who push and pop."""
    tables = TableKeys(subspace.key())
    for _ in range(30):
        transaction = database.create_transaction()
        for _ in range(100):
            fifo.push("x", tr=transaction)
            clock.advance(60)
        transaction.commit().wait()
    assert {minute.pushes for minute in fifo.history(1_440)[:-1]} == {1}
    assert 1_439 <= len(under(database, (tables.minute(0), tables.minute(2**32 - 1)))) < 3_000


# Removing all


def test_clear_leaves_nothing_of_the_queue(kind, queue, database, everything, ask_and_die, clock):
    """No item in whatever state, no count, no history, nothing that waits to happen."""
    fill(kind, queue, 30)
    fill(kind, queue, 3, delay=5)
    leased = queue.lease_many(5)
    queue.nack(leased[0])
    queue.nack(queue.lease())
    queue.bury(queue.page().items[0].id)
    ask_and_die(queue, lowest=2, highest=1)
    queue.pop()
    ask_and_die(queue, lowest=1)
    transaction = database.create_transaction()
    queue.clear(tr=transaction)
    assert queue.counts(tr=transaction).ready == 0
    transaction.cancel()
    assert queue.counts().leased == 4
    queue.clear()
    assert everything() == {queue.parts.store.format.key[len(queue.subspace.key()) :]}
    assert counted(queue) == (0, 0, 0, 0)
    assert done(queue, 2) == [(0, 0)] * 2
    with pytest.raises(LeaseLost):
        queue.ack(leased[1])
    clock.advance(600)
    assert queue.pop() is None
    fill(kind, queue, 4)
    assert len(queue.pop_many(9)) == 4
    assert counted(queue) == (0, 0, 0, 0)


def test_clear_leaves_a_neighbours_counts_alone(database, subspace):
    """Also those of a neighbour whose name begins alike."""
    queues = [FifoQueue(database, subspace[name]) for name in ("a", "ab", "b")]
    for queue in queues:
        queue.push_many(range(3))
        queue.lease()
    queues[0].clear()
    assert [counted(queue) for queue in queues] == [(0, 0, 0, 0), (2, 1, 0, 0), (2, 1, 0, 0)]


def test_queues_that_are_emptied_leave_little(kind, queue, everything):
    """The keys left do not grow with the number of items that went through."""
    sizes = []
    for count in (20, 300):
        fill(kind, queue, count)
        for lease in queue.lease_many(5):
            queue.nack(lease)
        assert len(queue.pop_many(1_000)) == count
        sizes.append(len(everything()))
    assert sizes[0] == sizes[1] <= 6
