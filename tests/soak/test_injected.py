"""Queues on a cluster whose client injects faults: nothing is lost, nothing comes twice."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.concurrency.census import assert_counted
from tests.concurrency.clients import together
from tests.concurrency.kinds import KINDS
from tests.engines.children import Child
from tests.soak.injected import SCRIPT
from tests.soak.test_soak import OPERATIONS

_HOURS = 6 * 3600
PLAIN = [kind for kind in KINDS if kind.name not in {"fifo-bytes", "floats-bytes"}]

#: Processes, and threads of each: alone; combined; helped by other processes, too.
CROWDS = [(1, 1), (1, 16), (4, 4)]


def drained(kind, queue):
    """Take all that is left, what others were handed and did not collect included."""
    while items := queue.pop_many(1_000):
        yield from (kind.text(item.value) for item in items)


@pytest.mark.parametrize("engine", ["foundationdb"], indirect=True)
@pytest.mark.parametrize("way", ["popped", "leased"])
@pytest.mark.parametrize(("processes", "threads"), CROWDS)
@pytest.mark.parametrize("kind", PLAIN, ids=str)
def test_the_clients_own_faults(engine, subspace, kind, processes, threads, way):
    """What was pushed was taken once, and the counts are right, whatever the client did."""
    each = OPERATIONS // 10 // processes
    options = {"threads": threads, "operations": each, "way": way, "deadline_seconds": _HOURS}
    place = (kind.name, subspace.key().hex())
    children = [
        Child(
            "unused",
            SCRIPT,
            *place,
            json.dumps({"name": str(number), **options}),
            deadline_seconds=_HOURS,
        )
        for number in range(processes)
    ]
    try:
        said = together(processes, lambda number: children[number].end(), deadline_seconds=_HOURS)
    finally:
        for child in children:
            child.kill()
    queue = kind.open(engine.database, subspace)
    assert_counted(queue)
    taken = Counter(text for (line,) in said for text in json.loads(line))
    taken.update(drained(kind, queue))
    pushed = {f"{name}-{number}" for name in range(processes) for number in range(each)}
    assert sorted(pushed - taken.keys()) == []
    assert [text for text, count in taken.items() if count > 1] == []
    assert taken.keys() == pushed
    assert not any(assert_counted(queue).values())
