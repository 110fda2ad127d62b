"""Tasks that are ended while they run: aborted by force."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time

import pytest

from fdbqueue.service.tools import presence
from fdbqueue.tasks import TaskAborted, abort, abort_group, call, chain
from fdbqueue.tasks.aborts import ForcedAborts
from fdbqueue.tasks.compat import InvalidTaskBackend, TaskResultDoesNotExist, task_backends
from fdbqueue.tasks.records import Records
from fdbqueue.tasks.task_worker import TaskWorker
from fdbqueue.tasks.time_limits import KILL_AT, ParentWatch, shared_memory
from tests.called import called
from tests.concurrency.conftest import clock
from tests.engines.children import wait_until
from tests.tasks import group_jobs, jobs, limited_jobs, timed_jobs
from tests.tasks.stored import DEADLINE_SECONDS, FAILED, RUNNING, SUCCESSFUL, status, stored
from tests.tasks.test_hanging_processes import REPLACED, begun, end
from tests.tasks.test_worker_command import start
from tests.tasks.working import working

__all__ = ["clock", "start"]

ABORTED = "fdbqueue.tasks.exceptions.TaskAborted"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Workers look twenty times a second, not every five seconds."""
    monkeypatch.setattr(presence, "BEAT_SECONDS", 0.05)


def errors(result):
    """Return how the attempts at a task have failed."""
    return [error.exception_class_path for error in stored(result).errors]


@pytest.mark.parametrize("timeout", [None, 3_600])
def test_an_async_task_is_ended_while_it_runs(configure, timeout):
    """With or without a time limit of its own. It has failed as what was aborted, and the worker
    goes on.
    """
    backend = configure(timeout=timeout, max_attempts=3, backoff=jobs.at_once)
    with working(jobs.gate) as worker:
        result = timed_jobs.sleep.enqueue()
        assert jobs.begun.wait(DEADLINE_SECONDS)
        assert abort(result.id, by_force=True) == "asked"
        wait_until(lambda: stored(result).is_finished)
        after = timed_jobs.quick.enqueue(1)
        wait_until(lambda: stored(after).status is SUCCESSFUL)
        assert abort(result.id, by_force=True) == "ended"
    found = stored(result)
    assert (found.status, found.attempts) == (FAILED, 1)
    (error,) = found.errors
    assert error.exception_class is TaskAborted
    assert "timed_jobs.py" in error.traceback
    assert "runner.py" not in error.traceback
    assert (worker.succeeded, worker.failed, worker.retried) == (1, 1, 0)
    assert jobs.done == ["cleaned up", 1]
    assert backend.queue("default").counts().dead == 0


def test_what_has_not_begun(backend, work):
    """It is removed at once, as without force."""
    result = jobs.note.enqueue(1)
    assert abort(result.id, by_force=True) == "aborted"
    assert abort(result.id, by_force=True) == "ended"
    work()
    assert jobs.done == []
    assert errors(result) == [ABORTED]


def test_a_task_that_was_asked_before_and_is_asked_again(backend):
    """Asked alone it goes on; by force it ends, though the force is asked for twice, and then the
    end alone: no wish takes back another.
    """
    with working(jobs.gate):
        result = timed_jobs.sleep.enqueue()
        assert jobs.begun.wait(DEADLINE_SECONDS)
        assert abort(result.id) == "asked"
        assert not jobs.gate.wait(0.2)
        assert stored(result).status is RUNNING
        with backend_is_away(backend):
            assert abort(result.id, by_force=True) == "asked"
            assert abort(result.id, by_force=True) == "asked"
            assert abort(result.id) == "asked"
        wait_until(lambda: stored(result).is_finished)
    assert errors(result) == [ABORTED]


@contextlib.contextmanager
def backend_is_away(backend):
    """Let no worker read whether there were aborts."""
    look, ForcedAborts._read_force_asked = ForcedAborts._read_force_asked, refuse
    try:
        yield
    finally:
        ForcedAborts._read_force_asked = look


def refuse(*_):
    raise LookupError("the engine is away")


def test_a_task_that_handles_its_end(configure):
    """What it returns is its result, as after a time limit."""
    configure(max_attempts=3, backoff=jobs.at_once)
    with working(jobs.gate):
        result = timed_jobs.return_what_there_is.enqueue()
        assert jobs.begun.wait(DEADLINE_SECONDS)
        abort(result.id, by_force=True)
        wait_until(lambda: stored(result).is_finished)
    assert (stored(result).status, stored(result).return_value) == (SUCCESSFUL, "a part")


