"""Buttons at tasks and schedules: give back, run now; hold, go on."""

from __future__ import annotations

import datetime
import re

import pytest

from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.schedules_by_hand import named, run_now
from fdbqueue.tasks.task_worker import TaskWorker
from tests.pages.addresses import LIST, text
from tests.pages.conftest import person
from tests.pages.test_actions import at, buttons, do, form_of
from tests.pages.test_ticked import ask, send
from tests.tasks import jobs, letters
from tests.tasks.conftest import backend_of
from tests.tasks.test_page_actions import QUEUE, page_of

SCHEDULES = f"{LIST}-/schedules/"
NIGHTLY = {"nightly": {"task": "tests.tasks.letters.send", "args": ["ada"], "every": 3_600}}


@pytest.fixture(autouse=True)
def backend(empty_queues, settings, db):
    """A backend whose tasks are in queues of the test's own, and pages with actions."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, "PAGES": {"actions": True}}
    return backend_of(settings, schedules=NIGHTLY)


@pytest.fixture
def manager():
    """Somebody who may view and manage queues."""
    return person("manager", "view_queue", "manage_queue")


def offered(page):
    """Return the names of the actions that a page has buttons of."""
    return [re.search(r"/do/([a-z-]+)/", one)[1] for one in buttons(page)]


def test_a_task_of_a_dead_worker(manager, backend):
    """Its page gives it back, and another worker runs it at once."""
    task = letters.send.enqueue("ada")
    backend.queue("default").lease(worker="dead:1", seconds=1_800)
    page = manager.get(page_of(task))
    assert offered(page) == ["abort", "give-back"]
    item = re.search(r"give-back/\?id=([^&\"]+)", text(page))[1]
    assert "1 item was given back." in text(do(manager, at(LIST, QUEUE, "give-back"), {"id": item}))
    TaskWorker(backend, follow=False).run()
    task.refresh()
    assert (task.status, task.attempts) == (TaskResultStatus.SUCCESSFUL, 2)


def test_a_task_that_waits_for_its_time(manager, backend):
    """Its page runs it now; so do boxes in the list, of which none removes a task."""
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    tasks = [letters.send.using(run_after=later).enqueue(str(number)) for number in range(3)]
    page = manager.get(page_of(tasks[0]))
    assert offered(page) == ["abort", "run-now"]
    listed = text(manager.get(f"{LIST}{QUEUE}/?state=delayed"))
    ids = re.findall(r'name="id" value="([^"]+)"', listed)
    assert len(ids) == 3
    assert re.findall(r'id="ticked-([a-z-]+)"', listed) == ["run-now"]
    address = at(LIST, QUEUE, "run-now")
    page = send(manager, address, ask(manager, address, id=ids[:2]))
    assert "2 items are ready now." in text(page)
    assert backend.queue("default").size() == 2


def test_a_schedule_is_held_and_goes_on(manager, backend):
    """Its row says since when, and has the other button."""
    page = text(manager.get(SCHEDULES))
    assert re.findall(r'id="do-schedule-0-([a-z-]+)"', page) == ["run-schedule", "hold-schedule"]
    assert "Held <time" not in page
    which = {"id": "default/nightly"}
    assert "The schedule is held." in text(do(manager, at(LIST, QUEUE, "hold-schedule"), which))
    page = text(manager.get(SCHEDULES))
    assert re.findall(r'id="do-schedule-0-([a-z-]+)"', page) == ["run-schedule", "go-on-schedule"]
    assert "Held <time" in page
    again = do(manager, at(LIST, QUEUE, "hold-schedule"), which)
    assert "The schedule was held before." in text(again)
    assert "The schedule goes on." in text(do(manager, at(LIST, QUEUE, "go-on-schedule"), which))
    again = do(manager, at(LIST, QUEUE, "go-on-schedule"), which)
    assert "The schedule was not held." in text(again)


def test_a_schedule_runs_once_for_a_form(manager, backend):
    """A form that is sent twice, or after it has run elsewhere, enqueues nothing more."""
    address, which = at(LIST, QUEUE, "run-schedule"), {"id": "default/nightly"}
    page = manager.get(address, which)
    assert "latest=" in form_of(address, page)
    done = text(manager.post(form_of(address, page), follow=True))
    assert "The task of the schedule was enqueued." in done
    assert "Nothing was enqueued" in text(manager.post(form_of(address, page), follow=True))
    page = manager.get(address, which)
    run_now(backend, named(backend, "nightly"))
    assert "Nothing was enqueued" in text(manager.post(form_of(address, page), follow=True))
    assert backend.queue("default").size() == 2
    assert manager.post(f"{address}?id=default/nightly").status_code == 400


@pytest.mark.parametrize("action", ["run-schedule", "hold-schedule", "go-on-schedule"])
def test_a_schedule_that_is_not_there(manager, backend, action):
    """Or is of another queue than the address says: nobody is let in by that."""
    for queue, which in (
        (QUEUE, "default/lost"),
        (QUEUE, "other/nightly"),
        (QUEUE, "nightly"),
        ("tasks-other", "default/nightly"),
        ("-", "default/nightly"),
    ):
        address = at(LIST, queue, action)
        assert manager.get(address, {"id": which}).status_code == 404
        assert manager.post(f"{address}?id={which}&latest=").status_code == 404
    assert backend.queue("default").size() == 0


def test_a_schedule_whose_queue_is_not_known(manager, settings):
    """It is held at the address of all queues."""
    backend_of(settings, schedules={"one": {"task": "not.imported.here", "every": 60}})
    page = text(manager.get(SCHEDULES))
    assert "/-/do/hold-schedule/?id=default%2Fone" in page
    done = do(manager, at(LIST, "-", "hold-schedule"), {"id": "default/one"})
    assert "The schedule is held." in text(done)
    assert manager.get(at(LIST, QUEUE, "hold-schedule"), {"id": "default/one"}).status_code == 404


def test_who_may_only_view(backend):
    """No buttons, and no way."""
    viewer = person("viewer", "view_queue")
    assert "do-schedule" not in text(viewer.get(SCHEDULES))
    for action in ("run-schedule", "hold-schedule", "go-on-schedule"):
        for queue in (QUEUE, "-"):
            address = f"{at(LIST, queue, action)}?id=default/nightly&latest="
            assert viewer.get(address).status_code == 403
            assert viewer.post(address).status_code == 403
    assert jobs.done == []
