"""Whatever a task, its code, its backoff or a receiver does: it ends its own attempt at most."""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path

import pytest
from django.test import override_settings

from fdbqueue import conf
from fdbqueue.service import run
from fdbqueue.tasks import abort, abort_group, compat, enqueue_in, group_result
from fdbqueue.tasks.compat import InvalidTask, InvalidTaskBackend
from fdbqueue.tasks.housekeeping import Housekeeping
from tests import forked
from tests.engines.children import wait_until
from tests.tasks import bad_jobs, jobs
from tests.tasks.stored import FAILED, SUCCESSFUL, stored
from tests.tasks.stored import work_in_thread as work

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 60
UNKNOWN = "fdbqueue.tasks.exceptions.TaskUnknown"


@pytest.fixture
def importable(tmp_path, monkeypatch):
    """Write a module, again with other code, and let it be imported the next time."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = set()

    def write(name, code):
        (tmp_path / f"{name}.py").write_text(code)
        sys.modules.pop(name, None)
        names.add(name)

    yield write
    for name in names:
        sys.modules.pop(name, None)


GOOD = "from fdbqueue.tasks import task\n@task\ndef act():\n    return 'done'\n"


# What is raised


@pytest.mark.parametrize("kind", [*bad_jobs.KINDS])
@pytest.mark.parametrize(
    "task", [bad_jobs.leave, bad_jobs.leave_the_loop, bad_jobs.leave_in_a_subtask]
)
def test_what_a_task_raises_ends_its_attempt(backend, task, kind):
    """Also in the event loop, and in a coroutine of the task's own: later tasks run."""
    bad, after = task.enqueue(kind), [jobs.double.enqueue(1), jobs.note.enqueue(2)]
    work()
    assert (stored(bad).status, stored(bad).attempts) == (FAILED, 1)
    assert [stored(one).status for one in after] == [SUCCESSFUL] * 2


@pytest.mark.parametrize("kind", [*bad_jobs.SLY])
@pytest.mark.parametrize(
    "task",
    [
        bad_jobs.raise_what_raises,
        bad_jobs.raise_what_raises_in_the_loop,
        bad_jobs.end_with_what_raises,
    ],
)
def test_an_exception_that_raises_when_it_is_looked_at(configure, task, kind):
    """It is told as itself, and handled as any other: the task has the attempts that it may."""
    configure(timeout=600)
    result = task.enqueue(kind)
    worker = work()
    found = stored(result)
    assert (found.status, found.attempts, worker.failed) == (FAILED, 1, 1)
    (error,) = found.errors
    assert error.exception_class_path == f"tests.tasks.bad_jobs.{kind}"
    assert "what the reader needs" in error.traceback


@pytest.mark.parametrize("task", [bad_jobs.stop_the_loop, bad_jobs.leave_a_callback])
def test_a_task_that_stops_the_loop(backend, caplog, task):
    """The loop goes on: with this task, with those beside it, and with later ones."""
    results = [jobs.double.enqueue(1), task.enqueue(), jobs.double.enqueue(2)]
    with caplog.at_level(logging.WARNING, "fdbqueue.tasks.runner"):
        work(threads=2)
    assert {stored(one).status for one in results} == {SUCCESSFUL}
    assert {stored(one).attempts for one in results} == {1}
    assert "a task has stopped the event loop; it goes on" in caplog.messages


@pytest.mark.parametrize("kind", [*bad_jobs.KINDS])
def test_code_that_raises_when_it_is_imported(configure, importable, kind):
    """Each attempt fails, as many as there may be, and who asks gets the result."""
    configure(max_attempts=3, backoff=jobs.at_once)
    importable("raising_jobs", GOOD)
    import raising_jobs

    result = raising_jobs.act.enqueue()
    importable("raising_jobs", f"from asyncio import CancelledError\nraise {kind}")
    assert work().failed == 3
    failed = []
    reader = threading.Thread(target=lambda: failed.append(stored(result)))
    reader.start()
    reader.join(DEADLINE_SECONDS)
    assert (failed[0].status, failed[0].attempts) == (FAILED, 3)
    assert {error.exception_class_path for error in failed[0].errors} == {UNKNOWN}
    assert kind in failed[0].errors[0].traceback


