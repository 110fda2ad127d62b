"""What the tests of Django's rules share: the backend, its workers, and waiting for results."""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
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
    Task,
    TaskResult,
    TaskResultStatus,
    task_backends,
)
from tests import forked
from tests.conftest import CLUSTER_FILE
from tests.tasks.conftest import APPS
from tests.tasks.engines import engine_setting
from tests.tasks.killing import ROOT
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

    def setUp(self) -> None:
        """Configure a backend in a prefix of the test's own, with an empty journal."""
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="tasks-rules-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        path, prefix = f"{self.folder}/queues.sqlite3", ("fdbqueue-test", secrets.token_hex(8))
        engine = engine_setting("foundationdb" if CLUSTER_FILE else "embedded", path)
        setting = {**engine, "PREFIX": prefix, "QUEUES": {}}
        os.environ[journal.FOLDER_VARIABLE] = self.folder
        self.addCleanup(os.environ.pop, journal.FOLDER_VARIABLE)
        # Django logs each task that fails, as many do here on purpose.
        self._start(mock.patch.object(logging.getLogger(API_LOGGER), "disabled", new=True))
        self._start(override_settings(INSTALLED_APPS=APPS, FDBQUEUE=setting, TASKS=self._setting()))
        self.addCleanup(_clear, prefix)
        self._environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.tasks.kept_settings",
            "FDBQUEUE_PATH": path,
            "FDBQUEUE_TEST_ATTEMPTS": "3",
            "FDBQUEUE_TEST_PREFIX": fdb.tuple.pack(prefix).hex(),
            "FDBQUEUE_TEST_OPTIONS": json.dumps(dict(self.options)),
        }
        if "outbox" in self.options:
            self._environment["FDBQUEUE_TEST_ORM"] = orm = f"{self.folder}/orm.sqlite3"
            self._start(database_at(orm))
        self._workers: list[subprocess.Popen[Any]] = []
        self.addCleanup(self.kill_workers)

    def _start(self, context: Any) -> None:
        context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)

    def _setting(self) -> dict[str, Any]:
        options = {**_OPTIONS, **self.options}
        path = "fdbqueue.tasks.FdbQueueBackend"
        return {ALIAS: {"BACKEND": path, "QUEUES": list(QUEUES), "OPTIONS": options}}

    @property
    def task_backend(self) -> BaseTaskBackend:
        """Return the backend under test."""
        return task_backends[ALIAS]

    def task(self, name: str) -> Task[..., Any]:
        """Return one of the tests' tasks."""
        return tasks.task_of(name)

    def enqueue(self, name: str, *args: Any, **kwargs: Any) -> TaskResult[..., Any]:
        """Enqueue one of the tests' tasks."""
        return self.task(name).enqueue(*args, **kwargs)

    def awaited(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return what a coroutine function returns."""
        return async_to_sync(function)(*args, **kwargs)

    def ran(self, name: str) -> list[Any]:
        """Return the values with which a task ran, the earliest first."""
        return [entry["value"] for entry in journal.entries("ran", task=name)]

    def run_worker(self, count: int | None = None) -> None:
        """Run the tasks that are ready, in all queues, at most so many."""
        call_command("tasks_worker", batch=True, max_tasks=count, verbosity=0)

    def outcome(self, result: TaskResult[..., Any]) -> TaskResult[..., Any]:
        """Run the worker until a task has ended, and return its result as it is then."""

        def ended() -> bool:
            nonlocal result
            result = self.task_backend.get_result(result.id)
            return result.is_finished

        self.work_until(ended, f"the task {result.task.name} has ended")
        return result

    def outcome_of(self, name: str, *args: Any, **kwargs: Any) -> TaskResult[..., Any]:
        """Enqueue a task, run it, and return its result."""
        return self.outcome(self.enqueue(name, *args, **kwargs))

    def work_until(self, holds: Callable[[], bool], what: str) -> None:
        """Run the worker until a condition holds; fail at the deadline."""
        self.wait_until(holds, what, meanwhile=self.run_worker)

    def wait_until(
        self, holds: Callable[[], bool], what: str, meanwhile: Callable[[], None] | None = None
    ) -> None:
        """Wait until a condition holds; fail at the deadline."""
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while True:
            if meanwhile:
                meanwhile()
            if holds():
                return
            if time.monotonic() > deadline:
                self.fail(f"After {_DEADLINE_SECONDS} seconds it does not hold that {what}")
            time.sleep(_POLL_SECONDS)

    def start_worker(self) -> subprocess.Popen[Any]:
        """Start a worker process, which is killed at the end of the test."""
        command = [sys.executable, "manage.py", "tasks_worker", "--verbosity", "0"]
        self._workers.append(forked.popen(command, cwd=ROOT, env=self._environment))
        return self._workers[-1]

    def kill_workers(self) -> None:
        """Kill the worker processes of this test with SIGKILL."""
        for worker in self._workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGKILL)
            worker.communicate()
        self._workers.clear()

    def assert_nothing_enqueued(self) -> None:
        """Fail if a signal tells of an enqueued task."""
        assert journal.entries("task_enqueued") == []

    def assert_status(self, result: TaskResult[..., Any], status: str) -> None:
        """Compare a result's status, showing the errors if it is another."""
        shown = "\n".join(error.traceback for error in result.errors)
        assert result.status == TaskResultStatus[status], shown


def _clear(prefix: tuple[str, ...]) -> None:
    run(conf.database(), lambda tr: tr.clear_range_startswith(fdb.tuple.pack(prefix)))
