"""Delays: hidden until a time, then at the place of the push."""

from __future__ import annotations

import datetime
from collections import Counter

import pytest

from fdbqueue.exceptions import InvalidInput
from fdbqueue.service import MAX_SECONDS, FifoQueue
from fdbqueue.service.clock import moment
from tests.concurrency.census import assert_counted

UTC = datetime.timezone.utc
TOKYO = datetime.timezone(datetime.timedelta(hours=9))


@pytest.fixture
def queue(kind, database, subspace, clock):
    """An empty queue for which the time stands still."""
    return kind.open(database, subspace)


def push(kind, queue, texts, **options):
    """Push values one by one, of one priority."""
    return [queue.push(kind.value(text), kind.priorities[0], **options) for text in texts]


def now(clock):
    """Return the time that stands still."""
    return moment(clock.time_ns() // 1000)


def test_a_delayed_item_is_hidden_until_its_time(kind, queue, clock):
    """Not a microsecond less, and from then on it is ready."""
    (pushed,) = push(kind, queue, "a", delay=30)
    until = now(clock) + datetime.timedelta(seconds=30)
    assert (pushed.state, pushed.until) == ("delayed", until)
    clock.advance(29.999999)
    assert queue.peek() is None
    assert queue.pop() is None
    assert queue.lease_max() is None
    (found,) = assert_counted(queue)["delayed"]
    assert (found, queue.get(pushed.id)) == (pushed, pushed)
    clock.advance(0.000001)
    popped = queue.pop()
    assert (popped.id, popped.value, popped.attempts) == (pushed.id, pushed.value, 0)
    assert (popped.state, popped.until) == ("ready", None)
    assert not any(assert_counted(queue).values())


def test_who_looks_sees_what_is_due_and_moves_nothing(kind, queue, clock, everything):
    """Peek shows it from both ends; the counts call it delayed until somebody consumes."""
    push(kind, queue, "ab", delay=5)
    clock.advance(5)
    before = everything()
    assert kind.texts([queue.peek(), queue.peek_max()]) == "ab"
    assert everything() == before
    assert (queue.counts().ready, queue.counts().delayed) == (0, 2)
    assert kind.texts([queue.pop()]) == "a"
    assert (queue.counts().ready, queue.counts().delayed) == (1, 0)


def test_a_time_may_be_given_in_place_of_a_delay(kind, queue, clock):
    """It knows its time zone; one that is over already delays nothing."""
    until = now(clock) + datetime.timedelta(hours=1)
    (pushed,) = push(kind, queue, "a", not_before=until.astimezone(TOKYO))
    assert (pushed.state, pushed.until) == ("delayed", until)
    assert pushed.until.tzinfo is UTC
    for past in (now(clock), datetime.datetime.min.replace(tzinfo=TOKYO)):
        assert [item.state for item in push(kind, queue, "b", not_before=past)] == ["ready"]
    assert kind.texts(queue.pop_many(3)) == "bb"
    clock.advance(3600)
    assert kind.texts(queue.pop_many(3)) == "a"


def test_a_moment_is_as_far_ahead_as_a_delay_may_be_long(fifo, clock):
    """Ten years, and no moment more: then nothing is written."""
    most = datetime.timedelta(seconds=MAX_SECONDS)
    last = fifo.push("x", delay=most).until
    pushed = fifo.push("x", not_before=last)
    assert pushed.until == fifo.get(pushed.id).until == last
    for later in (
        last + datetime.timedelta(microseconds=1),
        datetime.datetime.max.replace(tzinfo=UTC),
    ):
        with pytest.raises(InvalidInput, match=f"at most {MAX_SECONDS} seconds ahead"):
            fifo.push("y", not_before=later)
    assert fifo.counts().delayed == 2


def test_no_delay_is_no_delay(fifo):
    """None and 0 hide nothing."""
    states = [fifo.push("x", delay=delay).state for delay in (None, 0, 0.0)]
    assert states == ["ready"] * 3
    assert fifo.push_many(range(3), delay=0) == 3
    assert fifo.counts().ready == 6


def test_a_delay_in_the_callers_transaction(kind, queue, database, clock):
    """It is the caller's to commit, and then counts from the push."""
    transaction = database.create_transaction()
    queue.push(kind.value("a"), kind.priorities[0], delay=10, tr=transaction)
    values = [kind.value("b"), kind.value("c")]
    queue.push_many(kind.pairs(values, [kind.priorities[0]] * 2), delay=10, tr=transaction)
    assert queue.counts().delayed == 0
    transaction.commit().wait()
    assert kind.texts(assert_counted(queue)["delayed"]) == "abc"
    clock.advance(10)
    assert kind.texts(queue.pop_many(9)) == "abc"


def test_many_that_fall_due_together_come_each_once(kind, queue, clock):
    """However many one transaction brings back, pops go on until the last of them."""
    values = [kind.value(str(number)) for number in range(250)]
    priorities = [kind.priorities[n % len(kind.priorities)] for n in range(250)]
    queue.push_many(kind.pairs(values, priorities), delay=1)
    clock.advance(1)
    found = []
    while item := queue.pop():
        found.append(kind.text(item.value))
    assert Counter(found) == Counter(str(number) for number in range(250))
    assert not any(assert_counted(queue).values())


def test_what_is_due_earlier_is_brought_back_first(fifo, clock):
    """Of more than one transaction brings back, the first are those due first."""
    fifo.push_many(range(100), delay=2)
    fifo.push_many(range(100, 200), delay=1)
    clock.advance(2)
    assert [item.value for item in fifo.pop_many(100)] == list(range(100, 200))
    assert [item.value for item in fifo.pop_many(100)] == list(range(100))


def test_more_delays_than_a_take_requeues(database, subspace, clock):
    """It takes the first of those that it requeues; once the rest is requeued, the order is strict.

    These are the hundred whose delays ended first.
    """
    queue = FifoQueue(database, subspace)
    for number in range(150):
        queue.push(number, delay=1_000 - number)
    clock.advance(2_000)
    assert queue.peek().value == 50
    taken = [item.value for item in iter(queue.pop, None)]
    assert taken == [50, *range(50), *range(51, 150)]
