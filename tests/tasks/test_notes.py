"""Progress and metadata: what a task notes while it runs, and what becomes of it."""

from __future__ import annotations

import json
import re
import sys
import threading

import pytest
from django.test import override_settings

from fdbqueue.tasks import abort
from fdbqueue.tasks.columns import progress_text
from fdbqueue.tasks.compat import (
    IN_DJANGO,
    ImmediateBackend,
    TaskResultStatus,
    task_backends,
    task_finished,
)
from fdbqueue.tasks.notes import MAX_METADATA_BYTES, Notes, Progress
from fdbqueue.tasks.task_worker import TaskWorker
from tests import forked
from tests.called import called
from tests.cases import cases
from tests.engines.children import wait_until
from tests.faults.conftest import clock, faulty
from tests.faults.faulty import AFTER, BEFORE, LATE
from tests.faulty_database import FaultyDatabase
from tests.tasks import jobs, note_jobs
from tests.tasks.killing import ROOT

__all__ = ["clock", "faulty"]


def shown(task_id):
    """Return what ``tasks_show --json`` says, and what it says to people."""
    return json.loads(called("tasks_show", task_id, "--json")), called("tasks_show", task_id)


def test_what_a_task_notes_is_seen_while_it_runs(backend, at_work):
    """In its result and in the shell, within about a second, and in the result at its end."""
    result = note_jobs.count.enqueue(10, waits_at=4)
    at_work()
    assert jobs.begun.wait(60)
    wait_until(lambda: backend.get_result(result.id).progress == Progress(4, 10))
    result.refresh()
    assert result.status is TaskResultStatus.RUNNING
    assert result.metadata == {"name": "count", "steps": [2, 3, 4]}
    assert result.progress.share == 0.4
    record, text = shown(result.id)
    assert record["progress"] == {"done": 4, "of": 10}
    assert record["metadata"] == {"name": "count", "steps": [2, 3, 4]}
    assert re.search(r"^PROGRESS +4 of 10, 40 %$", text, re.MULTILINE)
    assert re.search(r'^METADATA +{"name": "count", "steps": \[2, 3, 4\]}$', text, re.MULTILINE)
    jobs.gate.set()
    wait_until(lambda: backend.get_result(result.id).is_finished)
    ended = backend.get_result(result.id)
    assert ended.progress == (10, 10)
    assert ended.metadata == {"name": "count", "steps": [8, 9, 10]}


def test_the_signal_of_the_end_has_it(backend, work):
    """Receivers of ``task_finished`` read what the task has noted."""
    found = []

    def receive(task_result, **_):
        found.append((task_result.metadata, task_result.progress))

    task_finished.connect(receive)
    try:
        note_jobs.count_async.enqueue(3)
        work()
    finally:
        task_finished.disconnect(receive)
    assert found == [({"name": "async"}, (3, 3))]


def test_metadata_is_kept_over_attempts_and_progress_is_not(backend, work):
    """The next attempt begins with the metadata, and without a progress."""
    result = note_jobs.resume.enqueue()
    work(limit=1)
    waiting = backend.get_result(result.id)
    assert (waiting.metadata, waiting.progress) == ({"at": 10}, None)
    work()
    result.refresh()
    assert jobs.done == [(1, 0), (2, 10), (3, 20)]
    assert (result.return_value, result.metadata, result.progress) == (20, {"at": 30}, None)


def test_a_failed_task_keeps_both_until_it_is_redriven(backend, work):
    """Then it runs as if it had never been tried."""
    result = note_jobs.fail_half_way.enqueue()
    work()
    result.refresh()
    assert result.status is TaskResultStatus.FAILED
    assert (result.metadata, result.progress) == ({"why": "no paper"}, (1, 2))
    backend.queue("default").redrive()
    result.refresh()
    assert (result.metadata, result.progress) == ({}, None)
    work()
    result.refresh()
    assert (result.metadata, result.progress) == ({"why": "no paper"}, (1, 2))


