"""Two thousand tasks, and twenty workers that are killed; others that are signalled."""

from __future__ import annotations

import signal

import pytest

from tests.tasks import outboxes
from tests.tasks.conftest import configure, environment
from tests.tasks.killing import limits_survive_kills, signalled, survive_kills, survive_outage

__all__ = ["configure", "environment"]


def test_twenty_killed_workers_lose_nothing(configure, environment):
    """Each task has one result, and none is left running."""
    survive_kills(configure(lease_seconds=1), environment, tasks=2_000, kills=20, threads=2)


def test_twenty_killed_workers_keep_within_limits(configure, environment, tmp_path):
    """Never more than two tasks of a key run at once, and each ends once."""
    limits_survive_kills(configure, environment, tmp_path, tasks=400, kills=20)


@pytest.mark.parametrize(
    "numbers", [[signal.SIGTERM], [signal.SIGTERM, signal.SIGINT]], ids=["once", "twice"]
)
def test_twelve_signalled_workers_run_nothing_twice(configure, environment, tmp_path, numbers):
    """Each task runs once, however many a worker holds when it is told to end."""
    signalled(configure, environment, tmp_path, numbers, rounds=12)


def test_twenty_killed_workers_move_each_row_once(
    configure, environment, tmp_path, django_db_blocker
):
    """Each task of the outbox ends, and none that was rolled back runs."""
    path = str(tmp_path / "orm.sqlite3")
    with django_db_blocker.unblock(), outboxes.database_at(path):
        backend = configure(outbox=True)
        variables = environment | outboxes.outbox_variables(path)
        outboxes.survive_kills(backend, variables, tmp_path, tasks=2_000, kills=20)


def test_an_engine_that_is_away_for_a_minute_loses_nothing(configure, environment, tmp_path):
    """Tasks of all kinds go on once it is back, by the same workers."""
    survive_outage(configure, environment, tmp_path, tasks=300, seconds=60)
