"""Calls under idempotency keys, made again for as long as nobody knows what became of them."""

from __future__ import annotations

import functools

import pytest

from fdbqueue.exceptions import OutcomeUnknown
from fdbqueue.service import Push
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another, together
from tests.concurrency.kinds import KINDS
from tests.engines.children import wait_until
from tests.faults.faulty import AFTER, LATE, Fault

TIMED_OUT = 1031
MOMENTS = ["before", "after", "late: first", "late: meanwhile", "late: last"]
#: After these it is not known, for all that the retry loop does, whether a commit took effect.
UNKNOWN = [Fault(TIMED_OUT, moment) for moment in MOMENTS]
TURNS = 16
#: When what one client took for another goes back.
AWAY_SECONDS = 0.5


def insist(call, unknown):
    """Make a call again and again until it is answered, counting how often that was unknown."""
    while True:
        try:
            return call()
        except OutcomeUnknown:
            unknown.append(call)
        except Exception as error:
            if getattr(error, "code", None) != TIMED_OUT:
                raise


def calls_of(kind, queue, key, turn):
    """Return what a client does in a turn, as calls that it can make again."""
    priority = kind.priorities[turn % len(kind.priorities)]
    push, end = Push(kind.value(key), priority), ["min", "max"][turn % 2]
    return [
        lambda: [queue.push(push.value, priority, once=f"push {key}")],
        lambda: queue.push_batch([push, push], once=f"batch {key}"),
        lambda: queue.pop_many(1 + turn % 2, end=end, once=f"pop {key}"),
        lambda: queue.lease_many(1 + turn % 2, end=end, once=f"lease {key}"),
    ]


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_calls_of_unknown_outcome_are_made_again(engine, faulty, subspace, kind, threads):
    """Each takes effect once in the end: nothing is lost, nothing is there twice."""
    faults = [*UNKNOWN, *UNKNOWN, *AFTER, *LATE]
    databases = [
        faulty(seed=n, rate=0.5, faults=faults, database=another(engine.database)) for n in range(2)
    ]
    queues = [kind.open(each, subspace, handoff_timeout_seconds=AWAY_SECONDS) for each in databases]
    sound = kind.open(engine.database, subspace)
    unknown = []

    def work(thread):
        queue, pushed, taken = queues[thread % 2], [], []
        for turn in range(TURNS):
            calls = calls_of(kind, queue, f"{thread}-{turn}", turn)
            one, two, popped, leased = (insist(call, unknown) for call in calls)
            following = functools.partial(
                queue.lease_many, 1, ack=leased, once=f"next {thread}-{turn}", wait=0
            )
            leased = [*leased, *(last := insist(following, unknown))]
            assert sound.ack_many(last) == len(last)
            pushed += [item.id for item in (*one, *two)]
            taken += [item.id for item in (*popped, *leased)]
        return pushed, taken

    found = together(threads, work)
    pushed = [item_id for each, _ in found for item_id in each]
    taken = [item_id for _, each in found for item_id in each]

    def is_empty():  # what was taken for those who gave up on it goes back
        taken.extend(item.id for item in sound.pop_many(100))
        return not sound.size()

    wait_until(is_empty)
    assert len(set(pushed)) == len(pushed) == 3 * TURNS * threads
    assert sorted(taken) == sorted(pushed)
    assert not any(assert_counted(sound).values())
    assert len(unknown) > TURNS // 2
    assert sum(minute.pushes for minute in sound.history(5)) == len(pushed)
    assert sum(minute.pops for minute in sound.history(5)) == len(taken)
