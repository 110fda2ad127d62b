"""Acknowledge, give up and extend leases: many at once, and once under an idempotency key."""

from __future__ import annotations

import datetime

import pytest

from fdbqueue.exceptions import (
    BatchTooLarge,
    IdempotencyKeyReused,
    InvalidInput,
    LeaseLost,
    OutcomeUnknown,
)
from fdbqueue.service import FifoQueue, Held, IdempotencyKey
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another, together
from tests.concurrency.kinds import KINDS
from tests.contract.unsure import unsure_database

SOME_NAMES = {"fifo", "ints-commit-bytes", "floats-bytes", "ints-shards"}
SOME = [kind for kind in KINDS if kind.name in SOME_NAMES]
ANSWER = b"\xff\x11"
#: What ends a lease or lets it last, given a queue, some leases and a key.
ENDINGS = {
    "ack": lambda queue, leases, once: queue.ack(leases[0], once=once),
    "ack_many": lambda queue, leases, once: queue.ack_many(leases, once=once),
    "nack": lambda queue, leases, once: queue.nack(leases[0], delay=5, reason="?", once=once),
    "nack_many": lambda queue, leases, once: queue.nack_many(leases, reason="no", once=once),
    "extend": lambda queue, leases, once: queue.extend(leases[0], 500, once=once),
    "extend_many": lambda queue, leases, once: queue.extend_many(leases, 500, once=once),
}
each_ending = pytest.mark.parametrize("ending", ENDINGS)


@pytest.fixture(params=SOME, ids=str)
def kind(request):
    """Queues of each order, codec and type of priority, one with shards too."""
    return request.param


@pytest.fixture
def queue(kind, database, subspace, clock):
    """A queue of four items, for which the time stands still."""
    queue = kind.open(database, subspace)
    queue.push_many(kind.pairs([kind.value(text) for text in "abcd"], [kind.priorities[0]] * 4))
    return queue


@pytest.fixture
def kept(everything):
    """How many keys hold answers."""
    return lambda: sum(key.startswith(ANSWER) for key in everything())


# Many


def test_many_are_given_up_at_once(kind, queue, clock):
    """Those still held go back with their attempts one higher; the others are named, once each."""
    gone, *held = queue.lease_many(3)
    queue.ack(gone)
    found = queue.nack_many([gone, held[0], held[0].lease, held[1], gone.lease])
    assert isinstance(found, Held)
    assert (found, found.lost) == (2, (gone.lease,))
    ready = assert_counted(queue)["ready"]
    assert sorted((item.id, item.attempts) for item in ready if item.attempts) == sorted(
        (item.id, 1) for item in held
    )
    again = queue.nack_many(held)
    assert (again, again.lost) == (0, tuple(item.lease for item in held))


def test_many_are_hidden_for_a_delay(queue, clock):
    """None of them comes back before it is over."""
    leased = queue.lease_many(4)
    assert queue.nack_many(leased, delay=30) == 4
    assert len(assert_counted(queue)["delayed"]) == 4
    clock.advance(29)
    assert queue.pop() is None
    clock.advance(2)
    assert {item.id for item in queue.pop_many(9)} == {item.id for item in leased}


def test_the_last_attempts_of_many_are_dead_letters(database, subspace):
    """Each has the reason."""
    queue = FifoQueue(database, subspace, max_attempts=1)
    queue.push_many("abc")
    assert queue.nack_many(queue.lease_many(3), reason="broken") == 3
    assert [item.reason for item in assert_counted(queue)["dead"]] == ["broken"] * 3


def test_many_are_extended_at_once(queue, clock):
    """Those still held last for so long from now, under the same tokens."""
    gone, *held = queue.lease_many(4, seconds=60)
    queue.nack(gone)
    clock.advance(50)
    found = queue.extend_many([*held, gone], 100)
    assert (found, found.lost) == (3, (gone.lease,))
    until = {item.until for item in assert_counted(queue)["leased"]}
    assert until == {held[0].until + datetime.timedelta(seconds=50 + 100 - 60)}
    clock.advance(90)
    assert queue.ack_many(held) == 3