def test_a_task_that_fails_otherwise_as_it_is_ended(configure):
    """That is its error, and it is not run again, nor said to be."""
    configure(max_attempts=3, backoff=jobs.at_once)
    with working(jobs.gate) as worker:
        result = timed_jobs.fail_when_ended.enqueue()
        assert jobs.begun.wait(DEADLINE_SECONDS)
        abort(result.id, by_force=True)
        wait_until(lambda: stored(result).is_finished)
    assert errors(result) == ["builtins.LookupError"]
    assert (worker.failed, worker.retried) == (1, 0)


@pytest.mark.parametrize("job", [timed_jobs.turn_at_last, timed_jobs.swallow_cancellation])
def test_without_a_parent_a_task_that_goes_on_is_noted(configure, job, caplog):
    """The worker says so, once, and keeps the lease; its end counts at last."""
    configure(grace_seconds=0.2)
    with (
        working(jobs.gate, threads=2),
        caplog.at_level(logging.WARNING, "fdbqueue.tasks.task_worker"),
    ):
        held = job.enqueue()
        wait_until(lambda: stored(held).status is RUNNING)
        abort(held.id, by_force=True)
        wait_until(lambda: caplog.records)
        after = timed_jobs.quick.enqueue(1)
        wait_until(lambda: stored(after).status is SUCCESSFUL)
        assert stored(held).status is RUNNING
        jobs.gate.set()
        wait_until(lambda: stored(held).is_finished)
    assert [one.message for one in caplog.records] == ["an aborted task goes on"]
    assert stored(held).return_value == "at last"


def test_an_engine_that_is_away_when_the_worker_looks(backend, caplog):
    """It says so, and looks again."""
    with working(jobs.gate):
        result = timed_jobs.sleep.enqueue()
        assert jobs.begun.wait(DEADLINE_SECONDS)
        with backend_is_away(backend):
            abort(result.id, by_force=True)
            text = "aborts by force were not read"
            wait_until(lambda: text in caplog.text)
            assert stored(result).status is RUNNING
        wait_until(lambda: stored(result).is_finished)
    assert errors(result) == [ABORTED]


def test_records_are_read_after_aborts_alone(backend):
    """Of what was leased before them, once; else a look is one read."""
    source, looked = TaskWorker(backend, ["default"])._source, []
    results = [timed_jobs.quick.enqueue(number) for number in range(3)]
    items = source.lease(2, seconds=60, worker="anna")
    attempts = [source.begin(item) for item in items]
    for attempt, result in zip(attempts, results, strict=False):
        attempt.call = attempt.call._replace(id=result.id)
        attempt.is_begun_here = True

    class Noted(Records):
        def begin_read(self, tr, result_id):
            looked.append(result_id)
            return super().begin_read(tr, result_id)

    aborts = ForcedAborts(Noted(backend.records.prefix), backend.catalog.database)
    assert aborts.among(source.called()) == []  # what was counted before is not known yet
    looked.clear()
    assert aborts.among(source.called()) == []
    assert looked == []
    abort(results[1].id, by_force=True)
    assert aborts.among(source.called()) == [attempts[1]]
    assert looked == [one.id for one in results[:2]]
    attempts[0].has_left = True
    assert aborts.among(source.called()) == []
    assert looked == [one.id for one in results[:2]]


def test_an_attempt_that_has_lost_its_lease(configure, clock):
    """It is ended, and writes nothing; who has the task now fails it before it begins."""
    configure(lease_seconds=60)
    result = timed_jobs.sleep.enqueue()
    with working(jobs.gate, worker="anna") as worker:
        assert jobs.begun.wait(DEADLINE_SECONDS)
        clock.advance(3_600)
        other = TaskWorker(task_backends["default"], ["default"], worker="berta")
        (item,) = other._source.lease(1, seconds=60, worker="berta")
        abort(result.id, by_force=True)
        wait_until(lambda: worker.lost)
        assert stored(result).status is RUNNING
        other._end_without_run(item, lambda: other._runner.run(item))
    assert (stored(result).status, stored(result).worker_ids) == (FAILED, ["anna", "berta"])
    assert errors(result)[-1] == ABORTED
    assert worker.failed == 0


