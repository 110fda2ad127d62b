"""Pages and commands of tasks end in time if the engine does not answer.

Each transaction of theirs has a time limit: by that any engine ends it.
"""

from __future__ import annotations

import io

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from fdbqueue import conf
from fdbqueue.tasks import call, group
from fdbqueue.tasks.compat import TaskResultStatus
from fdbqueue.tasks.schedules import DueSchedules
from fdbqueue.tasks.task_worker import TaskWorker
from tests.injection import time_ahead
from tests.pages.addresses import LIST, of
from tests.pages.conftest import person
from tests.tasks import group_jobs, jobs, limited_jobs, timed_engine

QUEUE = "tasks-default"
ID = "A" * 32
SCHEDULES = {"often": {"task": "tests.tasks.jobs.note", "args": [1], "every": 1}}


@pytest.fixture
def backend(configure):
    """A backend with a schedule."""
    return configure(backoff=None, schedules=SCHEDULES)


@pytest.fixture
def timed(backend, settings):
    """Begin to note the transactions of the same queues."""

    def begin():
        settings.FDBQUEUE = {**settings.FDBQUEUE, "ENGINE": "tests.tasks.timed_engine"}
        timed_engine.transactions.clear()
        return timed_engine.transactions

    return begin


@pytest.fixture
def silent(backend, settings):
    """An engine that does not answer."""
    settings.FDBQUEUE = {**settings.FDBQUEUE, "ENGINE": "tests.pages.silent_engine", "OPTIONS": {}}


@pytest.mark.parametrize(
    "address",
    [
        of(QUEUE),
        f"{of(QUEUE)}tasks/{ID}/",
        f"{LIST}-/find/?id={ID}",
        f"{LIST}-/functions/",
        f"{LIST}-/schedules/",
    ],
)
@pytest.mark.django_db
def test_pages_say_that_it_is_silent(silent, address):
    """503, as every page does."""
    assert person("viewer", "view_queue").get(address).status_code == 503


@pytest.mark.parametrize("command", ["tasks_show", "tasks_abort"])
def test_commands_say_that_it_is_silent(silent, command):
    """After ``--engine-timeout``, with the exit code of an engine that is away."""
    with pytest.raises(CommandError, match="--engine-timeout") as caught:
        call_command(command, ID, "--engine-timeout=1")
    assert caught.value.returncode == 4


@pytest.fixture
def found(backend, work):
    """The ids of a group, of its first task that has ended, and of a limited task that waits."""
    result = group([call(jobs.note, "ada"), call(group_jobs.fail)]).enqueue()
    periodic = DueSchedules(backend, backend.catalog)
    periodic.enqueue_due()
    with time_ahead(seconds=2):
        periodic.enqueue_due()
        work()
    return result.id, result.parts()[0].id, limited_jobs.one_at_all.enqueue(1).id


@pytest.mark.django_db
def test_every_read_of_a_page_has_a_time_limit(backend, found, timed):
    """Also what the page of a task shows besides: its group, its limits."""
    whole, first, limited = found
    place = of(backend.found(limited).record["queue"])
    viewer, transactions = person("viewer", "view_queue"), timed()
    for address in (
        LIST,
        of(QUEUE),
        f"{of(QUEUE)}tasks/{first}/",
        f"{of(QUEUE)}?state=dead",
        f"{place}tasks/{limited}/",
        f"{LIST}-/find/?id={first}",
        f"{LIST}-/find/?id={whole}",
        f"{LIST}-/functions/",
        f"{LIST}-/schedules/",
        f"{LIST}-/workers/",
        f"{LIST}-/failures/",
    ):
        transactions.clear()
        assert viewer.get(address).status_code in {200, 302}, address
        assert transactions, address
        assert all(one.is_limited for one in transactions), address


def test_every_transaction_of_a_command_has_a_time_limit(found, timed):
    """Whatever the id names."""
    transactions = timed()
    for command in (
        *(["tasks_show", one] for one in found[1:]),
        *(["tasks_abort", one] for one in found),
        ["tasks_prune"],
    ):
        transactions.clear()
        call_command(*command, stdout=io.StringIO(), stderr=io.StringIO())
        assert transactions, command
        assert all(one.is_limited for one in transactions), command


@pytest.mark.parametrize("task", [jobs.ask_for_abort, limited_jobs.one_at_all])
def test_a_worker_uses_no_catalog_but_the_one_it_was_given(backend, task, monkeypatch):
    """So ``--engine-timeout`` holds for what it reads while a task runs, and of its limits."""
    result = task.enqueue(1)
    worker = TaskWorker(backend, follow=False, catalog=backend.catalog)
    with monkeypatch.context() as patched:
        patched.delattr(conf, "catalog")
        worker.run()
    assert backend.get_result(result.id).status == TaskResultStatus.SUCCESSFUL
