"""The limits of a queue while many processes take from it, and while some of them are killed."""

from __future__ import annotations

import json
import threading
from collections import Counter

import pytest

from fdbqueue.service import run
from fdbqueue.service.storage.tables import State
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import together
from tests.concurrency.kinds import KINDS

PROCESSES, THREADS, ITEMS = 3, 4, 240
CHOSEN = [kind for kind in KINDS if kind.name in {"fifo", "floats-bytes"}]
LIMITS = {
    "leased": {"max_leased": 5},
    "paced": {"rate": "120/s", "burst": 6},
    "both": {"max_leased": 3, "rate": "150/s", "burst": 4},
}
RATES = {"paced": (120, 6), "both": (150, 4)}


def fill(kind, queue):
    """Push the items, and return their texts."""
    texts = [str(number) for number in range(ITEMS)]
    priorities = [kind.priorities[n % len(kind.priorities)] for n in range(ITEMS)]
    queue.push_many(kind.pairs([kind.value(text) for text in texts], priorities))
    return texts


def leases(queue):
    """Return how many leases are stored, counted one by one, and how many that is by the count."""
    store = queue.parts.store

    def read(tr):
        rows = list(tr.snapshot.get_range(*store.tables.state_bounds(State.LEASED)))
        return len(rows) // 2, queue.counts(tr=tr).leased

    return run(queue.database, read, read_only=True)


def watch(queue, is_over):
    """Look again and again how many leases there are; return the most."""
    most = 0
    while not is_over.is_set():
        stored, counted = leases(queue)
        assert stored == counted
        most = max(most, stored)
    return most


def check_rate(facts, rate, burst):
    """Check that in no window of time more was taken than the rate and the burst allow.

    Each was taken between two moments, so a window has at least those that lie in it wholly.
    """
    taken = [(fact["begun"], fact["at"]) for fact in facts if "took" in fact]
    assert len(taken) >= ITEMS / 2
    for begin in sorted(begun for begun, _ in taken):
        inside = sorted(at for begun, at in taken if begun >= begin)
        for count, at in enumerate(inside, 1):
            assert count <= rate * (at - begin) + burst + 1e-3


def run_processes(kind, engine, subspace, start, limits, kills):
    """Let processes take from a queue with limits, kill some; return what they said."""
    queue = kind.open(engine.database, subspace, **limits)
    texts = fill(kind, queue)
    arguments = {"threads": THREADS, "limits": limits}
    children = [start(kind, "work_limited", **arguments) for _ in range(PROCESSES)]
    for child in children:
        child.expect('"ready"')
    is_over = threading.Event()

    def work(number):
        if number == PROCESSES:
            return watch(queue, is_over)
        try:
            child = children[number]
            if number < kills:
                said = [child.line() for _ in range(20 + 20 * number)]
                return [*said, *child.kill()]
            return child.end()
        finally:
            ended.append(number)
            if len(ended) == PROCESSES:
                is_over.set()

    ended = []
    for child in children:
        child.tell()
    *said, most = together(PROCESSES + 1, work)
    return queue, texts, [json.loads(line) for each in said for line in each if line], most


@pytest.mark.parametrize("kills", [0, 2])
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("kind", CHOSEN, ids=str)
def test_limits_hold(engine, subspace, start, kind, limits, kills):
    """At every moment, at both ends, however it is taken; and what dies comes back.

    Leases of the dead expire, and their tokens are no more than what they took.
    """
    queue, texts, facts, most = run_processes(kind, engine, subspace, start, LIMITS[limits], kills)
    taken = Counter(fact["took"] for fact in facts if "took" in fact)
    if not kills:
        assert set(taken) == set(texts)
    assert len(set(texts) - set(taken)) <= 2 * kills * THREADS
    assert most <= LIMITS[limits].get("max_leased", ITEMS)
    if limits in RATES:
        check_rate(facts, *RATES[limits])
    assert not any(assert_counted(queue).values())
