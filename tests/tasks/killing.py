"""Workers that are killed while they run tasks: a workload for tests."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fdbqueue.service import Counts
from fdbqueue.tasks import call, group, group_result
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.task_worker import TaskWorker
from tests import forked
from tests.engines.children import wait_until
from tests.tasks import group_jobs, jobs, kept_jobs, limited_jobs, timed_jobs

ROOT = Path(__file__).parents[2]
_DEADLINE_SECONDS = 600
#: How long a worker may take to start and to run some tasks, on a machine that has much else to do.
_START_SECONDS = 180


class Workers:
    """Some processes of ``tasks_worker``, which are replaced when they are killed.

    Args:
        environment: Theirs.
        count: How many.
        arguments: Of each.
    """

    def __init__(self, environment: dict[str, str], count: int, *arguments: str) -> None:
        self._environment = environment
        self._arguments = arguments
        self.processes = [self._started() for _ in range(count)]

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "manage.py", "tasks_worker", *self._arguments]
        return forked.popen(command, cwd=ROOT, env=self._environment, stdout=subprocess.DEVNULL)

    def kill_one(self, dice: random.Random) -> None:
        """Kill one by SIGKILL, and start another in its place."""
        at = dice.randrange(len(self.processes))
        self.processes[at].kill()
        self.processes[at].wait()
        self.processes[at] = self._started()

    def stop(self) -> list[int]:
        """End all by SIGTERM, and return their exit codes."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        return [process.wait(60) for process in self.processes]


