"""What a task leaves behind in its thread and in memory: nothing that the next one meets."""

from __future__ import annotations

import functools
import gc
import logging
import sys
import threading

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.db.backends.sqlite3.base import DatabaseWrapper

from fdbqueue.connections import left_in_order
from fdbqueue.tasks.compat import task_backends, task_finished, task_started
from fdbqueue.tasks.task_worker import TaskWorker
from tests.engines.children import wait_until
from tests.tasks import jobs, left_jobs, timed_jobs
from tests.tasks.stored import FAILED, SUCCESSFUL, status

#: A database in memory is never closed by Django, which Python 3.13 says when a thread ends.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
DEADLINE_SECONDS = 60
LEFT_OPEN = "a transaction was left open, and is rolled back"


# Connections


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("fails", [False, True])
def test_a_transaction_that_is_left_open(backend, work, caplog, fails):
    """It is rolled back, however its task ends, and the log says so; the next task has its own."""
    left = left_jobs.leave_open.enqueue(fails)
    after = [timed_jobs.ask_the_database.enqueue() for _ in range(2)]
    work()
    assert status(left) is (FAILED if fails else SUCCESSFUL)
    assert [status(one) for one in after] == [SUCCESSFUL] * 2
    assert Group.objects.count() == 0
    (record,) = [one for one in caplog.records if one.name == "fdbqueue.connections"]
    assert (record.message, record.database) == (LEFT_OPEN, "default")


@pytest.mark.django_db
def test_a_transaction_of_the_caller_stays(backend, work, caplog):
    """A project's test case is in one, and runs a worker in its thread."""
    Group.objects.create(name="of the test")
    asked = timed_jobs.ask_the_database.enqueue()
    work()
    assert status(asked) is SUCCESSFUL
    assert connection.in_atomic_block
    assert Group.objects.count() == 1
    assert LEFT_OPEN not in caplog.text


@pytest.fixture
def tenants(monkeypatch):
    """Let connections have tenants as django-tenants' do, which are of PostgreSQL alone."""

    def set_tenant(self, tenant):
        self.tenant = tenant

    monkeypatch.setattr(DatabaseWrapper, "tenant", "public", raising=False)
    monkeypatch.setattr(DatabaseWrapper, "set_tenant", set_tenant, raising=False)
    to_public = functools.partialmethod(set_tenant, "public")
    monkeypatch.setattr(DatabaseWrapper, "set_schema_to_public", to_public, raising=False)


@pytest.mark.django_db(transaction=True)
def test_a_tenant_that_is_left_set(backend, work, tenants, monkeypatch):
    """The next task of the thread begins without, also if its connection is kept."""
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", None)
    results = [left_jobs.work_for.enqueue(name) for name in ("a", "b", "c")]
    work()
    values = [task_backends["default"].get_result(one.id).return_value for one in results]
    assert values == [["public", name] for name in ("a", "b", "c")]


@pytest.mark.django_db
def test_a_tenant_of_the_caller_stays(tenants, monkeypatch):
    """A project's test case has set one, and calls what a worker calls in its thread."""
    monkeypatch.setattr(connection, "tenant", "of the test", raising=False)
    with left_in_order():
        assert left_jobs.work_for.func("a") == ["of the test", "a"]
    assert connection.tenant == "of the test"


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_is_kept(backend, work, settings, monkeypatch):
    """A task that ends its transactions keeps its thread's connection, as CONN_MAX_AGE says."""
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", None)
    results = [left_jobs.tell_connection.enqueue() for _ in range(2)]
    work()
    assert [status(one) for one in results] == [SUCCESSFUL] * 2
    assert results[0].return_value == results[1].return_value


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("signal", [task_started, task_finished], ids=["started", "finished"])
def test_a_receiver_that_leaves_a_transaction_open(backend, work, signal):
    """The next one is called all the same, and with a connection of its own."""
    found = []

    def receive(sender, **_):
        found.append(connection.in_atomic_block)
        Group.objects.count()
        transaction.atomic().__enter__()

    results = [jobs.note.enqueue(number) for number in range(2)]
    signal.connect(receive)
    try:
        work()
    finally:
        signal.disconnect(receive)
    assert found == [False, False]
    assert [status(one) for one in results] == [SUCCESSFUL] * 2


# Memory


@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="contextlib keeps what is raised in asgiref meanwhile"
)
@pytest.mark.parametrize(
    "job", [left_jobs.fail, left_jobs.fail_with_limit, left_jobs.fail_async, left_jobs.fail_at_end]
)
def test_what_a_failed_task_had(backend, caplog, job):
    """Its variables are freed as soon as it has ended, while its worker waits for more."""
    left_jobs.had.clear()
    for name in ("django.tasks", "django_tasks"):  # which pytest keeps, with their tracebacks
        caplog.set_level(logging.CRITICAL + 1, name)
    worker = TaskWorker(task_backends["default"], ["default"])
    thread = threading.Thread(target=worker.run)
    gc.collect()
    gc.disable()
    thread.start()
    try:
        job.enqueue()
        wait_until(lambda: left_jobs.had and worker.failed)
        wait_until(lambda: left_jobs.had[0]() is None)
    finally:
        gc.enable()
        worker.stop()
        thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
