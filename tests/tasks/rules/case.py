"""What the tests of Django's rules share: the backend, its worker, and waiting for results."""

from __future__ import annotations

import logging
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from unittest import mock

import fdb.tuple
from asgiref.sync import async_to_sync
from django.core.management import call_command
from django.test import override_settings

from fdbqueue import conf
from fdbqueue.service import run
from fdbqueue.tasks.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    BaseTaskBackend,
    TaskResultStatus,
    task_backends,
)
from tests.conftest import CLUSTER_FILE
from tests.tasks.conftest import APPS
from tests.tasks.engines import engine_setting
from tests.tasks.outboxes import database_at
from tests.tasks.rules import journal, tasks

if TYPE_CHECKING:
    from django.test import SimpleTestCase as _TestCase
else:
    _TestCase = object

ALIAS = DEFAULT_TASK_BACKEND_ALIAS
QUEUES = ("default", "other")
#: The logger of the API's receivers of its signals.
API_LOGGER = BaseTaskBackend.__module__.removesuffix(".backends.base")
_OPTIONS = {"lease_seconds": 1, "max_attempts": 3, "backoff": "tests.tasks.jobs.at_once"}
_DEADLINE_SECONDS = 120.0
_POLL_SECONDS = 0.02


class ConformanceCase(_TestCase):
    """Test the backend by Django's rules; a mix-in before one of Django's test cases.

    Attributes:
        options: What the backend's ``OPTIONS`` have besides.
    """

    options: ClassVar[Mapping[str, Any]] = {}

    def setUp(self):
        """Configure a backend in a prefix of the test's own, with an empty journal."""
        super().setUp()
        folder = tempfile.mkdtemp(prefix="tasks-rules-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        prefix = ("fdbqueue-test", secrets.token_hex(8))
        engine = "foundationdb" if CLUSTER_FILE else "embedded"
        setting = {**engine_setting(engine, f"{folder}/queues.sqlite3"), "PREFIX": prefix}
        setting["QUEUES"] = {}
        # Django logs each task that fails, as many do here on purpose.
        self._start(mock.patch.object(logging.getLogger(API_LOGGER), "disabled", new=True))
        self._start(override_settings(INSTALLED_APPS=APPS, FDBQUEUE=setting, TASKS=self._setting()))
        self.addCleanup(_clear, prefix)
        if "outbox" in self.options:
            self._start(database_at(f"{folder}/orm.sqlite3"))
        self._start(journal.kept())

    def _start(self, context):
        context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)

    def _setting(self):
        options = {**_OPTIONS, **self.options}
        path = "fdbqueue.tasks.FdbQueueBackend"
        return {ALIAS: {"BACKEND": path, "QUEUES": list(QUEUES), "OPTIONS": options}}

    @property
    def task_backend(self):
        """Return the backend under test."""
        return task_backends[ALIAS]

    def task(self, name):
        """Return one of the tests' tasks."""
        return tasks.task_of(name)

    def enqueue(self, name, *args, **kwargs):
        """Enqueue one of the tests' tasks."""
        return self.task(name).enqueue(*args, **kwargs)

    def awaited(self, function, *args, **kwargs):
        """Return what a coroutine function returns."""
        return async_to_sync(function)(*args, **kwargs)

    def ran(self, name):
        """Return the values with which a task ran, the earliest first."""
        return [entry["value"] for entry in journal.entries("ran", task=name)]

    def run_worker(self, count=None):
        """Run the tasks that are ready, in all queues, at most so many."""
        call_command("tasks_worker", batch=True, max_tasks=count, verbosity=0)

    def outcome(self, result):
        """Run the worker until a task has ended, and return its result as it is then."""

        def ended():
            nonlocal result
            result = self.task_backend.get_result(result.id)
            return result.is_finished

        self.work_until(ended, f"the task {result.task.name} has ended")
        return result

    def outcome_of(self, name, *args, **kwargs):
        """Enqueue a task, run it, and return its result."""
        return self.outcome(self.enqueue(name, *args, **kwargs))

    def work_until(self, holds, what, work=None):
        """Run the worker, in some way, until a condition holds; fail at the deadline."""
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while True:
            (work or self.run_worker)()
            if holds():
                return
            if time.monotonic() > deadline:
                self.fail(f"After {_DEADLINE_SECONDS} seconds it does not hold that {what}")
            time.sleep(_POLL_SECONDS)

    def assert_nothing_enqueued(self):
        """Fail if a signal tells of an enqueued task."""
        assert journal.entries("task_enqueued") == []

    def assert_status(self, result, status):
        """Compare a result's status, showing the errors if it is another."""
        shown = "\n".join(error.traceback for error in result.errors)
        assert result.status == TaskResultStatus[status], shown


def _clear(prefix):
    run(conf.database(), lambda tr: tr.clear_range_startswith(fdb.tuple.pack(prefix)))
