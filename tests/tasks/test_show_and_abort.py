"""``tasks_show`` and ``tasks_abort``: one task, by the id of its result."""

from __future__ import annotations

import json
import re

import pytest
from django.core.management.base import CommandError

from fdbqueue.tasks import call, chain, group
from fdbqueue.tasks.compat import TaskResultStatus
from tests.called import called
from tests.cases import cases
from tests.tasks import group_jobs, jobs, kept_jobs


@pytest.fixture
def backend(configure):
    """A backend whose tasks fail at their first attempt."""
    return configure(backoff=None)


def test_a_successful_task(backend, work):
    """Its function, its arguments, its times, what it returned."""
    result = jobs.note.using(priority=3).enqueue({"a": [1]})
    work(worker="anna")
    shown = json.loads(called("tasks_show", result.id, "--json"))
    assert shown["task"] == "tests.tasks.jobs.note"
    assert shown["args"] == [{"a": [1]}]
    assert shown["return_value"] == {"a": [1]}
    assert (shown["status"], shown["priority"], shown["attempts"]) == ("SUCCESSFUL", 3, 1)
    assert shown["workers"] == ["anna"]
    assert shown["enqueued_at"] <= shown["started_at"] <= shown["finished_at"]
    text = called("tasks_show", result.id)
    assert re.search(r"^STATE +Successful$", text, re.MULTILINE)
    assert re.search(r'^ARGUMENTS +{"args": \[{"a": \[1\]}\], "kwargs": {}}$', text, re.MULTILINE)
    assert re.search(r'^RETURNED +{"a": \[1\]}$', text, re.MULTILINE)
    assert "\nATTEMPT 1: Successful\n  worker: anna\n" in text


def test_a_failed_task(backend, work):
    """Its errors with their tracebacks; a terminal obeys nothing in them."""
    result = kept_jobs.fail_while_closed.enqueue()
    other = jobs.fail.enqueue("\x1b[31mred")
    work()
    shown = json.loads(called("tasks_show", result.id, "--json"))
    assert shown["status"] == "FAILED"
    (error,) = shown["errors"]
    assert error["exception"] == "builtins.LookupError"
    assert error["traceback"].endswith("LookupError: closed\n")
    text = called("tasks_show", other.id)
    assert "\nATTEMPT 1: Failed\n" in text
    assert "\n  error: LookupError\n" in text
    assert "\\x1b[31mred" in text
    assert "\x1b" not in text


def test_a_task_that_waits_is_aborted(backend, work):
    """It never runs; once more there is nothing to do."""
    result = jobs.note.enqueue(1)
    assert json.loads(called("tasks_abort", result.id, "--json"))["outcome"] == "aborted"
    work()
    result.refresh()
    assert result.status is TaskResultStatus.FAILED
    assert jobs.done == []
    assert "had ended before" in called("tasks_abort", result.id)


def test_a_task_that_runs_is_asked(backend):
    """The command says so."""
    result = jobs.note.enqueue(1)
    backend.queue("default").lease(seconds=60)
    assert "was asked to end" in called("tasks_abort", result.id)


@pytest.mark.parametrize("command", ["tasks_show", "tasks_abort"])
def test_a_task_that_is_not_there(backend, command):
    """The command ends with 1, and says what may be the reason."""
    with pytest.raises(CommandError, match="has no task with the id") as caught:
        called(command, "nosuch")
    assert caught.value.returncode == 1


@cases("command", ["tasks_show", "tasks_abort"])
@cases("wrong", ["", "x" * 100, "\x1b"])
def test_what_is_not_the_id_of_a_task(backend, command, wrong):
    """The command ends with 2, and nothing is read."""
    with pytest.raises(CommandError, match="is not the id of a task") as caught:
        called(command, wrong)
    assert caught.value.returncode == 2
    assert str(caught.value).isprintable()


def test_a_task_of_a_group(backend, work):
    """It shows the group as a tree, with how far it is; the group is aborted by its id."""
    parts = [call(group_jobs.add, 1), chain(group_jobs.fail, group_jobs.add)]
    parts += [call(group_jobs.add, n) for n in range(30)]
    result = group(parts).then(group_jobs.collect).enqueue()
    work(limit=1)
    first, *_ = result.parts()
    shown = json.loads(called("tasks_show", first.id, "--json"))
    assert shown["group"] == {"tree": result.id, "branch": 0, "at": 0, "of": 32, "leads": False}
    text = called("tasks_show", first.id)
    assert f"\nGROUP {result.id}\n  Group of 32: 1 ended, 0 failed  Running\n" in text
    assert f"\n  > tests.tasks.group_jobs.add  Successful  {first.id}\n" in text
    assert "\n    Chain of 2: 0 ended, 0 failed  Ready\n" in text
    assert "\n    … and 12 more\n" in text
    assert "\n  then: tests.tasks.group_jobs.collect\n" in text
    assert called("tasks_show", result.id) == text[text.index("GROUP") :].replace("  > ", "    ")
    found = json.loads(called("tasks_abort", result.id, "--json"))
    assert found == {"id": result.id, "aborted": 31, "asked": 0, "ended": 1, "never": 2}
    assert f"The group {result.id} was aborted" in called("tasks_abort", result.id)
    assert "failed  Aborted\n" in called("tasks_show", first.id)
    nested = result.parts()[1].id
    shown = json.loads(called("tasks_show", nested, "--json"))
    assert (shown["id"], shown["kind"], shown["count"]) == (nested, "chain", 2)
    steps = chain(group_jobs.add, group_jobs.add).enqueue()
    assert f"The chain {steps.id} was aborted" in called("tasks_abort", steps.id)
    with pytest.raises(CommandError, match="is nested"):
        called("tasks_abort", nested)


def test_a_group_is_shown_by_its_id(backend, work):
    """Whether anything is kept of its tasks or not."""
    result = group([group_jobs.add]).then(group_jobs.count, always=True).enqueue()
    called("tasks_abort", "--queue", "default", "--no-input")
    shown = json.loads(called("tasks_show", result.id, "--json"))
    result.refresh()
    follows = {"id": result.follows.id, "task": "tests.tasks.group_jobs.count"}
    assert shown == {
        "id": result.id,
        "kind": "group",
        "status": "RUNNING",
        "backend": "default",
        "count": 1,
        "succeeded": 0,
        "failed": 1,
        "finished_at": None,
        "is_aborted": False,
        "follows": follows,
    }
    assert "tests.tasks.group_jobs.add  Failed" in called("tasks_show", result.id)
    work()
    assert json.loads(called("tasks_show", result.id, "--json"))["finished_at"].endswith("Z")
