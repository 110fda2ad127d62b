"""Random operations, one after another, do what the model of a queue does."""

from __future__ import annotations

import pytest

from tests.concurrency.kinds import MEMBERS, STRICT
from tests.concurrency.machine import explore


@pytest.mark.parametrize("kind", STRICT + MEMBERS, ids=str)
def test_a_queue_does_what_its_model_does(database, subspace, clock, kind):
    """Order, states, attempts, counts and pages agree after every operation."""
    explore(kind, database, subspace, clock, examples=12)
