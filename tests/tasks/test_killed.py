"""Workers that are killed: no task is lost, and none is left running."""

from __future__ import annotations

import sys

import pytest

from fdbqueue.tasks.compat import TaskResultStatus
from tests import forked
from tests.tasks import jobs
from tests.tasks.killing import ROOT, limits_survive_kills, survive_kills, survive_outage


def test_killed_workers_lose_nothing(configure, environment):
    """Each task has one result."""
    survive_kills(configure(lease_seconds=1), environment, tasks=300, kills=4, threads=2)


def test_killed_workers_keep_within_limits(configure, environment, tmp_path):
    """Never more than two tasks of a key run at once, and each ends once."""
    limits_survive_kills(configure, environment, tmp_path, tasks=50, kills=4)


@pytest.mark.parametrize("engine", ["embedded"], indirect=True)
def test_an_engine_that_is_away_loses_nothing(configure, environment, tmp_path):
    """For longer than leases are: tasks of all kinds go on once it is back."""
    survive_outage(configure, environment, tmp_path, tasks=40, seconds=4)


def test_a_task_that_kills_its_process_every_time_fails(configure, environment):
    """After its attempts, with the workers that died."""
    backend = configure(lease_seconds=1)
    result = jobs.die.enqueue()
    deadly = 3
    command = [sys.executable, "manage.py", "tasks_worker", "--max-tasks", "1"]

    def work():
        return forked.run(
            command, cwd=ROOT, env=environment, timeout=60, check=True, capture_output=True
        )

    assert work().stderr.count(b"ended by signal 9; another starts") == deadly
    after = jobs.note.enqueue("after")
    work()
    failed = backend.get_result(result.id)
    assert failed.status is TaskResultStatus.FAILED
    assert len(failed.worker_ids) == failed.attempts == deadly
    assert len({*failed.worker_ids}) == deadly
    kinds = {error.exception_class_path for error in failed.errors}
    assert kinds == {"fdbqueue.tasks.exceptions.WorkerDied"}
    assert len(failed.errors) == deadly
    assert backend.get_result(after.id).status is TaskResultStatus.SUCCESSFUL
    (reason,) = backend.queue("default").dead_by_reason()
    assert reason.reason == "fdbqueue.tasks.exceptions.WorkerDied"
