"""For a long time: what the short tests of faults and concurrency say."""

from __future__ import annotations

import os

import pytest

from tests.concurrency.clients import another
from tests.concurrency.kinds import KINDS, STRICT
from tests.concurrency.machine import explore
from tests.concurrency.test_forks import VERBS, check_forks
from tests.concurrency.test_killed import SHARDED, check_killed
from tests.concurrency.test_preempted import work
from tests.concurrency.test_signals import check_storm

#: How many operations each kind of test does in all.
OPERATIONS = int(os.environ.get("FDBQUEUE_SOAK_OPERATIONS", "200000"))
_HOURS = 6 * 3600
_STEPS = 40


def opened(engine, count):
    """Return so many clients of the data."""
    return [engine.database, *(another(engine.database) for _ in range(count - 1))]


@pytest.mark.parametrize("kind", STRICT + SHARDED, ids=str)
def test_kills(engine, subspace, start, kind):
    """Again and again processes are killed, and what they had reported holds."""
    for number in range(1 + OPERATIONS // 20_000):
        check_killed(engine, subspace, start, kind, name=str(number))


@pytest.mark.parametrize("verb", VERBS)
def test_forks(tmp_path, verb):
    """Whatever line of the service another thread is held up at, a forked child goes on."""
    check_forks(tmp_path / "q.sqlite3", verb, [])


@pytest.mark.parametrize("kind", STRICT, ids=str)
def test_the_model(database, subspace, clock, kind):
    """A queue does what its model does."""
    examples = OPERATIONS // len(STRICT) // _STEPS
    explore(kind, database, subspace, clock, examples=examples)


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_preempted(engine, subspace, kind, clients):
    """Threads held up at random lines lose nothing and repeat nothing."""
    queues = [kind.open(database, subspace) for database in opened(engine, clients)]
    turns = 1 + OPERATIONS // len(KINDS) // 100
    work(kind, queues, turns, seed=6, rate=0.003)


@pytest.mark.parametrize("kind", STRICT, ids=str)
@pytest.mark.parametrize("longest_seconds", [0.05, 0.005, 0.001])
def test_storms_of_signals(database, subspace, start, kind, longest_seconds):
    """Others lose nothing and get no error, for as long as signals come."""
    seconds = min(40, 1 + OPERATIONS // 10_000)
    check_storm(
        kind, database, subspace, start, seconds=seconds, longest_seconds=longest_seconds, seed=8
    )
