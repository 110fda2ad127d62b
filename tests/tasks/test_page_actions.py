"""Actions on the page of a task: run it again, abort it."""

from __future__ import annotations

import re

import pytest

from fdbqueue import conf
from fdbqueue.tasks import aborts, call, chain, group, group_result
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.task_worker import TaskWorker
from tests.pages.addresses import LIST, text
from tests.pages.conftest import person
from tests.pages.test_actions import asked, at, buttons, do, form_of, lines
from tests.tasks import letters, limited_jobs
from tests.tasks.conftest import backend_of

QUEUE = "tasks-default"


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
    assert manager.post(f"{at(LIST, QUEUE, 'abort')}?id={task.id}").status_code == 404
    task.refresh()
    assert task.status is TaskResultStatus.READY


def test_a_task_of_the_home(manager):
    """It is none of a limited queue's, so who manages that alone cannot end it."""
    limited_jobs.hold.enqueue("ada")
    (name,) = [one for one in conf.catalog().names(limit=10) if "ada" in one]
    task = letters.send.enqueue("ada")
    assert manager.get(page_of(task, name)).status_code == 404
    assert manager.get(at(LIST, name, "abort"), {"id": task.id}).status_code == 404
    assert manager.post(f"{at(LIST, name, 'abort')}?id={task.id}").status_code == 404
    task.refresh()
    assert task.status is TaskResultStatus.READY


@pytest.mark.parametrize(("chosen", "status"), [("", 400), ("no task", 404), ("0" * 32, 404)])
def test_there_is_no_such_task(manager, chosen, status):
    """The page says so."""
    letters.send.enqueue("ada")
    assert manager.get(at(LIST, QUEUE, "abort"), {"id": chosen}).status_code == status


@pytest.mark.parametrize("action", ["abort", "abort-group"])
def test_what_has_ended_meanwhile_is_not_said_to_be_aborted(manager, backend, action):
    """Between the page and the form the task has succeeded, and so has the group that it is."""
    (task,) = (whole := group([call(letters.send, "ada")]).enqueue()).parts()
    chosen = task.id if action == "abort" else whole.id
    form = asked(manager, at(LIST, QUEUE, action), {"id": chosen})
    TaskWorker(backend, follow=False).run()
    page = manager.post(form, follow=True)
    assert (page.status_code, "aborted" in text(page)) == (404, False)
    assert group_result(whole.id).status is TaskResultStatus.SUCCESSFUL


def test_who_may_only_view(viewer):
    """They see the command, and no button."""
    task = letters.send.enqueue("ada")
    page = viewer.get(page_of(task))
    assert buttons(page) == []
    assert "tasks_abort" in text(page)
    assert viewer.post(f"{at(LIST, QUEUE, 'abort')}?id={task.id}").status_code == 403


@pytest.mark.parametrize("chosen", [{}, {"by_force": "on"}])
def test_a_task_that_runs_is_asked_or_ended(manager, backend, chosen):
    """As the reader chooses; only the form that is sent says so, and a field of any other action
    is ignored.
    """
    task = letters.send.enqueue("ada")
    TaskWorker(backend)._source.lease(1, seconds=60, worker="anna")
    page = manager.get(at(LIST, QUEUE, "abort"), {"id": task.id})
    assert '<input type="checkbox" name="by_force" id="id_by_force">' in page.content.decode()
    do(manager, at(LIST, QUEUE, "abort"), {"id": task.id}, **chosen)
    record = backend.found(task.id).record
    assert (record["abort"], record.get("by_force", False)) == (True, bool(chosen))
    assert "by_force" not in manager.get(at(LIST, QUEUE, "pause")).content.decode()


# Groups and chains


@pytest.fixture
def whole():
    """A group with a part in another queue, and what follows it."""
    other = letters.send.using(queue_name="other")
    parts = [call(letters.send, "ada"), chain(call(letters.send, "bob"), letters.send)]
    return group([*parts, call(other, "<b>")]).then(letters.send).enqueue()


GROUP = at(LIST, QUEUE, "abort-group")


def test_a_group_is_aborted(manager, whole, backend, caplog):
    """From its page, and those of its tasks, which say so; the log says how many tasks it ended."""
    task = whole.parts()[0]
    assert f"{GROUP}?id={whole.id}" in buttons(manager.get(page_of(task)))
    assert buttons(manager.get(page_of(whole))) == [f"{GROUP}?id={whole.id}"]
    page = manager.get(GROUP, {"id": whole.id})
    assert "<h1>Abort a group of tasks of tasks-default</h1>" in text(page)
    assert "The group was aborted" in text(do(manager, GROUP, {"id": whole.id}))
    ((_level, facts),) = lines(caplog)
    assert (facts["items"], facts["id"]) == (3, [whole.id])
    assert group_result(whole.id).is_aborted
    assert [part.status for part in whole.parts() if part.task] == [TaskResultStatus.FAILED] * 2
    TaskWorker(backend, follow=False).run()
    assert group_result(whole.id).succeeded == 0
    assert GROUP not in text(manager.get(page_of(task)))
    assert buttons(manager.get(page_of(whole))) == []


