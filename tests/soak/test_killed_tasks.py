"""Two thousand tasks, and twenty workers that are killed."""

from __future__ import annotations

from tests.tasks.conftest import configure, environment
from tests.tasks.killing import survive_kills

__all__ = ["configure", "environment"]


def test_twenty_killed_workers_lose_nothing(configure, environment):
    """Each task has one result, and none is left running."""
    survive_kills(configure(lease_seconds=1), environment, tasks=2_000, kills=20, threads=2)
