"""Whatever clients do at once, there is an order of their calls that explains it all."""

from __future__ import annotations

import json
import random

import pytest

from tests.concurrency.clients import another, together
from tests.concurrency.history import Call, Recorder
from tests.concurrency.kinds import KINDS, STRICT
from tests.concurrency.linearizable import broken_rules, linearization

CALLS = ["push", "push", "push", "pop_min", "pop_max", "pop_many_min", "pop_many_max"]
#: Only in commit order do the items of one push stay together, and does nobody see an item
#: that another will yet come before: pushes at once have no order among themselves.
IN_COMMIT_ORDER = [*CALLS, "push_many", "peek_min", "peek_max"]
SINGLE = ["push", "pop_min", "pop_max"]


def record(kind, databases, subspace, *, clients, calls, seed, names, deadline_seconds=120):
    """Let clients work on one queue at once, and return their calls."""
    recorders = [
        Recorder(
            kind,
            kind.open(databases[number % len(databases)], subspace),
            number,
            random.Random(f"{seed} {number}"),
            names,
        )
        for number in range(clients)
    ]
    found = together(
        clients, lambda number: recorders[number].work(calls), deadline_seconds=deadline_seconds
    )
    return sorted(call for calls in found for call in calls)


@pytest.mark.parametrize("databases", [1, 3])
@pytest.mark.parametrize("kind", STRICT, ids=str)
def test_short_histories(engine, subspace, kind, databases):
    """6 clients, 8 calls each, of one database object or of three, many times over."""
    opened = [engine.database, *(another(engine.database) for _ in range(databases - 1))]
    names = IN_COMMIT_ORDER if kind.options.get("order") == "commit" else CALLS
    for seed in range(6):
        calls = record(kind, opened, subspace[seed], clients=6, calls=8, seed=seed, names=names)
        assert linearization(calls), "\n".join([f"seed {seed}", *map(str, calls)])


@pytest.mark.parametrize("databases", [1, 3])
@pytest.mark.parametrize("kind", STRICT, ids=str)
def test_long_histories(engine, subspace, kind, databases):
    """16 clients never pass an item over, take one twice, or find nothing where one is."""
    opened = [engine.database, *(another(engine.database) for _ in range(databases - 1))]
    calls = record(kind, opened, subspace, clients=16, calls=40, seed=1, names=SINGLE)
    assert broken_rules(calls) == []


@pytest.mark.parametrize("kind", STRICT[:1] + STRICT[-1:], ids=str)
def test_processes(start, kind):
    """Of the calls of several processes it is as true as of threads."""
    rounds, names = 6, IN_COMMIT_ORDER if kind.options.get("order") == "commit" else CALLS
    children = [
        start(kind, "record", name=name, threads=2, rounds=rounds, calls=7, names=names)
        for name in "abc"
    ]
    for _ in range(rounds):
        for child in children:
            child.expect('"ready"')
        for child in children:
            child.tell()
        said = [call for child in children for call in json.loads(child.line())]
        calls = [Call(*call[:4], tuple(call[4]), tuple(map(tuple, call[5]))) for call in said]
        assert linearization(calls), "\n".join(map(str, sorted(calls)))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.is_strict], ids=str)
def test_pops_from_shards_find_something_where_something_is(engine, subspace, kind):
    """They may pass items over; but they take none twice, and none is missed at the end."""
    opened = [engine.database, another(engine.database)]
    calls = record(kind, opened, subspace, clients=16, calls=30, seed=2, names=SINGLE)
    pushed = {text for call in calls if call.name == "push" for _, text in call.argument}
    popped = [text for call in calls for text in call.result]
    left = [kind.text(item.value) for item in kind.open(opened[0], subspace).pop_many(1000)]
    assert sorted(popped + left) == sorted(pushed)
