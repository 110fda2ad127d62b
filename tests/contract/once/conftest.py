"""Queues of each kind, and two clients of them, for calls with an idempotency key."""

from __future__ import annotations

import pytest

from tests.concurrency.clients import another
from tests.concurrency.kinds import KINDS


@pytest.fixture(params=KINDS, ids=str)
def kind(request):
    """Each kind of queue, those with shards too."""
    return request.param


@pytest.fixture
def queue(kind, database, subspace, clock):
    """An empty queue, for which the time stands still."""
    return kind.open(database, subspace)


@pytest.fixture
def rival(kind, database, subspace):
    """Another client's queue."""
    return kind.open(another(database), subspace)