def test_a_redriven_task_shows_what_it_notes_in_this_life(backend, at_work, work):
    """Not what it had noted before, and not nothing."""
    result = note_jobs.count.using(queue_name="other").enqueue(5, waits_at=2)
    queue = backend.queue("other")
    queue.bury(next(iter(queue)).id)
    queue.redrive()
    worker = TaskWorker(backend, ["other"])
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        wait_until(lambda: backend.get_result(result.id).progress == (2, 5))
        assert backend.get_result(result.id).metadata == {"name": "count", "steps": [1, 2]}
    finally:
        jobs.gate.set()
        worker.stop()
        thread.join(60)


def test_an_aborted_task_keeps_its_metadata(backend, work):
    """One that waits for its next attempt has noted something before."""
    result = note_jobs.resume.enqueue()
    work(limit=1)
    assert abort(result.id) == "aborted"
    result.refresh()
    assert result.status is TaskResultStatus.FAILED
    assert result.metadata == {"at": 10}


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("long", "MetadataTooLarge"),
        ("many", "MetadataTooLarge"),
        ("object", "TypeError"),
        ("nan", "ValueError"),
        ("bytes", "ValueError"),
        ("name", "TypeError"),
        ("negative", "ValueError"),
        ("infinite", "ValueError"),
        ("text", "TypeError"),
        ("bool", "TypeError"),
    ],
)
def test_what_cannot_be_noted_is_refused_where_it_is_said(backend, work, kind, error):
    """What was noted before stays, and the task and the worker go on."""
    result = note_jobs.note_badly.enqueue(kind)
    worker = work()
    result.refresh()
    assert (worker.succeeded, worker.failed) == (1, 0)
    assert result.return_value == error
    assert result.metadata["kept"] == 1
    assert "bad" not in result.metadata
    assert len(json.dumps(result.metadata, separators=(",", ":"))) <= MAX_METADATA_BYTES


def test_metadata_is_a_dictionary_of_copies():
    """What is read can be changed without changing it, until it is assigned."""
    notes = Notes({"a": [1]})
    notes["a"].append(2)
    assert notes == {"a": [1]}
    notes["a"] = [*notes["a"], 2]
    notes.update(b={"c": (1, 2)})
    del notes["a"]
    with pytest.raises(KeyError):
        del notes["a"]
    assert dict(notes) == {"b": {"c": [1, 2]}}
    notes.close()
    with pytest.raises(RuntimeError, match="has ended"):
        notes["late"] = 1
    with pytest.raises(RuntimeError, match="has ended"):
        notes.set_progress(1, None)


@cases("wrong", [-1, float("inf"), float("nan"), 10**400, -(10**400), 10**5_000])
def test_a_progress_is_a_number_that_a_float_can_have(wrong):
    """What Python cannot show as text, or cannot divide, is refused; nothing is changed by it."""
    notes = Notes()
    notes.set_progress(1, 2)
    with pytest.raises(ValueError, match="A progress is a number from 0 to the largest of a float"):
        notes.set_progress(wrong, 1)
    with pytest.raises(ValueError, match="A progress"):
        notes.set_progress(1, wrong)
    assert notes.stored() == ({"progress": [1, 2]}, 1)


def test_a_progress_beyond_a_float_ends_the_attempt_alone(backend, work):
    """The worker goes on with the next task."""
    results = [note_jobs.go_far.enqueue(5_000), note_jobs.go_far.enqueue(3)]
    worker = work()
    assert (worker.failed, worker.succeeded) == (1, 1)
    for result in results:
        result.refresh()
    assert [result.progress for result in results] == [None, (1_000, 1)]
    assert results[0].errors[0].exception_class is ValueError
    assert re.search(r"^PROGRESS +1,000 of 1, 100 %$", shown(results[1].id)[1], re.MULTILINE)


def test_a_progress_that_was_stored_before_it_was_refused_is_shown():
    """Its share is one, and its page has a text."""
    assert Progress(10**400, 1).share == 1.0
    assert Progress(10**400, 10**401).share == 0.1
    assert Progress(0, 10**400).share == 0.0
    assert Progress(5, 0).share is None
    assert progress_text(Progress(10**400, 1)).endswith(" of 1, 100 %")


