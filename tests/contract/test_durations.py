"""Durations: wherever seconds are taken, a ``timedelta`` means the same."""

from __future__ import annotations

import asyncio
import datetime

import pytest

from fdbqueue.exceptions import IdempotencyKeyReused
from fdbqueue.service import FifoQueue, IdempotencyKey, Push
from fdbqueue.service.clock import moment

DELTA = datetime.timedelta
#: Equal durations; the last is one that no binary fraction equals.
EQUAL = [(5, DELTA(seconds=5)), (86_400.0, DELTA(days=1)), (0.29, DELTA(milliseconds=290))]


@pytest.fixture
def queue(database, subspace, clock):
    """An empty queue for which the time stands still."""
    return FifoQueue(database, subspace, name="letters")


def from_now(clock, seconds):
    """Return the moment at which a duration that begins now is over."""
    return moment(clock.time_ns() // 1000 + int(seconds * 1_000_000))


@pytest.mark.parametrize(("seconds", "delta"), EQUAL)
def test_a_delay_is_as_long_in_either_form(queue, clock, seconds, delta):
    """Pushed by any verb, or nacked."""
    until = from_now(clock, seconds)
    for given in (seconds, delta):
        queue.push("a", delay=given)
        queue.push_many(["b"], delay=given)
        queue.push_batch([Push("c", delay=given)])
        queue.prepare(Push("d", delay=given))(None)
        asyncio.run(queue.apush("e", delay=given))
        asyncio.run(queue.apush_many(["f"], delay=given))
        for value in "ghi":
            queue.push(value)
        queue.nack(queue.lease(), delay=given)
        queue.nack_many([queue.lease()], delay=given)
        asyncio.run(queue.anack(queue.lease(), delay=given))
        assert {item.value: item.until for item in queue.iterate(state="delayed")} == dict.fromkeys(
            "abcdefghi", until
        )
        queue.clear()


@pytest.mark.parametrize(("seconds", "delta"), EQUAL)
def test_a_lease_is_as_long_in_either_form(queue, clock, seconds, delta):
    """Leased or extended, alone or with others."""
    until = from_now(clock, seconds)
    for given in (seconds, delta):
        queue.push_many("abc")
        one, other = queue.lease(seconds=given), queue.lease_many(1, seconds=given)[0]
        assert one.until == other.until == until
        one, other = queue.extend(one, 9), queue.extend(other, 9)
        assert queue.extend(one, given).until == until
        assert queue.extend_many([other], given) == 1
        with queue.leased(seconds=given) as item:
            assert item.until == until
        assert queue.get(other.id).until == until
        queue.clear()


def test_no_time_at_all_is_no_delay(queue):
    """As 0 is."""
    assert queue.push("x", delay=DELTA(0)).state == "ready"


@pytest.mark.parametrize(("seconds", "delta"), EQUAL)
def test_under_a_key_equal_durations_are_one_call(queue, seconds, delta):
    """The first has its effect, in whatever form; the others return the same."""
    queue.push_many("ab")
    leased = queue.lease_many(1, seconds=seconds, once="lease")
    token = queue.lease()
    for given in (delta, seconds, delta):
        item = queue.push("x", delay=given, once="push")
        assert queue.push("x", delay=seconds, once="push") == item
        batch = queue.push_batch([Push("x", delay=given)], once="batch")
        assert queue.push_batch([Push("x", delay=seconds)], once="batch") == batch
        assert queue.lease_many(1, seconds=given, once="lease") == leased
        assert queue.extend(leased[0], given, once="extend").lease == leased[0].lease
        once = IdempotencyKey("nack")
        queue.nack(token, delay=given, once=once)
    assert once.replayed
    assert queue.counts().delayed == 3
    with pytest.raises(IdempotencyKeyReused):
        queue.push("x", delay=delta + DELTA(microseconds=1), once="push")
    with pytest.raises(IdempotencyKeyReused):
        queue.lease_many(1, seconds=delta * 2, once="lease")
