"""Takes from a family take effect once, and no row is missing, whatever commits do."""

from __future__ import annotations

import time

import pytest

from fdbqueue.service import IdempotencyKey
from tests.concurrency.census import assert_counted
from tests.concurrency.clients import another, together
from tests.concurrency.worker import family_of
from tests.families import assert_indexed, rows_of

MEMBERS = 5


def work_and_check(databases, subspace, *, threads, operations):
    """Let threads work on a family through several databases; all items come once."""
    catalogs = [family_of(database, subspace) for database in databases]
    pushed, taken = [], []

    def work(number):
        catalog = catalogs[number % len(catalogs)]
        users = catalog.several(["user-*"])
        for turn in range(operations):
            text = f"{number}.{turn}"
            delay = 0.01 if turn % 5 == 4 else None
            catalog.queue(f"user-{(number + turn) % MEMBERS}").push(text, delay=delay)
            pushed.append(text)
            if turn % 4 == 0:
                taken.extend(item.value for item in users.pop_many(2))
            elif turn % 4 == 1:
                key = IdempotencyKey(text)
                item = users.pop(once=key)
                assert users.pop(once=key) == item
                taken.extend([] if item is None else [item.value])
            else:
                leased = users.lease(seconds=600)
                if leased is not None and turn % 4 == 2:
                    users.nack(leased)
                elif leased is not None:
                    users.ack(leased)
                    taken.append(leased.value)

    together(threads, work)
    users = catalogs[0].several(["user-*"])
    until = time.monotonic() + 60
    while len(taken) < len(pushed) and time.monotonic() < until:
        taken.extend(item.value for item in users.pop_many(20, wait=0.5))
    assert sorted(taken) == sorted(pushed)
    assert users.pop() is None
    assert_indexed(catalogs[0])
    for queue in catalogs[0].queues():
        assert not any(assert_counted(queue).values())


@pytest.mark.parametrize("seed", range(3))
def test_one_client(faulty, subspace, seed):
    """Nothing is lost, nothing is there twice, and no row is missing or left."""
    database = faulty(seed=seed)
    work_and_check([database], subspace, threads=1, operations=60)
    assert database.happened.total() > 10
    database._rate = 0
    catalog = family_of(database, subspace)
    assert catalog.several(["user-*"]).pop() is None
    assert rows_of(catalog, "user-*") == {}


def test_16_threads(faulty, subspace):
    """Threads that share transactions."""
    work_and_check([faulty(seed=1)], subspace, threads=16, operations=16)


def test_16_threads_of_4_clients(engine, faulty, subspace):
    """Clients that share nothing but the data."""
    databases = [faulty(seed=n, database=another(engine.database)) for n in range(4)]
    work_and_check(databases, subspace, threads=16, operations=16)