def test_the_lost_ones_of_an_ack_are_named(queue):
    """In the order in which they were given, each once."""
    leased = queue.lease_many(4)
    queue.nack(leased[2])
    queue.ack(leased[0])
    found = queue.ack_many([leased[2], *leased])
    assert (found, found.lost) == (2, (leased[2].lease, leased[0].lease))


@pytest.mark.parametrize("verb", ["ack_many", "nack_many", "extend_many"])
def test_none_are_ended(queue, kept, verb):
    """Of no leases none is held, and nothing is written; under a key it is a call all the same."""
    found = getattr(queue, verb)([])
    assert (found, found.lost) == (0, ())
    assert kept() == 0
    once = IdempotencyKey("key")
    for replayed in (False, True):
        assert getattr(queue, verb)(iter([]), once=once) == 0
        assert once.replayed is replayed


@pytest.mark.parametrize(("verb", "limit"), [("nack_many", 1_000), ("extend_many", 1_000)])
def test_how_many_are_ended_at_once(database, subspace, verb, limit):
    """As many as the limit; one more is refused, and changes nothing."""
    queue = FifoQueue(database, subspace)
    queue.push_many(range(limit + 1))
    leased = queue.lease_many(limit + 1)
    with pytest.raises(InvalidInput):
        getattr(queue, verb)(leased)
    found = getattr(queue, verb)(leased[1:])
    assert (found, found.lost) == (limit, ())
    assert assert_counted(queue)["leased"][0].id == leased[0].id


@pytest.mark.parametrize("verb", ["nack_many", "extend_many"])
def test_what_is_too_much_for_one_transaction(database, subspace, verb):
    """Eighty of the longest values are not; a hundred are refused, and are as they were."""
    queue = FifoQueue(database, subspace, codec="bytes")
    for _ in range(4):
        queue.push_many([b"x" * 100_000] * 25)
    leased = [item for _ in range(4) for item in queue.lease_many(25, seconds=600)]
    with pytest.raises(BatchTooLarge):
        getattr(queue, verb)(leased)
    assert {item.until for item in assert_counted(queue)["leased"]} == {
        item.until for item in leased
    }
    assert getattr(queue, verb)(leased[:80]) == 80


# Under a key


@each_ending
def test_an_ending_made_again(kind, queue, database, subspace, clock, ending):
    """Its answer is the same, whoever makes it and however late; its effect is there once."""
    end = ENDINGS[ending]
    leased = queue.lease_many(3, seconds=60)
    queue.ack(leased[2])  # one of many is lost
    once = IdempotencyKey("key")
    answer = end(queue, leased, once)
    assert not once.replayed
    after = assert_counted(queue)
    clock.advance(20)
    for one in (queue, kind.open(another(database), subspace)):
        again = IdempotencyKey("key")
        found = end(one, leased, again)
        assert again.replayed
        assert (found, getattr(found, "lost", None)) == (answer, getattr(answer, "lost", None))
        assert assert_counted(queue) == after


@each_ending
def test_an_answer_outlives_the_lease(kind, queue, clock, ending):
    """A retry long after is told what the first was, though the item may be anywhere by then."""
    end = ENDINGS[ending]
    leased = queue.lease_many(2)
    answer = end(queue, leased, "key")
    clock.advance(10_000)
    taken = queue.pop_many(9)
    once = IdempotencyKey("key")
    assert end(queue, leased, once) == answer
    assert once.replayed
    assert len(taken) == {"ack": 3, "ack_many": 2}.get(ending, 4)


@pytest.mark.parametrize(
    ("verb", "one", "another_one"),
    [
        ("nack", {}, {"delay": 0}),
        ("nack", {"delay": 1}, {"delay": 2}),
        ("nack", {"reason": "a"}, {"reason": "b"}),
        ("nack", {}, {"reason": "\ud800"}),
        ("nack_many", {"delay": 1}, {"delay": 2}),
        ("nack_many", {"reason": "a"}, {"reason": "b"}),
        ("extend", {"seconds": 60}, {"seconds": 60.5}),
        ("extend_many", {"seconds": 60}, {"seconds": 61}),
    ],
)
def test_another_argument_under_the_key(queue, verb, one, another_one):
    """It is another call; and 60 seconds are 60.0."""
    leases = queue.lease_many(2)
    given = leases if verb.endswith("_many") else leases[0]
    getattr(queue, verb)(given, **one, once="key")
    with pytest.raises(IdempotencyKeyReused):
        getattr(queue, verb)(given, **another_one, once="key")
    same = {name: float(value) if name != "reason" else value for name, value in one.items()}
    once = IdempotencyKey("key")
    getattr(queue, verb)(given, **same, once=once)
    assert once.replayed


