"""Three hundred tasks that hang, in all ways, while their workers are killed."""

from __future__ import annotations

import statistics

import pytest

from tests.tasks.conftest import configure, environment
from tests.tasks.striking import limits_survive_strikes
from tests.tasks.test_worker_command import start as start_worker

__all__ = ["configure", "environment", "start_worker"]

HANGS = 30


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("threads", [1, 4])
def test_thirty_tasks_that_hang_end_in_time(configure, start_worker, tmp_path, threads, seed):
    """Each as TaskTimeout, once; those beside end once; nothing is lost."""
    lived = limits_survive_strikes(
        configure, start_worker, tmp_path, threads=threads, hangs=HANGS, kills=15, seed=seed
    )
    print(f"{len(lived)} attempts hung; they lived for {statistics.median(lived):.1f} s,", end=" ")  # noqa: T201
    print(f"{lived[-1]:.1f} s at most")  # noqa: T201  # what the soak says
