"""Queues of tasks: commands, REST and pages end what is in them by aborts alone."""

from __future__ import annotations

import json

import pytest
from django.core.management import CommandError
from django.urls import reverse

from fdbqueue.service import run
from fdbqueue.tasks import call, group, group_result
from tests.called import called
from tests.faults.conftest import clock
from tests.tasks import group_jobs, jobs, limited_jobs
from tests.tasks.stored import FAILED, READY, SUCCESSFUL, stored
from tests.tasks.test_groups import few_together, left, look_after

__all__ = ["clock", "few_together"]

NAME = "tasks-default"
#: Each takes something out of a queue by hand, given its name and the id of an item.
COMMANDS = {
    "pop": lambda _id: ("queue_pop", NAME),
    "drain": lambda _id: ("queue_drain", NAME, "--discard", "--no-input"),
    "move": lambda _id: ("queue_move", NAME, "tasks-other", "--no-input"),
    "work": lambda _id: ("queue_work", NAME, "--handler", "builtins.print", "--until-empty"),
    "work of several": lambda _id: (
        *("queue_work", "tasks-other", NAME),
        *("--handler", "builtins.print", "--until-empty"),
    ),
    "remove": lambda item_id: ("queue_remove", NAME, item_id, "--no-input"),
    "bury": lambda item_id: ("queue_bury", NAME, item_id),
    "purge": lambda _id: ("queue_purge", NAME, "--no-input"),
    "purge ready": lambda _id: ("queue_purge", NAME, "--state", "ready", "--no-input"),
    "purge leased": lambda _id: ("queue_purge", NAME, "--state", "leased", "--no-input"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_no_task(backend, work, name):
    """It says that tasks are ended by tasks_abort, and the task runs."""
    result = jobs.note.enqueue(1)
    command, *arguments = COMMANDS[name](backend.queue("default").peek().id)
    with pytest.raises(CommandError, match="tasks_abort"):
        called(command, *arguments)
    work()
    assert stored(result).status is SUCCESSFUL


@pytest.mark.parametrize("state", ["ready", "delayed", "leased"])
def test_what_waits_or_runs_is_not_removed(backend, state):
    """Whatever its state, and by its id too."""
    jobs.note.enqueue(1)
    queue = backend.queue("default")
    if state != "ready":
        item = queue.lease(seconds=600)
    if state == "delayed":
        queue.nack(item, delay=600)
    (item,) = queue.page(state=state).items
    with pytest.raises(CommandError, match="tasks_abort"):
        called("queue_remove", NAME, item.id, "--no-input")
    assert getattr(queue.counts(), state) == 1


def test_dead_letters_are_requeued_and_removed(backend, work):
    """By the commands, as those of any queue: their end is noted."""
    backend.queue("default")
    for _ in range(3):
        group_jobs.fail.enqueue(1)
    work()
    queue = backend.queue("default")
    first, second, third = (item.id for item in queue.page(state="dead").items)
    called("queue_remove", NAME, first, "--no-input")
    called("queue_redrive", NAME, "--id", second, "--no-input")
    assert (queue.counts().dead, queue.size()) == (1, 1)
    called("queue_purge", NAME, "--state", "dead", "--no-input")
    assert (queue.counts().dead, queue.size()) == (0, 1)
    assert third


def test_what_cannot_be_decoded_is_buried(backend):
    """It is no task; it would block the queue."""
    jobs.note.enqueue(1)
    queue = backend.queue("default")
    item_id = queue.peek().id
    key = queue.subspace.key() + queue.parts.store.keys.place_named(item_id)
    run(queue.database, lambda tr: tr.set(key, b"\xff"))
    called("queue_bury", NAME, item_id)
    assert queue.counts().dead == 1


def test_rest_takes_no_task(backend, admin_client):
    """409 for the removal, the burial and the purge of what waits; 200 for dead letters."""
    jobs.note.enqueue(1)
    item_id = backend.queue("default").peek().id
    api = f"/api/queues/{NAME}/"
    one = admin_client.delete(f"{api}items/{item_id}/")
    buried = admin_client.post(f"{api}bury/", {"id": item_id}, "application/json")
    purged = admin_client.post(f"{api}purge/", {"state": "ready"}, "application/json")
    for response in (one, buried, purged):
        assert response.status_code == 409, response.content
        assert response.json()["code"] == "queue_owned"
    dead = admin_client.post(f"{api}purge/", {"state": "dead"}, "application/json")
    assert dead.status_code == 200
    assert backend.queue("default").size() == 1


@pytest.mark.parametrize("action", ["remove", "bury"])
def test_pages_take_no_task(backend, settings, admin_client, action):
    """Also by an address that no page leads to."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, "PAGES": {"actions": True}}
    jobs.note.enqueue(1)
    item_id = backend.queue("default").peek().id
    address = reverse("fdbqueue:action", args=[NAME, action])
    response = admin_client.post(f"{address}?id={item_id}")
    assert response.status_code == 409
    assert "abort the task" in response.content.decode()
    assert backend.queue("default").size() == 1


def test_the_service_does_what_it_is_told(backend):
    """The project's own code may pop a task; the queue says whose it is."""
    jobs.note.enqueue(1)
    assert backend.queue("default").owner == "fdbqueue.tasks"
    assert backend.queue("default").pop() is not None


# Abort what is in a queue


def aborted(*arguments):
    """Call tasks_abort, and return its record."""
    return json.loads(called("tasks_abort", *arguments, "--no-input", "--json"))


def test_all_tasks_of_a_queue_are_aborted(backend, work):
    """Those that wait have failed, those that run are asked; other queues stay as they are."""
    results = [jobs.note.enqueue(number) for number in range(45)]
    late = jobs.note.using(run_after=None, priority=5).enqueue("runs")
    other = jobs.note.using(queue_name="other").enqueue("other")
    queue = backend.queue("default")
    queue.lease(seconds=600)
    found = aborted("--queue", "default")
    assert found == {"queues": ["default"], "aborted": 45, "asked": 1, "ended": 0}
    assert {stored(result).status for result in results} == {FAILED}
    assert stored(late).status is not FAILED
    assert stored(other).status is READY
    assert (queue.counts().ready, queue.counts().leased) == (0, 1)
    again = aborted("--queue", "default")
    assert (again["aborted"], again["asked"]) == (0, 1)


def test_all_queues_of_a_backend(backend):
    """Limited tasks, too, which are apart in the store."""
    results = [
        jobs.note.enqueue(1),
        jobs.note.using(queue_name="other").enqueue(2),
        limited_jobs.one_a_customer.enqueue("anna", 1),
    ]
    assert aborted("--all")["aborted"] == 3
    assert {stored(result).status for result in results} == {FAILED}


def test_a_group_goes_on_as_after_an_abort(backend, work):
    """Its parts have failed; what follows with ``always`` comes, and is aborted or runs."""
    result = group([call(group_jobs.add, 1)]).then(group_jobs.count, always=True).enqueue()
    aborted("--queue", "default")
    work()
    found = group_result(result.id)
    assert (found.failed, found.is_finished) == (1, True)


@pytest.mark.parametrize(
    "arguments", [(), ("--all", "--queue", "default"), ("0" * 32, "--all"), ("--queue", "none")]
)
def test_arguments_that_say_nothing_or_two_things(backend, arguments):
    """It is refused, and nothing is aborted."""
    result = jobs.note.enqueue(1)
    with pytest.raises(CommandError):
        called("tasks_abort", *arguments, "--no-input")
    assert stored(result).status is READY


def test_what_waits_is_enqueued_by_the_housekeeping(backend, work, clock, few_together):
    """Also if the task that would do it is gone; the abort of the whole ends what has no item."""
    parts = [call(group_jobs.add, number) for number in range(10)]
    result = group(parts).enqueue()
    backend.queue("default").clear()  # the project's own code may
    work()
    assert jobs.done == []
    clock.advance(3_601)
    look_after(backend)
    work()
    result.refresh()
    assert (result.succeeded, result.failed) == (7, 0)
    called("tasks_abort", result.id)
    result.refresh()
    assert (result.status, left(backend)[0]) == (FAILED, 0)
