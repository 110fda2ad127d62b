"""Worker processes in which a task does not end at its time limit: the parent replaces them."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from fdbqueue.tasks.task_worker import TaskWorker
from tests.concurrency.conftest import clock
from tests.engines.children import wait_until
from tests.tasks import timed_jobs
from tests.tasks.stored import FAILED, READY, RUNNING, SUCCESSFUL
from tests.tasks.striking import limits_survive_strikes
from tests.tasks.test_worker_command import is_alive, start, status

__all__ = ["clock", "start"]

DEADLINE_SECONDS = 300
#: How long leases are: what is known before one expires, a process has noted.
LEASE_SECONDS = 2 * DEADLINE_SECONDS
TIMEOUT = "fdbqueue.tasks.exceptions.TaskTimeout"
DIED = "fdbqueue.tasks.exceptions.WorkerDied"
REPLACED = "ended by signal 9; another starts in 0 s."


def options(**others):
    """Return what a worker's environment says of time limits that are short."""
    return json.dumps(
        {"timeout": 1, "grace_seconds": 0.5, "lease_seconds": LEASE_SECONDS, **others}
    )


def begun(folder, name):
    """Return the numbers of the processes in which attempts have begun, in their order."""
    paths = sorted(folder.glob(f"{name}-*"), key=lambda path: path.name.rpartition("-")[2])
    return [int(path.name.split("-")[-2]) for path in paths]


def errors(result):
    """Return the classes of a result's errors, as they are now."""
    result.refresh()
    return [error.exception_class_path for error in result.errors]


def end(worker, *numbers):
    """Send signals to a worker, and return its exit code."""
    for number in numbers:
        worker.process.send_signal(number)
    return worker.process.wait(DEADLINE_SECONDS)


@pytest.fixture
def backend(configure):
    """The backend, with leases that outlast a process's end."""
    return configure(lease_seconds=LEASE_SECONDS)


def test_a_process_that_hangs_is_replaced(start, backend, clock, tmp_path):
    """A regular expression holds the interpreter: its attempt fails at once, long before its
    lease expires, and the task runs again as its backoff says. What was leased with it runs when
    its lease has expired, and has no attempt more.
    """
    before = [timed_jobs.write.enqueue(str(tmp_path), number) for number in range(5)]
    hanging = timed_jobs.match.enqueue(str(tmp_path))
    after = [timed_jobs.write.enqueue(str(tmp_path), number) for number in range(5, 10)]
    worker = start("--processes", "1", FDBQUEUE_TEST_OPTIONS=options())
    wait_until(lambda: status(hanging) is SUCCESSFUL, DEADLINE_SECONDS)
    assert "Worker process 1 does not end a task in time: killed." in worker.said
    assert REPLACED in worker.said
    assert errors(hanging) == [TIMEOUT]
    assert hanging.attempts == 2
    assert "seconds=1" in hanging.errors[0].traceback
    first, second = begun(tmp_path, "match")
    assert first != second
    assert not is_alive(first)
    assert end(worker, signal.SIGTERM) == 0
    clock.advance(2 * LEASE_SECONDS)
    TaskWorker(backend, ["default"], follow=False).run()
    assert {status(one) for one in before + after} == {SUCCESSFUL}
    assert {one.attempts for one in before + after} == {1}


def test_a_task_that_hangs_each_time(start, backend, tmp_path):
    """It fails after its attempts; it is a dead letter with the reason."""
    hanging = timed_jobs.always_match.enqueue(str(tmp_path))
    worker = start("--processes", "1", "--until-empty", FDBQUEUE_TEST_OPTIONS=options())
    assert end(worker) == 0
    assert status(hanging) is FAILED
    assert errors(hanging) == [TIMEOUT, TIMEOUT]
    assert len(begun(tmp_path, "match")) == hanging.attempts == 2
    assert worker.said.count(REPLACED) == 2
    assert f"failed: {TIMEOUT}" in worker.said
    (reason,) = backend.queue("default").dead_by_reason()
    assert reason.reason == TIMEOUT


def test_what_a_replaced_process_has_noted_is_kept(start, backend):
    """Its attempt was the first; the next begins with the metadata that was written."""
    hanging = timed_jobs.note_and_match.enqueue()
    worker = start("--processes", "1", "--until-empty", FDBQUEUE_TEST_OPTIONS=options())
    assert end(worker) == 0
    assert errors(hanging) == [TIMEOUT]
    assert (hanging.status, hanging.return_value) == (SUCCESSFUL, 7)
    assert worker.said.count(REPLACED) == 1


