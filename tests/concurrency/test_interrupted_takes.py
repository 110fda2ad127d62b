"""Takes from a family and from several queues, interrupted: nothing is lost or comes twice."""

from __future__ import annotations

import sys
import threading

import fdb.tuple
import pytest

from fdbqueue.service import Catalog, QueueSpec
from tests.concurrency.census import assert_counted
from tests.concurrency.preemption import raising_at
from tests.engines.children import wait_until
from tests.families import assert_indexed

#: So many lines of the service run from the commit of a take to its end.
LAST_LINES = 120


@pytest.fixture(params=["a family", "names"])
def taken(request, database, subspace):
    """A catalog, the queues that are taken from, and the one that has items."""
    names = ["user-*"] if request.param == "a family" else ["none", "high", "low"]
    specs = [QueueSpec(name, "fifo", handoff_timeout_seconds=0.5) for name in names]
    catalog = Catalog(database, fdb.tuple.unpack(subspace.key()), specs)
    return catalog, catalog.several(names), catalog.queue(names[-1].replace("*", "1"))


@pytest.mark.parametrize("operation", ["pop", "lease"])
def test_an_interrupt_at_any_line(taken, operation):
    """An error that says that nothing was taken is right; one that does not leaves at most one.

    At some of the lines before the commit, and at all of the last, behind it.
    """
    catalog, several, queue = taken
    for _ in range(2):  # the first call opens queues, too
        trace, count = raising_at(0, KeyboardInterrupt())
        queue.push_many("ab")
        sys.settrace(lambda *_: trace)  # noqa: B023  # called in this turn
        getattr(several, operation)()
        sys.settrace(None)
    lines = count()
    raised, threads = 0, threading.active_count()
    for line in [*range(1, lines - LAST_LINES, 20), *range(lines - LAST_LINES, lines)]:
        queue.clear()
        queue.push_many("ab")
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
        group = several._group
        poppers = [*group.poppers.values(), group.finder, queue.parts.group.poppers["min"]]
        combiners = [one.combiner for one in poppers]
        wait_until(
            lambda: not any(one.orphans or one.is_busy for one in combiners)  # noqa: B023  # as above
        )
        assert queue.size() in ({2} if known is True else {1, 2})
        counts = queue.counts()
        assert counts.ready + counts.leased <= 2
        assert_counted(queue)
        assert_indexed(catalog)
        assert several.pop().value in {"a", "b"}
    assert raised > LAST_LINES // 2
    assert threading.active_count() < threads + 50