def test_the_replacement_of_a_process_fails_the_attempt(configure):
    """As what was aborted; its row in the memory takes the place of that of its time limit."""
    backend = configure(timeout=60, backoff=jobs.at_once)
    descriptor = shared_memory()
    ours, parents = ParentWatch(os.dup(descriptor)), ParentWatch(descriptor)
    result = timed_jobs.quick.enqueue(1)
    process = TaskWorker(backend, ["default"], worker="anna", watch=ours)
    (item,) = process._source.lease(1, seconds=60, worker="anna")
    attempt = process._source.begin(item)
    attempt.attempts = attempt.attempts.begun("anna", 1_000_000)
    limits = process._runner.limits
    limits.close()
    limits.begin(attempt, 60)
    limits.abort(attempt)
    limits.abort(attempt)
    assert parents.words[KILL_AT] < time.monotonic() + 10
    left = parents.taken_over(time.monotonic())
    assert [one.seconds for one in left] == [0]
    TaskWorker(backend, ["default"], worker="berta", follow=False, left=left).run()
    assert (stored(result).status, stored(result).worker_ids) == (FAILED, ["anna"])
    assert errors(result) == [ABORTED]


def test_a_process_that_sleeps_in_c_is_replaced(start, configure, tmp_path):
    """Its task fails at once, long before its lease expires."""
    configure(lease_seconds=600)
    result = timed_jobs.wait_in_c.enqueue(str(tmp_path))
    options = json.dumps({"grace_seconds": 0.5, "lease_seconds": 600})
    worker = start("--processes", "1", FDBQUEUE_TEST_OPTIONS=options)
    wait_until(lambda: begun(tmp_path, "wait"), 300)
    assert abort(result.id, by_force=True) == "asked"
    wait_until(lambda: status(result) is FAILED, 300)
    assert errors(result) == [ABORTED]
    assert REPLACED in worker.said
    assert len(begun(tmp_path, "wait")) == 1
    assert end(worker, 15) == 0


def test_a_task_with_limits(backend):
    """Its end frees its turn: the next one runs."""
    with working(jobs.gate, threads=2):
        first, after = (limited_jobs.turn_alone.enqueue(number) for number in range(2))
        assert jobs.begun.wait(DEADLINE_SECONDS)
        abort(first.id, by_force=True)
        wait_until(lambda: stored(after).is_finished)
    assert (errors(first), stored(after).return_value) == ([ABORTED], 1)


def test_a_chain(backend):
    """What runs of it is ended; nothing follows."""
    with working(jobs.gate):
        result = chain(call(timed_jobs.sleep), group_jobs.concatenate).enqueue()
        assert jobs.begun.wait(DEADLINE_SECONDS)
        assert abort_group(result.id, by_force=True) == (0, 1, 0, 1)
        (part,) = result.parts(limit=1)
        wait_until(lambda: stored(part).is_finished)
    result.refresh()
    assert (result.status, result.is_aborted) == (FAILED, True)
    assert errors(part) == [ABORTED]


def test_a_task_of_another_backend(backend, settings):
    """It is not found under an alias that has others, and nothing is changed."""
    own = {"BACKEND": "django.tasks.backends.dummy.DummyBackend"}
    settings.TASKS = {**settings.TASKS, "dummy": own}
    result = jobs.note.enqueue(1)
    for alias in ("dummy", "nosuch"):
        with pytest.raises(InvalidTaskBackend):
            abort(result.id, by_force=True, backend=alias)
    with pytest.raises(TaskResultDoesNotExist):
        abort("nosuch", by_force=True)
    assert not stored(result).is_finished


@pytest.mark.parametrize(
    ("arguments", "means"), [([], "asked to end"), (["--force"], "ends it within ten seconds")]
)
def test_the_command(backend, arguments, means):
    """It says what becomes of a task that runs."""
    result = jobs.note.enqueue(1)
    worker = TaskWorker(backend, ["default"])
    worker._source.lease(1, seconds=60, worker="anna")
    assert means in called("tasks_abort", result.id, *arguments)
    assert json.loads(called("tasks_abort", result.id, "--json", *arguments)) == {
        "id": result.id,
        "outcome": "asked",
    }
    record = backend.found(result.id).record
    assert (record["abort"], record.get("by_force", False)) == (True, bool(arguments))
