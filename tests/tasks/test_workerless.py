"""Queues of tasks with nobody who runs them: said where they are listed, and never in error."""

from __future__ import annotations

import json
import os
import signal

import pytest
from django.test import RequestFactory

from fdbqueue import conf
from fdbqueue.columns import attention_causes
from fdbqueue.health.views import QueuesView
from fdbqueue.service.tools import presence
from fdbqueue.tasks.task_worker import TaskWorker
from tests.called import called
from tests.engines.children import wait_until
from tests.injection import time_ahead
from tests.pages.addresses import LIST
from tests.pages.conftest import person
from tests.pages.test_attention import strip
from tests.presences import write_rows
from tests.tasks import letters, limited_jobs
from tests.tasks.conftest import backend_of
from tests.tasks.test_worker_command import start

__all__ = ["start"]

QUEUE = "tasks-default"


@pytest.fixture
def fdbqueue_queues():
    """A queue of other items."""
    return {"mail": {"kind": "fifo"}}


@pytest.fixture
def backend(empty_queues, settings, db):
    """A backend whose tasks are in queues of the test's own."""
    return backend_of(settings, max_attempts=1)


@pytest.fixture
def viewer(db):
    """Somebody who may view queues."""
    return person("viewer", "view_queue")


@pytest.fixture
def waits(backend, soon):
    """A task that has waited since the minute before."""
    task = letters.send.enqueue("ada")
    with time_ahead(60):
        yield task


@pytest.fixture
def soon(monkeypatch):
    """No worker needs any time to take a task."""
    monkeypatch.setattr(attention_causes, "WORKERLESS_SECONDS", 0)


def said(viewer):
    """Return which queues are said to have no worker."""
    found = strip(viewer.get(LIST))
    return [name for one in ("lost", "no_worker") for name, _waited in found.get(one, [])]


def rows(*of, **how):
    """Let workers of tasks have rows."""
    write_rows(conf.catalog().presences, *({"kind": "tasks", **one} for one in of), **how)


def test_nobody_runs_the_tasks(viewer, waits):
    """The list says so and since when, and no vaguer reason beside it; so does the command."""
    found = strip(viewer.get(LIST))
    assert [*found] == ["no_worker"]
    assert found["no_worker"] == [(QUEUE, "1 min")]
    assert [*strip(viewer.get(LIST, {"sort": "-trouble"}))] == ["no_worker"]
    assert "no worker" in called("queue_list", QUEUE)
    for arguments in ([], ["--rates"]):
        assert json.loads(called("queue_list", QUEUE, "--json", *arguments))["no_worker"] is True


def test_a_task_that_was_just_enqueued(viewer, backend):
    """A worker takes it within ten seconds."""
    letters.send.enqueue("ada")
    assert said(viewer) == []


@pytest.mark.parametrize(
    ("row", "is_said"),
    [
        ({"serves": QUEUE}, False),
        ({"serves": "other tasks-*"}, False),
        ({"serves": ""}, False),
        ({}, False),
        ({"serves": 5}, False),
        ({"serves": "x" * 3_000}, False),
        ({"serves": "tasks-other"}, True),
        ({"serves": "tasks-* !tasks-default"}, True),
        ({"serves": "tasks-* !tasks-d*"}, True),
        ({"serves": QUEUE, "kind": "items"}, True),
        ({"serves": "<b>[*"}, True),
    ],
)
def test_a_worker_that_is_alive(viewer, waits, row, is_said):
    """Counts for the queues that it names; one that names none may take from any."""
    rows(row)
    assert said(viewer) == ([QUEUE] if is_said else [])


def test_a_worker_that_is_lost(viewer, backend, soon):
    """What it has leased says nothing, nor what was popped lately; another one that lives does."""
    for name in ("ada", "bob"):
        letters.send.enqueue(name)
    TaskWorker(backend, limit=1, follow=False).run()
    letters.send.enqueue("bob")
    TaskWorker(backend)._source.lease(1, seconds=600, worker="anna")
    assert said(viewer) == []
    rows({"serves": QUEUE}, silent_seconds=60)
    assert said(viewer) == [QUEUE]
    rows({"serves": "tasks-*"})
    assert said(viewer) == []


@pytest.mark.parametrize("is_leased", [True, False])
def test_who_has_no_row_may_run_tasks(viewer, backend, soon, is_leased):
    """A worker of an older version, say: its leases and pops of the last minutes tell of it."""
    for name in ("ada", "bob"):
        letters.send.enqueue(name)
    assert said(viewer) == [QUEUE]
    source = TaskWorker(backend)._source
    (item,) = source.lease(1, seconds=600, worker="anna")
    if not is_leased:
        conf.catalog().queue(QUEUE).ack(item)
    assert said(viewer) == []