def test_who_may_view_has_the_command_that_aborts_a_group(viewer, whole, capsys):
    """It is that of the whole, with a button that copies it."""
    page = text(viewer.get(page_of(whole.parts()[0])))
    assert f"tasks_abort {whole.id}</code>" in page
    assert 'data-copies="command-2"' in page
    assert buttons(viewer.get(page_of(whole.parts()[0]))) == []


def of_default(user, permission, name):
    """Allow everything for one queue, and to view all others."""
    return name == QUEUE or permission == "fdbqueue.view_queue"


def test_a_group_with_tasks_of_a_queue_that_is_not_managed(settings, viewer, whole):
    """Who may manage one of the queues alone cannot abort the tasks of the others."""
    rule = {"AUTHORIZER": "tests.tasks.test_page_actions.of_default"}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "API": rule}
    task = whole.parts()[0]
    found = buttons(viewer.get(page_of(task)))
    assert found == [f"{at(LIST, QUEUE, 'abort')}?id={task.id}"]
    assert "tasks_abort" in text(viewer.get(page_of(task)))
    assert viewer.get(GROUP, {"id": whole.id}).status_code == 403
    assert viewer.post(f"{GROUP}?id={whole.id}").status_code == 403
    assert not group_result(whole.id).is_aborted
    do(viewer, at(LIST, QUEUE, "abort"), {"id": task.id})


@pytest.mark.parametrize("limited", ["ada", "given"])
def test_a_group_with_limited_tasks(settings, viewer, limited):
    """Who may not manage the queue of the limited ones, which may be any of a key, cannot abort."""
    hold = limited_jobs.hold
    part = call(hold, "ada") if limited == "ada" else chain(call(letters.send, "ada"), hold)
    whole = group([call(letters.send, "bob"), part]).enqueue()
    task = whole.parts()[0]
    rule = {"AUTHORIZER": "tests.tasks.test_page_actions.of_default"}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "API": rule}
    assert [one for one in buttons(viewer.get(page_of(task))) if "group" in one] == []
    assert viewer.get(GROUP, {"id": whole.id}).status_code == 403
    assert viewer.post(f"{GROUP}?id={whole.id}").status_code == 403
    assert not group_result(whole.id).is_aborted
    settings.FDBQUEUE = {**settings.FDBQUEUE, "API": {}}
    assert "The group was aborted" in text(do(person("m", *BOTH), GROUP, {"id": whole.id}))
    assert group_result(whole.id).is_aborted


BOTH = ("view_queue", "manage_queue")


def test_a_task_that_is_in_no_group(manager):
    """There is nothing to abort but the task."""
    task = letters.send.enqueue("ada")
    assert manager.get(GROUP, {"id": task.id}).status_code == 404
    assert manager.post(f"{GROUP}?id={task.id}").status_code == 404
    task.refresh()
    assert task.status is TaskResultStatus.READY


def test_a_large_group_is_aborted_in_several_requests(manager, monkeypatch):
    """Each goes on where the one before has ended; none looks at a task twice."""
    whole = group([call(letters.send, str(number)) for number in range(50)]).enqueue()
    looked = []
    monkeypatch.setattr("fdbqueue.deadlines.is_half_over", lambda: True)
    abort_in = aborts.abort_in

    def noted(tr, owner, task_id, *, by_force):
        assert by_force  # as the first form says, each of them
        looked.append(task_id)
        return abort_in(tr, owner, task_id)

    monkeypatch.setattr(aborts, "abort_in", noted)
    page = do(manager, GROUP, {"id": whole.id}, by_force="on")
    while "There are more" in text(page):
        form = form_of(GROUP, page)
        assert re.search(rf"id={whole.id}&at=\d+&by_force=True$", form)
        assert 'name="by_force" id="id_by_force" checked' in text(page)
        page = manager.post(form, {"by_force": "on"}, follow=True)
        assert len(looked) < 100
    assert len(looked) == len(set(looked)) == 50
    assert group_result(whole.id).is_aborted


def test_a_group_is_aborted_whatever_the_form_says_was_done(manager, whole, backend):
    """More parts than there are were never passed: all are looked at, before it says so."""
    page = do(manager, GROUP, {"id": whole.id, "at": "999999"})
    assert "The group was aborted" in text(page)
    assert [part.status for part in whole.parts() if part.task] == [TaskResultStatus.FAILED] * 2


def test_a_group_that_has_succeeded_is_not_said_to_be_aborted(manager, backend):
    """Also if the form says that a part of it was done before."""
    whole = group([call(letters.send, "ada")]).enqueue()
    form = form_of(GROUP, manager.get(GROUP, {"id": whole.id, "at": "1"}))
    TaskWorker(backend, follow=False).run()
    page = manager.post(form, follow=True)
    assert (page.status_code, "aborted" in text(page)) == (404, False)
    assert group_result(whole.id).status is TaskResultStatus.SUCCESSFUL
