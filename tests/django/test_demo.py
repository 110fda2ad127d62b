"""What the demo does with queues: its user, its flows, and the hour that it writes."""

from __future__ import annotations

import importlib
import random

import pytest
from django.conf import settings
from django.test import override_settings
from django.utils import timezone

from fdbqueue.service import Push, Undecodable
from fdbqueue.tasks.task_worker import TaskWorker
from fdbqueue.testing import empty_queues
from project.demo import past, user
from project.demo.earthquakes import records
from project.demo.flows import Flow, Stream
from project.demo.queues import flows
from project.settings import FDBQUEUE, TASKS
from tests.injection import time_ahead


@pytest.fixture(autouse=True)
def queues(setting):
    """The demo's queues, empty."""
    with (
        override_settings(FDBQUEUE={**setting, "QUEUES": FDBQUEUE["QUEUES"]}),
        empty_queues() as found,
    ):
        yield found


def streams():
    """Return the work on each queue, which is the same in each run."""
    return [Stream(flow, random.Random(7)) for flow in flows()]


@pytest.mark.django_db
def test_the_user_is_created_once(django_user_model):
    """With a password, and every permission of queues; the token stays."""
    token = user.create_user()
    assert user.create_user() == token
    (created,) = django_user_model.objects.all()
    assert created.check_password("demo")
    assert created.is_staff
    assert not created.is_superuser
    assert created.has_perms(
        [f"fdbqueue.{verb}_queue" for verb in ("view", "push", "pop", "lease", "manage")]
    )


def test_the_past_is_an_hour(queues):
    """Each queue has a history, the strongest earthquake is still there, and the clock is back."""
    made = streams()
    assert all(stream.is_new() for stream in made)
    past.work(made)
    assert not any(stream.is_new() for stream in made)
    for flow in flows():
        minutes = queues.queue(flow.name).history(60)
        assert sum(minute.pushes for minute in minutes) > 0, flow.name
    quakes = queues.queue("quakes")
    assert sum(minute.pushes for minute in quakes.history(60)) >= len(records())
    assert quakes.peek_max().priority == max(record["magnitude"] for record in records())
    assert quakes.counts().dead == 3
    item = quakes.push({}, 9)
    with time_ahead(-5):
        assert quakes.push({}, 9).pushed_at < item.pushed_at


def test_what_is_not_new_is_left_alone(queues):
    """A queue that has items, or had some, gets no history; the others do."""
    queues.queue("imports").push("mine")
    queues.queue("exports").push("gone")
    queues.queue("exports").pop()
    new = [stream for stream in streams() if stream.is_new()]
    assert {"imports", "exports"}.isdisjoint(stream.flow.name for stream in new)
    past.work(new)
    assert [item.value for item in queues.queue("imports")] == ["mine"]
    assert queues.queue("exports").paused() is None
    assert queues.queue("alerts").size() > 0


@pytest.mark.parametrize("chance", [2, 4, 7])
def test_a_blocked_queue_goes_on_once_its_item_is_removed(queues, monkeypatch, chance):
    """Its workers take nothing until then, and everything afterwards; at high tide, too."""
    monkeypatch.setattr(Stream, "_tide", lambda stream: 1.5)
    flow = next(flow for flow in flows() if flow.name == "imports")
    imports = Stream(flow, random.Random(chance))
    past.work([imports])
    queue = queues.queue("imports")
    head = queue.page(limit=1).items[0]
    assert isinstance(head.value, Undecodable)
    size = queue.size()
    imports.step(1.0)
    assert queue.size() >= size
    queue.remove(head.id)
    pops = sum(minute.pops for minute in queue.history(60))
    imports.step(10.0)
    assert sum(minute.pops for minute in queue.history(60)) > pops


def test_a_paused_queue_goes_on_once_it_is_resumed(queues):
    """Pushes go on all the time."""
    exports = next(stream for stream in streams() if stream.flow.name == "exports")
    queue = queues.queue("exports")
    queue.push_many(range(20))
    queue.pause()
    exports.step(10.0)
    assert queue.size() > 20
    queue.resume()
    exports.step(10.0)
    assert queue.pop().value != 0


def test_items_that_fail_become_dead_letters(queues):
    """With the reason that their values have; the others are acknowledged."""
    queue = queues.queue("alerts")
    flow = Flow(
        "alerts",
        pushes=0,
        push=lambda _: Push(None),
        takes=100,
        lease_seconds=60,
        failure=lambda value: "it is odd" if value % 2 else None,
        retry_seconds=0,
    )
    stream = Stream(flow, random.Random(7))
    queue.push_many(range(10))
    for _ in range(3):
        stream.step(1.0)
    dead = queue.page(state="dead").items
    assert {(item.value % 2, item.reason) for item in dead} == {(1, "it is odd")}
    assert (len(dead), queue.size()) == (5, 0)


def test_workers_hold_leases(queues):
    """As many as the flow says, the latest ones; the earlier ones are done."""
    flow = Flow("alerts", pushes=0, push=lambda _: Push(None), takes=9, lease_seconds=60, held=4)
    stream = Stream(flow, random.Random(7))
    queues.queue("alerts").push_many(range(20))
    stream.step(1.0)
    assert queues.queue("alerts").counts().leased == 4
    assert all(item.worker for item in queues.queue("alerts").page(state="leased").items)


@pytest.fixture
def jobs(queues, db):
    """The work with the demo's tasks, which are imported with the demo's setting."""
    apps = [*settings.INSTALLED_APPS, "fdbqueue.tasks"]
    with override_settings(INSTALLED_APPS=apps, TASKS=TASKS):
        yield importlib.import_module("project.demo.jobs")


def test_no_task_keeps_a_worker_for_long(jobs, monkeypatch):
    """What the past leaves behind has ended after some minutes, and so has what follows."""
    backend, waited = jobs.backend(), []
    monkeypatch.setattr("project.tasks.closing.wait", waited.append)
    chance = random.Random(7)
    jobs.work_through_the_past(chance)
    for _ in range(60):
        jobs.enqueue_some(chance)
    (lost,) = backend.queue("default").page(state="leased").items
    with time_ahead(600):
        TaskWorker(backend, follow=False).run()
    assert backend.queue("default").counts().ready == backend.queue("default").counts().leased == 0
    result = backend.get_result(lost.value["id"])
    assert (result.status, result.worker_ids[0]) == ("SUCCESSFUL", lost.worker)
    assert len(waited) > 10
    assert max(waited) <= 60


def test_there_is_always_a_task_that_takes_its_time(jobs):
    """Whatever chance says, one is enqueued if none runs or waits."""

    class Report(random.Random):
        def random(self):
            return 0.9

    queue = jobs.backend().queue("default")
    for _ in range(3):
        jobs.enqueue_some(Report(7))
        assert queue.counts().ready == 1
    queue.lease()
    jobs.enqueue_some(Report(7))
    assert (queue.counts().ready, queue.counts().leased) == (0, 1)


def test_no_task_has_begun_or_ended_in_the_future(jobs):
    """Those of the past, and the one that a worker elsewhere has."""
    jobs.work_through_the_past(random.Random(7))
    backend = jobs.backend()
    queue, found = backend.queue("default"), []
    for state in ("ready", "leased", "delayed", "dead"):
        for item in queue.page(state=state, limit=100).items:
            result = backend.get_result(item.value["id"])
            assert item.pushed_at <= timezone.now()
            found += [result.enqueued_at, result.started_at, result.last_attempted_at]
            found.append(result.finished_at)
    moments = [moment for moment in found if moment is not None]
    assert len(moments) > 20
    assert max(moments) <= timezone.now()