def test_what_waits_in_c_hangs_too(start, backend, tmp_path):
    """Its process says so, and is replaced; the other process goes on."""
    hanging = timed_jobs.wait_in_c.enqueue(str(tmp_path))
    worker = start("--processes", "2", FDBQUEUE_TEST_OPTIONS=options())
    wait_until(lambda: status(hanging) is FAILED, DEADLINE_SECONDS)
    assert errors(hanging) == [TIMEOUT]
    assert "a task goes on after its time limit" in worker.said
    assert worker.said.count("runs the tasks of") >= 2
    assert worker.said.count(REPLACED) == 1
    assert end(worker, signal.SIGTERM) == 0


def test_a_signal_while_a_process_hangs(start, backend, tmp_path):
    """The second one cannot give the task back; the parent ends the process all the same."""
    hanging = timed_jobs.match.enqueue(str(tmp_path))
    worker = start("--processes", "1", FDBQUEUE_TEST_OPTIONS=options(timeout=5))
    wait_until(lambda: begun(tmp_path, "match"), DEADLINE_SECONDS)
    worker.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)  # two signals that are one would be one request
    assert end(worker, signal.SIGTERM) == 1
    (process,) = begun(tmp_path, "match")
    assert not is_alive(process)
    assert "killed." in worker.said
    assert "another starts" not in worker.said
    assert status(hanging) is RUNNING  # until its lease expires, as after any kill


def test_a_second_signal_while_a_time_limit_passes(start, backend, tmp_path):
    """What does not hold the interpreter is given back; its attempt counts, once."""
    hanging = timed_jobs.wait_in_c.enqueue(str(tmp_path))
    worker = start("--processes", "1", FDBQUEUE_TEST_OPTIONS=options(grace_seconds=1, timeout=1.5))
    wait_until(lambda: begun(tmp_path, "wait"), DEADLINE_SECONDS)
    worker.process.send_signal(signal.SIGTERM)
    worker.wait("Waiting for 1 task to end")
    assert end(worker, signal.SIGTERM) in (1, 130)
    assert status(hanging) in (READY, RUNNING)
    assert hanging.attempts == 1


def test_a_process_that_hangs_for_longer_than_a_lease(start, configure, tmp_path):
    """It holds no lease any more: it is replaced before its time limit, and its worker has died."""
    configure(lease_seconds=1)
    hanging = timed_jobs.match.enqueue(str(tmp_path))
    longer = options(timeout=600, lease_seconds=1)
    worker = start("--processes", "1", FDBQUEUE_TEST_OPTIONS=longer)
    wait_until(lambda: status(hanging) is SUCCESSFUL, DEADLINE_SECONDS)
    assert REPLACED in worker.said
    assert {*errors(hanging)} <= {DIED}
    assert end(worker, signal.SIGTERM) == 0


def test_a_task_that_goes_on_for_longer_than_a_lease(start, configure, tmp_path):
    """Within its time limit it is left alone."""
    configure(lease_seconds=3)
    long = timed_jobs.take_a_while.enqueue(10)
    longer = options(lease_seconds=3, timeout=600, grace_seconds=5)
    worker = start("--processes", "1", FDBQUEUE_TEST_OPTIONS=longer)
    wait_until(lambda: status(long) is SUCCESSFUL, DEADLINE_SECONDS)
    assert long.attempts == 1
    assert "killed" not in worker.said
    assert end(worker, signal.SIGTERM) == 0


def test_a_pause_of_parent_and_child(start, backend, tmp_path):
    """Longer than limit and grace: the attempt ends by itself, and no process is killed."""
    long = timed_jobs.sleep.enqueue()
    worker = start("--processes", "1", FDBQUEUE_TEST_OPTIONS=options(grace_seconds=5, timeout=5))
    wait_until(lambda: status(long) is RUNNING, DEADLINE_SECONDS)
    os.killpg(worker.process.pid, signal.SIGSTOP)
    time.sleep(11)
    os.killpg(worker.process.pid, signal.SIGCONT)
    wait_until(lambda: status(long) is FAILED, DEADLINE_SECONDS)
    assert errors(long) == [TIMEOUT]
    assert "killed" not in worker.said
    assert end(worker, signal.SIGTERM) == 0


