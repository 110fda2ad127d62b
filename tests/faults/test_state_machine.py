"""Random operations on a database whose commits fail do what the model of a queue does."""

from __future__ import annotations

import pytest

from tests.concurrency.kinds import STRICT
from tests.concurrency.machine import explore


@pytest.mark.parametrize("kind", STRICT, ids=str)
def test_faults_change_nothing(faulty, subspace, clock, kind):
    """Each operation has the effect and the result that it has without them."""
    database = faulty(seed=4)
    explore(kind, database, subspace, clock, examples=5)
    assert database.happened.total() > 20