def test_behind_the_end_nothing_is_noted(backend, work):
    """A context that outlives its task raises."""
    note_jobs.keep_context.enqueue()
    work()
    (context,) = jobs.done
    with pytest.raises(RuntimeError, match="has ended"):
        context.metadata["late"] = True
    with pytest.raises(RuntimeError, match="has ended"):
        context.progress(1)


def test_the_immediate_backend_takes_notes_in_memory():
    """In tests a task notes the same, and no store is asked."""
    kind = "django.tasks" if IN_DJANGO else "django_tasks"
    path = f"{kind}.backends.immediate.ImmediateBackend"
    with override_settings(TASKS={"default": {"BACKEND": path}}):
        assert isinstance(task_backends["default"], ImmediateBackend)
        assert note_jobs.count.enqueue(4).return_value == 4
        assert note_jobs.count_async.enqueue(4).return_value == 4
        assert note_jobs.note_badly.enqueue("long").return_value == "MetadataTooLarge"
        assert jobs.tell.enqueue(1).return_value["args"] == [1]


def test_a_killed_worker_leaves_what_was_written(configure, environment):
    """The next attempt begins with it."""
    backend = configure(lease_seconds=1)
    result = note_jobs.die_once.enqueue()
    command = [sys.executable, "manage.py", "tasks_worker", "--max-tasks", "1"]
    ended = forked.run(
        command, cwd=ROOT, env=environment, timeout=60, check=True, capture_output=True
    )
    assert b"ended by signal 9; another starts" in ended.stderr
    result = backend.get_result(result.id)
    assert (result.return_value, result.attempts, result.metadata) == (7, 2, {"at": 7})
    assert result.progress is None


def test_an_engine_that_is_away_loses_no_note(backend, at_work):
    """They are written once it is back; the task has not noticed."""
    database = FaultyDatabase(backend.catalog.database)
    result = note_jobs.count.enqueue(10, waits_at=3)
    database.is_available = True
    at_work(catalog=backend.catalog.over(database))
    assert jobs.begun.wait(60)
    database.is_available = False
    threading.Event().wait(1.5)  # at least one write has failed
    assert backend.get_result(result.id).progress in (None, (3, 10))
    database.is_available = True
    wait_until(lambda: backend.get_result(result.id).progress == (3, 10))


def test_a_worker_whose_lease_is_lost_notes_nothing(configure, clock):
    """What the attempt has noted that holds the lease stays."""
    backend = configure(lease_seconds=60)
    result = note_jobs.count.enqueue(10, waits_at=2)
    slow = TaskWorker(backend, ["default"], worker="slow", limit=1)
    thread = threading.Thread(target=slow.run)
    thread.start()
    try:
        assert jobs.begun.wait(60)
        clock.advance(3_600)
        other = backend.queue("default").lease(seconds=600, worker="other")
        assert other is not None
        attempt = next(iter(slow._source._held.values()))
        attempt.notes["late"] = True
        slow._source._write_notes()
        assert "late" not in backend.get_result(result.id).metadata
    finally:
        jobs.gate.set()
        thread.join(60)
    assert slow.lost == 1


@pytest.mark.parametrize("seed", range(3))
def test_notes_end_with_their_tasks_whatever_commits_do(backend, faulty, seed):
    """The final record has the last of them."""
    database = faulty(seed=seed, rate=0.5, faults=[*BEFORE, *AFTER, *LATE])
    results = [note_jobs.count.enqueue(number) for number in range(1, 20)]
    worker = TaskWorker(
        backend, ["default"], follow=False, threads=3, catalog=backend.catalog.over(database)
    )
    worker.run()
    assert sum(database.happened.values()) > 3
    for number, result in enumerate(results, 1):
        found = backend.get_result(result.id)
        assert (found.return_value, found.progress) == (number, (number, number))
        assert found.metadata["steps"][-1] == number


def test_a_task_that_notes_nothing_starts_no_thread(backend, work, monkeypatch):
    """And its record is as short as it was."""
    started = []
    monkeypatch.setattr("fdbqueue.tasks.notes.OwnThread", lambda *_, **__: started.append(1))
    result = jobs.note.enqueue(1)
    work()
    assert started == []
    assert not {"metadata", "progress"} & backend.found(result.id).record.keys()