def test_code_that_is_not_there_yet(configure, importable):
    """The task runs once a worker has its code, as while a project is deployed."""
    configure(backoff=jobs.at_once)
    importable("late_jobs", GOOD)
    import late_jobs

    result = late_jobs.act.enqueue()
    importable("late_jobs", "")
    work(on_end=lambda _: importable("late_jobs", GOOD))
    late = stored(result)
    assert (late.status, late.attempts) == (SUCCESSFUL, 2)
    assert late.errors[0].exception_class_path == UNKNOWN


def test_code_that_stays_away_is_looked_for_after_a_pause(backend, importable):
    """That of the backend."""
    importable("gone_jobs", GOOD)
    import gone_jobs

    gone_jobs.act.enqueue()
    importable("gone_jobs", "raise SystemExit")
    assert work().failed == 1
    assert backend.queue("default").counts().delayed == 1


def test_code_that_kills_its_process_when_it_is_imported(configure, environment, importable):
    """It is imported once for each attempt, and then the task has failed."""
    deadly = 2
    backend = configure(lease_seconds=1, max_attempts=deadly)
    importable("deadly_jobs", GOOD)
    import deadly_jobs

    result = deadly_jobs.act.enqueue()
    importable("deadly_jobs", "import os\nos._exit(9)")
    more = {"PYTHONPATH": sys.path[0], "FDBQUEUE_TEST_ATTEMPTS": str(deadly)}
    codes = []
    for _ in range(deadly + 1):
        command = [sys.executable, "manage.py", "tasks_worker", "--max-tasks", "1"]
        ended = forked.run(command, cwd=ROOT, env={**environment, **more}, timeout=60, check=False)
        codes.append(ended.returncode)
    assert codes == [1] * deadly + [0]  # the parent says with what its process ended
    importable("deadly_jobs", GOOD)
    assert (stored(result).status, stored(result).attempts) == (FAILED, deadly)
    assert backend.queue("default").counts().dead == 1


def test_a_backoff_that_leaves(backend):
    """There is no further attempt, and the worker goes on."""
    results = [bad_jobs.fail_with_a_bad_backoff.enqueue(), jobs.note.enqueue("after")]
    work()
    assert [stored(one).status for one in results] == [FAILED, SUCCESSFUL]
    assert stored(results[0]).attempts == 1


def test_an_exception_whose_class_has_no_module(configure):
    """It is told as any other, its text and its frames included, and its backoff is kept to."""
    configure(backoff=None)
    result = bad_jobs.raise_what_has_no_module.enqueue()
    work()
    assert (stored(result).status, stored(result).attempts) == (FAILED, 1)
    (error,) = stored(result).errors
    assert error.exception_class_path == "Homeless"
    assert "in raise_what_has_no_module" in error.traceback
    assert error.traceback.endswith("Homeless: what the reader needs\n")


def test_a_schedule_whose_code_leaves(configure, importable):
    """Its slots are tried again; others, and all that a worker keeps, go on."""
    importable("leaving_jobs", "raise SystemExit")
    often = {"every": 1}
    backend = configure(
        schedules={
            "bad": {"task": "leaving_jobs.act", **often},
            "good": {"task": "tests.tasks.jobs.note", "args": [1], **often},
        }
    )
    house = Housekeeping(backend, backend.catalog)
    house.start()
    try:
        wait_until(lambda: backend.queue("default").counts().ready >= 2)
        assert house.is_at_work()
    finally:
        house.stop()


@pytest.mark.parametrize("kind", [*bad_jobs.KINDS])
def test_a_receiver_that_leaves(backend, kind):
    """The next ones are called all the same."""
    told = []

    def leave(task_result, **_):
        told.append(task_result.id)
        raise bad_jobs.KINDS[kind]

    compat.task_finished.connect(leave)
    try:
        results = [jobs.note.enqueue(number) for number in range(3)]
        work()
    finally:
        compat.task_finished.disconnect(leave)
    assert sorted(told) == sorted(result.id for result in results)