def test_a_worker_without_a_parent_says_what_it_cannot_end(start, backend, tmp_path):
    """If the backend has a time limit, and only then."""
    worker = start("--until-empty", FDBQUEUE_TEST_OPTIONS=options())
    assert end(worker) == 0
    assert "and only notes that others go on" in worker.said
    for arguments, more in (
        (["--until-empty"], {}),
        (["--processes", "1", "--until-empty"], {"timeout": 1}),
    ):
        worker = start(*arguments, FDBQUEUE_TEST_OPTIONS=json.dumps(more | {"grace_seconds": 1}))
        assert end(worker) == 0
        assert "and only notes that others go on" not in worker.said


@pytest.mark.parametrize(
    ("name", "threads"),
    [
        ("a lock", 4),
        *(
            pytest.param(name, threads, marks=pytest.mark.nightly)
            for name in timed_jobs.HANGS
            for threads in (1, 4)
            if (name, threads) != ("a lock", 4)
        ),
    ],
)
def test_whatever_a_task_hangs_in(start, backend, tmp_path, name, threads):
    """It ends as TaskTimeout, and runs again; what ran beside it in its process ends once: in the
    grace, or once more as if it had not begun, and at once, because leases last for minutes.
    """
    hanging = timed_jobs.hang.enqueue(str(tmp_path), name)
    beside = [
        timed_jobs.work_beside.enqueue(str(tmp_path), number, seconds)
        for number, seconds in enumerate([0.01, 0.01, 1.5, 8])
    ]
    worker = start("--threads", str(threads), FDBQUEUE_TEST_OPTIONS=options(grace_seconds=1))
    wait_until(lambda: status(hanging) is SUCCESSFUL, DEADLINE_SECONDS)
    wait_until(lambda: all(status(one) is SUCCESSFUL for one in beside), DEADLINE_SECONDS)
    assert (errors(hanging), hanging.attempts) == ([TIMEOUT], 2)
    assert {one.attempts for one in beside} == {1}
    assert all(len(begun(tmp_path, f"ended-{number}")) == 1 for number in range(4))
    assert REPLACED in worker.said
    assert end(worker, signal.SIGTERM) == 0


@pytest.mark.parametrize("threads", [1, 4])
def test_tasks_that_hang_in_all_ways_while_processes_are_killed(
    configure, start, tmp_path, threads
):
    """Each ends as TaskTimeout once and in time, others once; ``make soak`` has three hundred."""
    limits_survive_strikes(
        configure, start, tmp_path, threads=threads, hangs=7, kills=3, seed=threads
    )


def test_a_worker_that_is_told_to_stop_while_a_task_hangs(start, backend, tmp_path):
    """Its attempt ends as TaskTimeout all the same, before the worker ends."""
    hanging = timed_jobs.hang.enqueue(str(tmp_path), "time.sleep")
    worker = start(FDBQUEUE_TEST_OPTIONS=options())
    wait_until(lambda: begun(tmp_path, "hang"), DEADLINE_SECONDS)
    assert end(worker, signal.SIGTERM) == 0
    assert status(hanging) is READY
    assert errors(hanging) == [TIMEOUT]
    assert len(begun(tmp_path, "hang")) == 1


@pytest.mark.parametrize("name", ["time.sleep", "a lock"])
def test_the_parent_is_killed_while_a_task_hangs(start, configure, tmp_path, name):
    """The process ends itself after the grace, and the next worker knows why."""
    configure(lease_seconds=2)
    hanging = timed_jobs.hang.enqueue(str(tmp_path), name)
    worker = start(FDBQUEUE_TEST_OPTIONS=options(lease_seconds=2))
    wait_until(lambda: begun(tmp_path, "hang"), DEADLINE_SECONDS)
    worker.process.kill()
    (process,) = begun(tmp_path, "hang")
    wait_until(lambda: not is_alive(process), DEADLINE_SECONDS)
    next_worker = start(FDBQUEUE_TEST_OPTIONS=options(lease_seconds=2))
    wait_until(lambda: status(hanging) is SUCCESSFUL, DEADLINE_SECONDS)
    assert errors(hanging) == [TIMEOUT]
    assert end(next_worker, signal.SIGTERM) == 0