@pytest.mark.parametrize("ending", ["ack", "nack", "extend"])
def test_that_a_lease_was_lost_is_not_kept(queue, kept, ending):
    """It is an error: the key is as good as new."""
    leased = queue.lease_many(2)
    queue.ack(leased[0])
    for _ in range(2):
        with pytest.raises(LeaseLost):
            ENDINGS[ending](queue, leased, "key")
        assert kept() == 0
    once = IdempotencyKey("key")
    ENDINGS[ending](queue, leased[1:], once)
    assert not once.replayed


@each_ending
def test_two_threads_end_a_lease_under_one_key(kind, queue, database, subspace, ending):
    """One of them does, and both are told what it did."""
    rivals = [queue, kind.open(another(database), subspace)]
    for turn in range(10):
        leased = queue.lease_many(2, seconds=60)
        keys = [IdempotencyKey(f"key-{turn}"), IdempotencyKey(f"key-{turn}")]

        def end(n, leased=leased, keys=keys):
            return ENDINGS[ending](rivals[n], leased, keys[n])

        answers = together(2, end)
        assert answers[0] == answers[1]
        assert sorted(key.replayed for key in keys) == [False, True]
        queue.ack_many(leased)
        queue.push_many(kind.pairs([kind.value("x")] * 4, [kind.priorities[0]] * 4))
    assert_counted(queue)


@each_ending
@pytest.mark.parametrize("code", [1021, 1039, 1031])
def test_an_ending_of_unknown_outcome(kind, engine, subspace, ending, code):
    """Where the loop cannot find out, the same call does; it took effect once."""
    sound = kind.open(engine.database, subspace)
    sound.push_many(kind.pairs([kind.value(text) for text in "ab"], [kind.priorities[0]] * 2))
    leased = sound.lease_many(2, seconds=600)
    unsure = kind.open(unsure_database(engine.database, code), subspace)
    once = IdempotencyKey("key")
    if code == 1031:
        with pytest.raises(OutcomeUnknown):
            ENDINGS[ending](unsure, leased, once)
    else:
        ENDINGS[ending](unsure, leased, once)
        assert not once.replayed
    held = assert_counted(sound)
    answer = ENDINGS[ending](unsure, leased, once)
    assert once.replayed
    assert ENDINGS[ending](sound, leased, "key") == answer
    assert assert_counted(sound) == held
    assert {item.attempts for item in held["ready"]} <= {0, 1}


def test_a_long_value_is_extended_once(database, subspace, clock):
    """The whole of it is in the answer, and in that of the same call."""
    queue = FifoQueue(database, subspace, codec="bytes", max_value_bytes=1_000_000)
    queue.push(b"x\x00" * 480_000)
    queue.nack(queue.lease(), reason="so that it has an attempt")
    leased = queue.lease()
    extended = queue.extend(leased, 600, once="key")
    assert extended.value == leased.value
    assert extended.attempts == 1
    queue.ack(leased)
    assert queue.extend(leased, 600, once="key") == extended


def test_an_ending_under_a_key_in_the_callers_transaction(queue, database):
    """Its answer is committed with it, and with whatever else that transaction writes."""
    leased = queue.lease_many(2)
    dropped, kept = database.create_transaction(), database.create_transaction()
    for transaction in (dropped, kept):
        once = IdempotencyKey("key")
        queue.ack(leased[0], once=once, tr=transaction)
        assert not once.replayed
    dropped.cancel()
    kept.commit().wait()
    once = IdempotencyKey("key")
    queue.ack(leased[0], once=once)
    assert once.replayed
