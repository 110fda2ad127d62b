"""Takes from several queues, held up, interrupted, killed: nothing is lost or comes twice."""

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
from tests.concurrency.worker import STORMED, several_queues
from tests.engines.children import wait_until

NAMES = ["none", "high", "low"]
PROCESSES, THREADS = 4, 3
#: So many lines of the service run from the commit of a take from several queues to its end.
LAST_LINES = 120
FIFO = KINDS[0]


def fill(catalog, count):
    """Push numbered values to two of the queues, and return their texts."""
    texts = [str(number) for number in range(count)]
    for name, own in (("high", texts[::2]), ("low", texts[1::2])):
        catalog.queue(name).push_many([FIFO.value(text) for text in own])
    return texts


def left(catalog):
    """Return the texts of the ready items, after checking that the counts are right."""
    found = [assert_counted(catalog.queue(name))["ready"] for name in NAMES]
    return [FIFO.text(item.value) for items in found for item in items]


@pytest.mark.parametrize("operation", ["pop", "lease"])
def test_an_interrupt_at_any_line(database, subspace, operation):
    """An error that says that nothing was taken is right; one that does not leaves at most one.

    At some of the lines before the commit, and at all of the last, behind it.
    """
    catalog = several_queues(database, subspace)
    several = catalog.several(NAMES)
    low = catalog.queue("low")
    combiners = [one.poppers["min"].combiner for one in (low.parts.group, several._group)]
    trace, count = raising_at(0, KeyboardInterrupt())
    low.push_many([FIFO.value("a"), FIFO.value("b")])
    sys.settrace(lambda *_: trace)
    getattr(several, operation)()
    sys.settrace(None)
    lines = count()
    raised, threads = 0, threading.active_count()
    for line in [*range(1, lines - LAST_LINES, 20), *range(lines - LAST_LINES, lines)]:
        low.clear()
        low.push_many([FIFO.value("a"), FIFO.value("b")])
        trace, _ = raising_at(line, KeyboardInterrupt(), passes_with=True)
        known = None
        sys.settrace(lambda *_: trace)  # noqa: B023  # called in this turn
        try:
            getattr(several, operation)(seconds=600) if operation == "lease" else several.pop()
        except KeyboardInterrupt as error:
            raised += 1
            known = getattr(error, "outcome_known", None)
        finally:
            sys.settrace(None)
        wait_until(lambda: not any(one.orphans or one.is_busy for one in combiners))
        assert low.size() in ({2} if known is True else {1, 2})
        counts = low.counts()
        assert counts.ready + counts.leased <= 2
        assert_counted(low)
        assert FIFO.text(several.pop().value) in {"a", "b"}
    assert raised > LAST_LINES // 2
    assert threading.active_count() < threads + 50


def test_processes_that_are_killed(engine, subspace, start):
    """Those who pop on get everything but what the dead may have taken, each once."""
    catalog = several_queues(engine.database, subspace)
    texts = fill(catalog, 1_500)
    children = [start(FIFO, "pop_several", threads=THREADS) for _ in range(PROCESSES)]
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
        items = catalog.several(NAMES).pop_many(500)
        popped.extend(FIFO.text(item.value) for item in items)
        return not items and not any(catalog.queue(name).size() for name in NAMES)

    wait_until(is_empty)
    assert [text for text, count in Counter(popped).items() if count > 1] == []
    assert len(set(texts) - set(popped)) <= len(victims) * THREADS
    assert set(popped) <= set(texts)


def test_a_storm_of_signals(database, subspace, start):
    """Nothing is lost but what the interrupted thread was told may be."""
    child = start(FIFO, "storm_several", seconds=2.5, threads=0, longest_seconds=0.003, seed=1)
    said = json.loads(child.line())
    child.end()
    assert (said["errors"], said["hung"]) == ([], 0)
    assert said["interrupted"] > 50
    catalog = several_queues(database, subspace)
    found = Counter(said["taken"] + left(catalog))
    assert [text for text, count in found.items() if count > 1] == []
    assert STORMED - len(found) <= said["unknown"]
