"""Whatever line a thread is held up at, each item is taken once and none is lost."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another, together
from tests.concurrency.kinds import KINDS
from tests.concurrency.preemption import preempted

THREADS, TURNS = 9, 12
CHOSEN = [kind for kind in KINDS if kind.name in {"fifo", "ints", "fifo-shards"}]


def work(kind, queues, turns, seed, *, threads=THREADS, rate=0.004):
    """Let threads push, pop, lease, acknowledge and give up, held up at random lines."""
    taken = []
    pushed = []

    def push(queue, thread, turn):
        text = f"{thread}.{turn}"
        queue.push(kind.value(text), kind.priorities[turn % len(kind.priorities)])
        pushed.append(text)

    def pop(queue, thread, turn):
        count = 1 + turn % 3
        items = queue.pop_many(count, end=("min", "max")[turn % 2])
        taken.extend(kind.text(item.value) for item in items)

    def lease(queue, thread, turn):
        item = queue.lease(seconds=600)
        if item is None:
            return
        if (thread + turn) % 4 == 0:
            queue.nack(item)
            return
        if turn % 2:
            queue.ack(item)
            taken.append(kind.text(item.value))
            return
        following = queue.lease_many(1, seconds=600, ack=[item])
        taken.append(kind.text(item.value))
        queue.ack_many(following)
        taken.extend(kind.text(one.value) for one in following)

    doings = (push, push, pop, push, lease)

    def toil(thread):
        for turn in range(turns):
            queue = queues[thread % len(queues)]
            for step, doing in enumerate(doings, turn * len(doings)):
                doing(queue, thread, step)

    with preempted(seed, rate):
        together(threads, toil, deadline_seconds=120 + turns)
    left = [kind.text(item.value) for item in assert_counted(queues[0])["ready"]]
    assert [text for text, count in Counter(taken + left).items() if count > 1] == []
    assert sorted(taken + left) == sorted(pushed)


@pytest.mark.parametrize("kind", CHOSEN, ids=str)
def test_threads_of_one_client(database, subspace, kind):
    """They combine."""
    queue = kind.open(database, subspace)
    work(kind, [queue], TURNS, seed=1)


@pytest.mark.parametrize("kind", CHOSEN, ids=str)
def test_threads_of_several_clients(database, subspace, kind):
    """They combine, and ask each other for help."""
    queues = [kind.open(another(database), subspace) for _ in range(3)]
    work(kind, queues, TURNS, seed=2)


def test_a_helper_that_ends_and_is_started_again(database, subspace, monkeypatch):
    """No thread waits for a helper that has just gone."""
    monkeypatch.setattr("fdbqueue.service.combiner._IDLE_SECONDS", 0.0005)
    kind = CHOSEN[0]
    queue = kind.open(database, subspace)
    queue.push_many(kind.pairs([kind.value(str(n)) for n in range(600)], [None] * 600))

    def pop(thread):
        pause = threading.Event()
        found = []
        while item := queue.pop():
            found.append(kind.text(item.value))
            pause.wait(0.001 * (thread % 3))
        return found

    with preempted(3, 0.002):
        found = together(6, pop)
    assert sorted(text for each in found for text in each) == sorted(map(str, range(600)))
