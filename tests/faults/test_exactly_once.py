"""Every operation takes effect once and returns its own result, whatever commits do."""

from __future__ import annotations

import pytest

from tests.concurrency.clients import another
from tests.concurrency.kinds import KINDS
from tests.faults.workload import work_and_check


def receipts_in(database, subspace):
    """Return the keys of the receipts in a subspace."""
    found = subspace.range()
    rows = database.create_transaction().get_range(found.start, found.stop)
    return [row.key for row in rows]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_one_client(engine, faulty, subspace, kind, seed):
    """Nothing is lost, nothing is there twice, and the counts are exact."""
    database = faulty(seed=seed)
    work_and_check(kind, [database], subspace, threads=1, operations=100, seed=seed)
    assert len(receipts_in(engine.database, subspace["receipts"])) == 1
    assert database.happened.total() > 20


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_16_threads(engine, faulty, subspace, kind):
    """Threads that share a database take and leave one another's work."""
    work_and_check(kind, [faulty(seed=1)], subspace, threads=16, operations=12, seed=1)
    assert len(receipts_in(engine.database, subspace["receipts"])) <= 16


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_16_threads_of_4_clients(engine, faulty, subspace, kind):
    """Clients that share nothing but the data help each other to pop."""
    databases = [faulty(seed=n, database=another(engine.database)) for n in range(4)]
    work_and_check(kind, databases, subspace, threads=16, operations=12, seed=2)
    assert len(receipts_in(engine.database, subspace["receipts"])) <= 16