def signalled(
    configure: Any,
    environment: dict[str, str],
    folder: Path,
    numbers: Sequence[int],
    *,
    rounds: int,
    tasks: int = 300,
) -> None:
    """Signal a worker that has many leases, and check that each task has run once.

    Args:
        configure: Sets the options of the backend.
        environment: That of the workers; their leases outlast the test.
        folder: Where the tasks write.
        numbers: The signals that each worker gets, one right behind the other; two
            that are the same may count as one.
        rounds: How many workers are signalled.
        tasks: How many tasks each of them meets.
    """
    backend = configure(lease_seconds=600)
    settings = {"DJANGO_SETTINGS_MODULE": "tests.tasks.kept_settings"}
    settings["FDBQUEUE_TEST_OPTIONS"] = json.dumps({"lease_seconds": 600})
    command = [sys.executable, "manage.py", "tasks_worker", "--threads", "4"]
    dice = random.Random(rounds)
    for number in range(rounds):
        here = folder / str(number)
        here.mkdir()
        results = [kept_jobs.write_once.enqueue(str(here), one) for one in range(tasks)]
        goal = dice.randrange(1, tasks // 2)
        process = forked.popen(
            command, cwd=ROOT, env={**environment, **settings}, stderr=subprocess.DEVNULL
        )
        try:
            wait_until(lambda here=here, goal=goal: len([*here.iterdir()]) >= goal, _START_SECONDS)
            for one in numbers:
                process.send_signal(one)
            assert process.wait(60) == (0 if len(numbers) == 1 else 130)
        finally:
            process.kill()
        assert backend.queue("default").counts().leased == 0
        TaskWorker(backend, ["default"], threads=4, prefetch=20, follow=False).run()
        runs = [(here / f"ran-{one}").read_text() for one in range(tasks)]
        assert runs == ["x"] * tasks
        found = [backend.get_result(result.id) for result in results]
        cut_short = [one for one in found if one.status is not TaskResultStatus.SUCCESSFUL]
        assert {one.status for one in cut_short} <= {TaskResultStatus.FAILED}
        assert len(cut_short) <= 4 * (len(numbers) - 1)  # those that ran at the second signal


def limits_survive_kills(
    configure: Any, environment: dict[str, str], folder: Path, *, tasks: int, kills: int
) -> None:
    """Kill workers that run tasks of four keys, two of each at a time; each task ends once.

    What a killed worker ran has written nothing, so of each key no more than two of what has ended
    ran at any moment.
    """
    options = {"lease_seconds": 3}
    backend = configure(**options)
    settings = {"DJANGO_SETTINGS_MODULE": "tests.tasks.kept_settings"}
    settings["FDBQUEUE_TEST_OPTIONS"] = json.dumps(options)
    dice = random.Random(tasks)
    keys = ("a", "b", "c", "d")
    results = [
        limited_jobs.write_times.enqueue(str(folder), key, number)
        for number in range(tasks)
        for key in keys
    ]
    queues = [backend.catalog.queue(name) for name in backend.catalog.names()]
    assert len(queues) == len(keys)

    def left() -> int:
        counts = [queue.counts() for queue in queues]
        return sum(one.ready + one.leased + one.delayed for one in counts)

    def has_gone_on(goal: int) -> Callable[[], bool]:
        return lambda: left() <= goal

    workers = Workers({**environment, **settings}, 3, "--threads", "3")
    try:
        for kill in range(kills):
            goal = len(results) - len(results) * (kill + 1) // (kills + 1)
            wait_until(has_gone_on(goal), _DEADLINE_SECONDS)
            workers.kill_one(dice)
        wait_until(lambda: left() == 0, _DEADLINE_SECONDS)
    finally:
        workers.stop()
    found = [backend.get_result(result.id) for result in results]
    assert {result.status for result in found} == {TaskResultStatus.SUCCESSFUL}
    assert_within_limits(folder, len(results), keys)


def assert_within_limits(folder: Path, count: int, keys: Sequence[str]) -> None:
    """Check what limited tasks have noted: each ran, and two of a key at a time at most."""
    lines = [line.split() for file in folder.iterdir() for line in file.read_text().splitlines()]
    assert len({(key, number) for key, number, *_ in lines}) == count
    for key in keys:
        times = [(int(began), int(ended)) for one, _, _, began, ended in lines if one == key]
        at_once = [sum(began <= at < ended for began, ended in times) for at, _ in times]
        assert 1 <= max(at_once) <= 2


@contextlib.contextmanager
def engine_away(database: Any) -> Iterator[None]:
    """Let no process commit: by SQLite's own lock, or on a cluster by what kills its server."""
    if hasattr(database, "path"):
        with contextlib.closing(sqlite3.connect(database.path, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            yield
            writer.execute("ROLLBACK")
        return
    subprocess.run(shlex.split(os.environ["FDBQUEUE_CLUSTER_KILL"]), check=True)
    try:
        yield
    finally:
        subprocess.run(shlex.split(os.environ["FDBQUEUE_CLUSTER_START"]), check=True)


def survive_outage(
    configure: Any, environment: dict[str, str], folder: Path, *, tasks: int, seconds: float
) -> None:
    """Take the engine away while workers run tasks of all kinds, for longer than their leases.

    No worker ends by that. Each task has one result, what follows the group comes once, no more
    tasks of a key run at a time than may, and the process of one that hangs is replaced.
    """
    options = {"lease_seconds": 3, "timeout": 3, "grace_seconds": 1}
    backend = configure(**options)
    settings = {"DJANGO_SETTINGS_MODULE": "tests.tasks.kept_settings"}
    settings["FDBQUEUE_TEST_OPTIONS"] = json.dumps(options)
    here = {name: folder / name for name in ("limited", "parts", "plain")}
    for one in here.values():
        one.mkdir()
    keys = ("a", "b")
    enqueued = []
    for number in range(tasks):
        enqueued.append(kept_jobs.write_again.enqueue(str(here["plain"]), number))
        for key in keys:
            one = limited_jobs.write_times.enqueue(str(here["limited"]), key, number)
            enqueued.append(one)
    parts = [call(group_jobs.write, str(here["parts"]), str(number)) for number in range(tasks)]
    made = group(parts).then(call(group_jobs.write_count, str(here["parts"]))).enqueue()
    hangs = timed_jobs.hang_once.enqueue(str(folder))

    def has_ended() -> bool:
        found = [backend.get_result(one.id) for one in (*enqueued, hangs)]
        return group_result(made.id).is_finished and all(one.is_finished for one in found)

    workers = Workers({**environment, **settings}, 2, "--threads", "3", "--processes", "2")
    try:
        wait_until(lambda: group_result(made.id).succeeded > tasks // 4, _DEADLINE_SECONDS)
        with engine_away(backend.catalog.database):
            time.sleep(seconds)
        wait_until(has_ended, _DEADLINE_SECONDS)
        assert [process.poll() for process in workers.processes] == [None, None]
    finally:
        codes = workers.stop()
    assert {*codes} <= {0, 1}  # 1 if a process still hung, in an attempt that another has repeated
    statuses = {backend.get_result(one.id).status for one in (*enqueued, hangs)}
    assert statuses == {TaskResultStatus.SUCCESSFUL}
    assert_within_limits(here["limited"], len(keys) * tasks, keys)
    found = group_result(made.id)
    assert (found.status, found.succeeded) == (TaskResultStatus.SUCCESSFUL, tasks)
    assert found.follows is not None
    assert found.follows.result().return_value == tasks
    assert backend.queue("default").counts() == Counts(0, 0, 0, 0)


def survive_kills(
    backend: Any, environment: dict[str, str], *, tasks: int, kills: int, threads: int
) -> None:
    """Kill workers again and again, and check that each task has one result."""
    dice = random.Random(tasks)
    results = [jobs.note.enqueue(number) for number in range(tasks)]
    queue = backend.queue("default")
    workers = Workers(environment, 3, "--threads", str(threads))

    def left() -> int:
        counts = queue.counts()
        return int(counts.ready + counts.leased + counts.delayed)

    def has_gone_on(goal: int) -> Callable[[], bool]:
        return lambda: left() <= goal

    try:
        for kill in range(kills):
            goal = tasks - tasks * (kill + 1) // (kills + 1)
            wait_until(has_gone_on(goal), _DEADLINE_SECONDS)
            workers.kill_one(dice)
        wait_until(lambda: left() == 0, _DEADLINE_SECONDS)
    finally:
        codes = workers.stop()
    assert {*codes} <= {0, -signal.SIGTERM}  # one that was just started has no handler yet
    found = [backend.get_result(result.id) for result in results]
    assert {result.status for result in found} == {TaskResultStatus.SUCCESSFUL}
    assert [result.return_value for result in found] == list(range(tasks))
    assert queue.counts().dead == 0
    assert max(result.attempts for result in found) <= 5