# The database


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_an_async_task_has_broken(backend):
    """The next task has one that works."""
    broken = bad_jobs.break_the_connection.enqueue()
    results = [bad_jobs.ask_the_database.enqueue() for _ in range(3)]
    work()
    assert stored(broken).status is SUCCESSFUL
    assert [stored(one).status for one in results] == [SUCCESSFUL] * 3


# Behind the end


@pytest.mark.parametrize("which", [0, 1])
def test_what_is_asked_for_behind_the_end_is_refused(backend, which):
    """It would never be done."""
    result = bad_jobs.leave_a_context.enqueue()
    work()
    assert stored(result).status is SUCCESSFUL
    with pytest.raises(RuntimeError, match="has ended"):
        jobs.done[which]()
    assert backend.queue("default").counts().ready == 0


@pytest.mark.parametrize("ends_well", [True, False])
def test_follow_ups_in_the_immediate_backend(configure, ends_well):
    """They are run behind a success, as in a worker, and not behind a failure."""
    configure()
    kind = f"{'django.tasks' if compat.IN_DJANGO else 'django_tasks'}.backends.immediate"
    with override_settings(TASKS={"default": {"BACKEND": f"{kind}.ImmediateBackend"}}):
        result = bad_jobs.chain_at_once.enqueue("x", ends_well)
        follower, *done = jobs.done
        with pytest.raises(RuntimeError):
            jobs.chain.func(1)  # no task runs here any more
    assert result.status == (SUCCESSFUL if ends_well else FAILED)
    assert done == (["at the end", "x"] if ends_well else [])
    assert follower.is_finished == ends_well


def test_tasks_of_other_backends_are_refused(configure):
    """What only fdbqueue's can do says so: nothing of another one's task is in FoundationDB."""
    configure()
    kind = f"{'django.tasks' if compat.IN_DJANGO else 'django_tasks'}.backends.immediate"
    with override_settings(TASKS={"default": {"BACKEND": f"{kind}.ImmediateBackend"}}):
        with pytest.raises(InvalidTask, match="'default' is a ImmediateBackend: to enqueue"):
            run(conf.database(), lambda tr: enqueue_in(tr, jobs.note, 1))
        with pytest.raises(InvalidTaskBackend, match="to abort a task it must be one of fdbqueue"):
            abort("0" * 32)
        for function in (group_result, abort_group):
            with pytest.raises(InvalidTaskBackend, match="it must be one of fdbqueue"):
                function("0" * 32)
        with pytest.raises(InvalidTaskBackend):
            abort("0" * 32, backend="nobody's")
    assert jobs.done == []


# Forks


@pytest.mark.parametrize(("kind", "code"), [("return", 0), ("raise", 1), ("exit", 3)])
def test_a_forked_child_that_comes_back(backend, kind, code):
    """It ends, and what it returns or raises is not the task's."""
    result, process = bad_jobs.fork.enqueue(kind), os.getpid()
    work()
    assert os.getpid() == process
    assert stored(result).return_value == f"the parent's, {code}"
    assert stored(result).attempts == 1


def test_a_child_that_is_forked_in_the_loop(backend):
    """Likewise."""
    result = bad_jobs.fork_in_the_loop.enqueue()
    work()
    assert stored(result).return_value == "the parent's, 0"


# Results, names


def test_keys_that_are_one_text(backend):
    """A dictionary that JSON cannot keep is refused; other keys become texts, for receivers too."""
    told = []

    def receive(task_result, **_):
        told.append(task_result._return_value)

    compat.task_finished.connect(receive)
    try:
        twice, once = map(bad_jobs.return_keys.enqueue, ("twice", "once"))
        work()
    finally:
        compat.task_finished.disconnect(receive)
    assert stored(twice).errors[0].exception_class is ValueError
    value = {"1": 2, "null": [{"true": 0.5}]}
    assert stored(once).return_value == value
    assert value in told
