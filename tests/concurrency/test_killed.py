"""Processes killed at any instant: what they had reported holds, and nothing comes twice."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter

import pytest

from tests.concurrency.census import assert_counted
from tests.concurrency.clients import together
from tests.concurrency.kinds import KINDS
from tests.concurrency.requests import requests_of
from tests.concurrency.worker import open_queue
from tests.engines.children import wait_until

PROCESSES, THREADS = 4, 3
CHOSEN = [kind for kind in KINDS if kind.name in {"fifo", "ints-commit-bytes", "floats-bytes"}]
SHARDED = [kind for kind in KINDS if kind.name == "ints-shards"]


#: Counts, whether attempts have rows of their own, the history, and what stays of both.
KEPT = {0x01, 0x02, 0x05, 0x07, 0x0E, 0x0F}
REQUESTS = 0x03


def drain(kind, queue, engine, subspace):
    """Pop until nothing is left, what the dead had leased, asked for or were handed included."""
    texts = []

    def is_empty():
        texts.extend(kind.text(item.value) for item in queue.pop_many(500))
        counts = queue.counts()
        rest = tables(engine.database, subspace) - KEPT - {REQUESTS}
        # the row of a request for leases that was served stays until versions have moved on
        open_requests = [one for one in requests_of(queue) if not (one.lease_us and one.is_handed)]
        is_away = counts.leased or counts.delayed or rest or open_requests
        return not counts.ready and not is_away

    wait_until(is_empty)
    assert not any(assert_counted(queue).values())
    return texts


def tables(database, subspace):
    """Return the tables of a queue, besides its items, in which something is stored."""
    tables = subspace.key() + b"\xff"
    rows = database.create_transaction().get_range(tables, tables + b"\xff")
    return {row.key[len(tables)] for row in rows}


def unfinished(facts):
    """Return what threads were doing when they were killed."""
    doing = {}
    for fact in facts:
        doing[fact["who"]] = None if fact["done"] else fact
    return [fact for fact in doing.values() if fact is not None]


def read_and_kill(child, lines):
    """Kill a process once it has said so much, or has ended, and return all that it said."""
    said = list(itertools.islice(iter(child.line, ""), lines))
    return [json.loads(line) for line in [*said, *child.kill()]]


def check_killed(engine, subspace, start, kind, name=""):
    """Let processes toil, kill each at some time, and check what they reported."""
    children = [start(kind, "toil", name=f"{name}{n}-", threads=THREADS) for n in range(PROCESSES)]
    lines = [random.randrange(50, 400) for _ in children]
    said = together(PROCESSES, lambda n: read_and_kill(children[n], lines[n]))
    assert all(len(each) >= count for each, count in zip(said, lines, strict=True))
    check_reported(engine, subspace, kind, [fact for each in said for fact in each])


def check_reported(engine, subspace, kind, facts, least=50):
    """Check what processes reported that toiled on a queue until they were killed."""
    done = [fact for fact in facts if fact["done"]]
    doubtful = unfinished(facts)
    queue = open_queue(kind, engine.database, subspace)

    pushed = {text for fact in done if fact["doing"] == "push" for text in fact["facts"]}
    taken = [text for fact in done if fact["doing"] != "push" for text in fact["facts"]]
    taken += drain(kind, queue, engine, subspace)
    perhaps = {text for fact in doubtful if fact["doing"] == "push" for text in fact["facts"]}
    acked = {text for fact in doubtful if fact["doing"] == "ack" for text in fact["facts"]}
    popping = sum(fact["facts"] for fact in doubtful if fact["doing"] == "pop")

    assert len(pushed) > least
    assert [text for text, count in Counter(taken).items() if count > 1] == []
    assert set(taken) - pushed - perhaps == set()
    assert len(pushed - set(taken) - acked) <= popping


@pytest.mark.parametrize("kind", CHOSEN + SHARDED, ids=str)
def test_what_was_reported_holds(engine, subspace, start, kind):
    """But for what each thread was doing when it died, pushes are there and pops are gone."""
    check_killed(engine, subspace, start, kind)


@pytest.mark.parametrize("kind", CHOSEN, ids=str)
def test_the_death_of_poppers_stops_nobody(engine, subspace, start, kind):
    """Those who pop on get everything but what the dead may have taken, each once."""
    queue = open_queue(kind, engine.database, subspace)
    texts = [str(number) for number in range(1_500)]
    priorities = [kind.priorities[n % len(kind.priorities)] for n in range(len(texts))]
    queue.push_many(kind.pairs([kind.value(text) for text in texts], priorities))
    children = [start(kind, "pop", threads=THREADS) for _ in range(PROCESSES)]
    for child in children:
        child.expect('"ready"')
    for child in children:
        child.tell()
    *victims, survivor = children
    lines = [random.randrange(20, 150) for _ in victims]
    said = together(len(victims), lambda n: read_and_kill(victims[n], lines[n]))
    popped = [text for each in said for text in each]
    popped += [json.loads(line) for line in survivor.end()]
    popped += drain(kind, queue, engine, subspace)
    assert [text for text, count in Counter(popped).items() if count > 1] == []
    assert len(set(texts) - set(popped)) <= len(victims) * THREADS
    assert set(popped) <= set(texts)
