"""Actions on the page of a task: run it again, abort it."""

from __future__ import annotations

import pytest

from fdbqueue import conf
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.worker import TaskWorker
from tests.pages.addresses import LIST, text
from tests.pages.conftest import person
from tests.pages.test_actions import at, buttons, do
from tests.tasks import letters, limited_jobs
from tests.tasks.conftest import backend_of

QUEUE = "tasks-default"


@pytest.fixture
def fdbqueue_queues():
    """No other queues."""
    return {}


@pytest.fixture(autouse=True)
def backend(empty_queues, settings, db):
    """A backend whose tasks are in queues of the test's own, and pages with actions."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, "PAGES": {"actions": True}}
    return backend_of(settings, max_attempts=1)


@pytest.fixture
def manager():
    """Somebody who may view and manage queues."""
    return person("manager", "view_queue", "manage_queue")


def page_of(task, queue=QUEUE):
    return f"{LIST}{queue}/tasks/{task.id}/"


def test_a_task_that_waits_is_aborted(manager):
    """Its page leads to the action, which ends it."""
    task = letters.send.enqueue("ada")
    (address,) = buttons(manager.get(page_of(task)))
    assert address == f"{at(LIST, QUEUE, 'abort')}?id={task.id}"
    page = do(manager, at(LIST, QUEUE, "abort"), {"id": task.id})
    assert "The task was aborted" in text(page)
    task.refresh()
    assert task.status is TaskResultStatus.FAILED
    assert buttons(manager.get(page_of(task))) == []


def test_a_failed_task_runs_again(manager, backend):
    """As if it had never been tried."""
    task = letters.lose.enqueue()
    TaskWorker(backend, follow=False).run()
    (address,) = buttons(manager.get(page_of(task)))
    do(manager, at(LIST, QUEUE, "redrive"), {"id": address.partition("?id=")[2]})
    task.refresh()
    assert task.status is TaskResultStatus.READY


def test_a_task_of_another_queue(manager):
    """It is not there: the permission is asked for the queue in the address."""
    task = letters.send.using(queue_name="other").enqueue("ada")
    assert manager.get(at(LIST, QUEUE, "abort"), {"id": task.id}).status_code == 404
    form = {"id": task.id, "once": "0" * 32}
    assert manager.post(at(LIST, QUEUE, "abort"), form).status_code == 404
    task.refresh()
    assert task.status is TaskResultStatus.READY


def test_a_task_of_the_home(manager):
    """It is none of a limited queue's, so who manages that alone cannot end it."""
    limited_jobs.hold.enqueue("ada")
    (name,) = [one for one in conf.catalog().names(limit=10) if "ada" in one]
    task = letters.send.enqueue("ada")
    assert manager.get(page_of(task, name)).status_code == 404
    assert manager.get(at(LIST, name, "abort"), {"id": task.id}).status_code == 404
    form = {"id": task.id, "once": "0" * 32}
    assert manager.post(at(LIST, name, "abort"), form).status_code == 404
    task.refresh()
    assert task.status is TaskResultStatus.READY


@pytest.mark.parametrize("chosen", [{}, {"id": "no task"}, {"id": "0" * 32}])
def test_there_is_no_such_task(manager, chosen):
    """The page says so."""
    letters.send.enqueue("ada")
    assert manager.get(at(LIST, QUEUE, "abort"), chosen).status_code == 404


def test_who_may_only_view(viewer):
    """They see the command, and no button."""
    task = letters.send.enqueue("ada")
    page = viewer.get(page_of(task))
    assert buttons(page) == []
    assert "tasks_abort" in text(page)
    assert viewer.post(at(LIST, QUEUE, "abort"), {"id": task.id}).status_code == 403


@pytest.fixture
def viewer():
    """Somebody who may view queues."""
    return person("viewer", "view_queue")


@pytest.mark.parametrize("chosen", [{}, {"by_force": "on"}])
def test_a_task_that_runs_is_asked_or_ended(manager, backend, chosen):
    """As the reader chooses; only the form that is sent says so, and a field of any other action
    is ignored.
    """
    task = letters.send.enqueue("ada")
    TaskWorker(backend)._source.lease_many(1, seconds=60, worker="anna")
    page = manager.get(at(LIST, QUEUE, "abort"), {"id": task.id})
    assert '<input type="checkbox" name="by_force" id="id_by_force">' in page.content.decode()
    do(manager, at(LIST, QUEUE, "abort"), {"id": task.id}, **chosen)
    record = backend.found(task.id).record
    assert (record["abort"], record.get("by_force", False)) == (True, bool(chosen))
    assert "by_force" not in manager.get(at(LIST, QUEUE, "pause")).content.decode()
