"""Takes from a family, held up, interrupted, killed, at random: nothing is lost or comes twice."""

from __future__ import annotations

import json
import random
import sys
import threading
from collections import Counter

import pytest

from tests.concurrency.census import assert_counted
from tests.concurrency.clients import together
from tests.concurrency.kinds import KINDS
from tests.concurrency.preemption import raising_at
from tests.concurrency.test_killed import read_and_kill
from tests.concurrency.worker import STORMED, family_of
from tests.engines.children import wait_until
from tests.families import assert_indexed, rows_of

PROCESSES, THREADS = 4, 3
#: So many lines of the service run from the commit of a take from a family to its end.
LAST_LINES = 120
FIFO = KINDS[0]


def fill(catalog, count, members):
    """Push numbered values to some members, and return their texts."""
    texts = [str(number) for number in range(count)]
    for number in range(members):
        own = [FIFO.value(text) for text in texts[number::members]]
        catalog.queue(f"user-{number}").push_many(own)
    return texts


def left(catalog):
    """Return the texts of the ready items, after checking that counts and rows are right."""
    assert_indexed(catalog)
    found = [assert_counted(queue)["ready"] for queue in catalog.queues()]
    return [FIFO.text(item.value) for items in found for item in items]


@pytest.mark.parametrize("operation", ["pop", "lease"])
def test_an_interrupt_at_any_line(database, subspace, operation):
    """An error that says that nothing was taken is right; one that does not leaves at most one.

    At some of the lines before the commit, and at all of the last, behind it.
    """
    catalog = family_of(database, subspace)
    users, member = catalog.several(["user-*"]), catalog.queue("user-1")
    combiner = users._group.poppers["min"].combiner
    trace, count = raising_at(0, KeyboardInterrupt())
    member.push_many([FIFO.value("a"), FIFO.value("b")])
    sys.settrace(lambda *_: trace)
    getattr(users, operation)()
    sys.settrace(None)
    lines = count()
    raised, threads = 0, threading.active_count()
    for line in [*range(1, lines - LAST_LINES, 20), *range(lines - LAST_LINES, lines)]:
        member.clear()
        member.push_many([FIFO.value("a"), FIFO.value("b")])
        trace, _ = raising_at(line, KeyboardInterrupt(), passes_with=True)
        known = None
        sys.settrace(lambda *_: trace)  # noqa: B023  # called in this turn
        try:
            getattr(users, operation)(seconds=600) if operation == "lease" else users.pop()
        except KeyboardInterrupt as error:
            raised += 1
            known = getattr(error, "outcome_known", None)
        finally:
            sys.settrace(None)
        own = member.parts.group.poppers["min"].combiner
        wait_until(lambda own=own: not (combiner.orphans or combiner.is_busy or own.orphans))
        wait_until(lambda own=own: not own.is_busy)
        assert member.size() in ({2} if known is True else {1, 2})
        counts = member.counts()
        assert counts.ready + counts.leased <= 2
        assert_counted(member)
        assert_indexed(catalog)
        assert FIFO.text(users.pop().value) in {"a", "b"}
    assert raised > LAST_LINES // 2
    assert threading.active_count() < threads + 50


@pytest.mark.parametrize("fair", [False, True])
def test_an_interrupt_under_a_key(database, subspace, fair):
    """At the last lines, around the commit: the same call takes one item, and takes it once."""
    catalog = family_of(database, subspace)
    users, member = catalog.several(["user-*"], fair=fair), catalog.queue("user-1")
    member.push(FIFO.value("a"))
    users.pop(once="first")  # fills the caches
    trace, count = raising_at(0, KeyboardInterrupt())
    member.push(FIFO.value("a"))
    sys.settrace(lambda *_: trace)
    users.pop(once="counted")
    sys.settrace(None)
    raised = 0
    for line in range(count() - LAST_LINES, count()):
        member.clear()
        member.push_many([FIFO.value("a"), FIFO.value("b")])
        trace, _ = raising_at(line, KeyboardInterrupt(), passes_with=True)
        sys.settrace(lambda *_: trace)  # noqa: B023  # called in this turn
        try:
            users.pop(once=f"key {line}")
        except KeyboardInterrupt:
            raised += 1
        finally:
            sys.settrace(None)
        own = member.parts.group.poppers["min"].combiner
        wait_until(lambda own=own: not (own.orphans or own.is_busy))
        assert FIFO.text(users.pop(once=f"key {line}").value) == "a"
        assert [FIFO.text(item.value) for item in member] == ["b"]
        assert_counted(member)
    assert raised > LAST_LINES // 2


def test_processes_that_are_killed(engine, subspace, start):
    """Those who pop on get everything but what the dead may have taken, each once."""
    catalog = family_of(engine.database, subspace)
    texts = fill(catalog, 1_500, 40)
    children = [start(FIFO, "pop_family", threads=THREADS) for _ in range(PROCESSES)]
    for child in children:
        child.expect('"ready"')
    for child in children:
        child.tell()
    *victims, survivor = children
    lines = [random.randrange(20, 150) for _ in victims]
    said = together(len(victims), lambda n: read_and_kill(victims[n], lines[n]))
    popped = [text for each in said for text in each]
    popped += [json.loads(line) for line in survivor.end()]

    def is_empty():
        items = catalog.several(["user-*"]).pop_many(500)
        popped.extend(FIFO.text(item.value) for item in items)
        return not items and not any(queue.size() for queue in catalog.queues())

    wait_until(is_empty)
    assert [text for text, count in Counter(popped).items() if count > 1] == []
    assert len(set(texts) - set(popped)) <= len(victims) * THREADS
    assert set(popped) <= set(texts)
    assert rows_of(catalog, "user-*") == {}


@pytest.mark.parametrize("threads", [0, 2])
def test_a_storm_of_signals(database, subspace, start, threads):
    """Nothing is lost but what the interrupted thread was told may be."""
    child = start(FIFO, "storm_family", seconds=2.5, threads=threads, longest_seconds=0.003, seed=1)
    said = json.loads(child.line())
    child.end()
    assert (said["errors"], said["hung"]) == ([], 0)
    assert said["interrupted"] > 20
    found = Counter(said["taken"] + left(family_of(database, subspace)))
    assert [text for text, count in found.items() if count > 1] == []
    assert STORMED - len(found) <= said["unknown"]
