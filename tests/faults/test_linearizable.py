"""Clients at once, on databases whose commits fail: there is still an order of their calls."""

from __future__ import annotations

import pytest

from tests.concurrency.clients import another
from tests.concurrency.kinds import STRICT
from tests.concurrency.linearizable import linearization
from tests.concurrency.test_linearizable import CALLS, IN_COMMIT_ORDER, record


@pytest.mark.parametrize("kind", STRICT, ids=str)
def test_short_histories(engine, faulty, subspace, kind):
    """6 clients of three database objects, 8 calls each: no fault shows in any result."""
    databases = [faulty(seed=n, database=another(engine.database)) for n in range(3)]
    names = IN_COMMIT_ORDER if kind.options.get("order") == "commit" else CALLS
    for seed in range(3):
        calls = record(kind, databases, subspace[seed], clients=6, calls=8, seed=seed, names=names)
        assert linearization(calls), "\n".join([f"seed {seed}", *map(str, calls)])