def test_more_workers_than_are_read(viewer, waits, monkeypatch):
    """Nothing is said: the one of this queue may be among the others."""
    rows({"serves": "other"}, {"serves": "another"})
    assert said(viewer) == [QUEUE]
    monkeypatch.setattr(presence, "MAX_ROWS", 1)
    assert said(viewer) == []


def test_a_queue_that_is_paused(viewer, waits):
    """It says that it is."""
    conf.catalog().queue(QUEUE).pause(reason="a deploy")
    assert [*strip(viewer.get(LIST))] == ["paused"]


def test_a_queue_of_the_project(viewer, backend, soon):
    """Programs without rows may pop from it."""
    conf.catalog().queue("mail").push(1)
    assert said(viewer) == []


def test_limited_tasks(viewer, backend, soon):
    """Their home's worker runs them; without one the home is named, once."""
    for number in range(3):
        limited_jobs.two_a_customer.enqueue(f"customer {number}", number)
    assert said(viewer) == [QUEUE]
    rows({"serves": QUEUE})
    assert said(viewer) == []


def test_nothing_more_is_read_of_queues_that_are_well(viewer, backend, monkeypatch):
    """The rows of workers are read if a task waits."""
    letters.send.enqueue("ada")
    monkeypatch.setattr(presence.Presences, "read_in", None)
    assert said(viewer) == []


def test_a_worker_says_which_queues_it_takes_from(backend):
    """By names and patterns, and what it leaves out; all of its backend's without any."""
    found = {}
    for names, excluded in [((), ()), (("default",), ()), (("d*",), ("dead",))]:
        worker = TaskWorker(backend, names, excluded=excluded, follow=False, limit=1)
        letters.send.enqueue("ada")
        seen = []
        worker._on_end = lambda _, seen=seen: wait_until(
            lambda: seen.extend(conf.catalog().presences.read().rows) or seen
        )
        worker.run()
        found[names] = seen[0].serves
    assert found == {
        (): "tasks-default tasks-other",
        ("default",): "tasks-default",
        ("d*",): "tasks-d* !tasks-dead",
    }


# The health check


def checked(settings, **options):
    """Return the answer of the check of queues, asked with the token."""
    settings.FDBQUEUE_METRICS_TOKEN = "t" * 20
    request = RequestFactory().get("/", headers={"authorization": f"Bearer {'t' * 20}"})
    response = QueuesView.as_view(**options)(request)
    return response.status_code, json.loads(response.content)


def test_the_check_of_workers(settings, backend):
    """503 and the queues without, if any is named for which no worker is alive."""
    names = {"with_workers": [QUEUE, "mail"]}
    well = {"status": "ok", "attention": {}, "blocked": {}, "complete": True}
    assert checked(settings) == (200, well)
    told = {**well, "status": "no worker", "no_worker": [QUEUE, "mail"]}
    assert checked(settings, **names) == (503, told)
    rows({"serves": QUEUE}, silent_seconds=60)
    rows({"serves": QUEUE, "kind": "items"})  # which runs no tasks
    assert checked(settings, **names) == (503, told)
    rows({"serves": "tasks-*"})
    assert checked(settings, **names) == (503, {**told, "no_worker": ["mail"]})
    rows({"serves": "mail", "kind": "items"}, silent_seconds=1)
    assert checked(settings, **names) == (200, {**well, "no_worker": []})


def test_the_check_of_more_workers_than_are_read(settings, backend, monkeypatch):
    """No queue is without: one that was not read may serve it."""
    monkeypatch.setattr(presence, "MAX_ROWS", 1)
    rows({"serves": "mail", "kind": "items"}, {"serves": QUEUE})
    code, told = checked(settings, with_workers=[QUEUE])
    assert (code, told["no_worker"]) == (200, [])


# A real process


@pytest.mark.nightly
def test_a_worker_that_is_killed(start, configure):
    """It is lost within ten seconds: it was silent for less before."""
    backend = configure(lease_seconds=600)
    read = backend.catalog.presences.read
    worker = start()
    wait_until(lambda: [row for row in read().rows if not row.is_lost])
    os.killpg(worker.process.pid, signal.SIGKILL)  # both processes: without its parent one ends
    worker.process.wait(60)
    (row,) = wait_for(lambda: [row for row in read().rows if row.is_lost])
    assert presence.LOST_SECONDS < 10
    assert row.serves == "tasks-default tasks-other"


def wait_for(read):
    """Return what is read once there is something."""
    found = []
    wait_until(lambda: found.extend(read()) or found)
    return found
