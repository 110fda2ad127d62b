"""Consumers that wait for items, on a database whose commits fail."""

from __future__ import annotations

import pytest

from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another, together
from tests.concurrency.kinds import KINDS

CONSUMERS, ITEMS = 8, 12
_LONG_SECONDS = 60


@pytest.mark.parametrize("kind", KINDS[::3], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_every_item_wakes_somebody(engine, faulty, subspace, kind, seed):
    """Each consumer waits until it has its share, and gets what nobody else gets."""
    databases = [faulty(seed=seed + n, database=another(engine.database)) for n in range(2)]
    queues = [kind.open(database, subspace) for database in databases]
    texts = [str(number) for number in range(CONSUMERS * ITEMS)]

    def produce():
        for number, text in enumerate(texts):
            priority = kind.priorities[number % len(kind.priorities)]
            queues[0].push(kind.value(text), priority, delay=0.001 if number % 5 == 0 else None)

    def consume(number):
        found = []
        while len(found) < ITEMS:
            if number % 2:
                items = queues[number // 2 % 2].pop_many(1, wait=_LONG_SECONDS)
            else:
                items = queues[number // 2 % 2].lease_many(1, wait=_LONG_SECONDS)
                queues[0].ack_many(items)
            assert items, "nothing came in time"
            found += [kind.text(item.value) for item in items]
        return found

    def work(number):
        return produce() if number == CONSUMERS else consume(number)

    *shares, _ = together(CONSUMERS + 1, work)
    assert sorted(text for share in shares for text in share) == sorted(texts)
    assert not any(assert_counted(queues[0]).values())
