"""What all tests of the kit use: the backend under test, its worker, and waiting for results."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn
from unittest import mock

from asgiref.sync import async_to_sync
from django.conf import settings
from django.test import override_settings

from fdbqueue.tasks.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    BaseTaskBackend,
    Task,
    TaskResult,
    TaskResultStatus,
    task_backends,
)
from tests.task_backends.kit import journal, tasks

if TYPE_CHECKING:
    from django.test import SimpleTestCase as _TestCase
else:
    _TestCase = object

#: What a backend may claim beyond the flags of the API, and what it then promises.
CLAIMS = {
    "order-of-enqueueing": "one worker starts equal tasks in the order in which they were enqueued",
    "retries": "a task that raises runs again, at least three times, with options for no delay",
    "results-outlive-code": "get_result() works for a task whose function is gone",
    "worker-death": "the tasks of a killed worker run again, or end",
    "poison-tasks": "a task that kills its worker each time ends FAILED",
}
#: The logger of the API's receivers of its signals.
API_LOGGER = BaseTaskBackend.__module__.removesuffix(".backends.base")
_POLL_SECONDS = 0.02


class ConformanceCase(_TestCase):
    """Test a backend of Django's Tasks; a mix-in before one of Django's test cases.

    Use ``TransactionTestCase`` if the backend uses the database, else ``SimpleTestCase``.

    Attributes:
        backend: The dotted path of the backend's class; None for the one that the project's
            setting ``TASKS`` has under ``alias``.
        options: The backend's ``OPTIONS``.
        queues: The backend's ``QUEUES``; None for a setting without them.
        alias: The alias of the backend in ``TASKS``.
        execution: Who runs tasks: ``"worker"`` (``run_worker`` does), ``"enqueue"`` (enqueueing
            does, before it returns), or ``"never"`` (nobody).
        claims: Features that the API has no flag for, from ``CLAIMS``.
        known_failures: Names of tests that fail, each with the reason. Such a test is an expected
            failure, and it is an error if it passes.
        deadline_seconds: How long a test waits for a result.
        death_tasks: The number of tasks in the test that kills workers.
        deaths: The number of workers that it kills.
    """

    backend: ClassVar[str | None] = None
    options: ClassVar[Mapping[str, Any]] = {}
    queues: ClassVar[Sequence[str] | None] = ("default", "other")
    alias: ClassVar[str] = DEFAULT_TASK_BACKEND_ALIAS
    execution: ClassVar[Literal["worker", "enqueue", "never"]] = "worker"
    claims: ClassVar[Collection[str]] = frozenset()
    known_failures: ClassVar[Mapping[str, str]] = {}
    deadline_seconds: ClassVar[float] = 30.0
    death_tasks: ClassVar[int] = 60
    deaths: ClassVar[int] = 5

    # What the author of a backend writes

    def run_worker(self, count: int | None = None) -> None:
        """Run the tasks that are ready, in all queues, and return when none is left.

        One worker runs one task at a time, in this process or in another one that has its
        environment. A task that is enqueued meanwhile should be run, too. By default it does
        nothing, as for a backend that runs tasks when they are enqueued.

        Args:
            count: Return after at most this many tasks; None for no limit.
        """

    def worker_process(self) -> subprocess.Popen[Any] | None:
        """Start a process that runs tasks of all queues, one at a time, until it is killed.

        It must inherit the environment, have the same ``TASKS``, and run the tasks itself, not in
        children: the kit kills it with SIGKILL. None, by default, if the backend does not claim
        to handle that.
        """
        return None

    # What the tests use

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if unknown := set(cls.claims) - CLAIMS.keys():
            raise TypeError(f"{cls.__name__}.claims has {sorted(unknown)}, not of {sorted(CLAIMS)}")
        for name in cls.__dict__.get("known_failures", ()):
            if not hasattr(cls, name):
                raise TypeError(f"{cls.__name__}.known_failures has {name!r}, which is not a test")
            setattr(cls, name, _expected_failure(getattr(cls, name)))

    def setUp(self) -> None:
        """Configure the backend under test, with an empty journal."""
        super().setUp()
        folder = tempfile.mkdtemp(prefix="tasks-conformance-")
        self.addCleanup(shutil.rmtree, folder)
        environment = {journal.FOLDER_VARIABLE: folder, journal.ALIAS_VARIABLE: self.alias}
        for name, value in environment.items():
            self._set_variable(name, value)
        # Django logs each task that fails, as many do here on purpose.
        self._start(mock.patch.object(logging.getLogger(API_LOGGER), "disabled", new=True))
        if self.backend is not None:
            self._start(override_settings(TASKS=self._setting(self.backend)))
        self._workers: list[subprocess.Popen[Any]] = []
        self.addCleanup(self.kill_workers)

    def _set_variable(self, name: str, value: str) -> None:
        before = os.environ.get(name)
        os.environ[name] = value
        if before is None:
            self.addCleanup(os.environ.pop, name)
        else:
            self.addCleanup(os.environ.__setitem__, name, before)

    def _start(self, context: Any) -> None:
        context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)

    def _setting(self, path: str) -> dict[str, Any]:
        ours: dict[str, Any] = {"BACKEND": path, "OPTIONS": dict(self.options)}
        if self.queues is not None:
            ours["QUEUES"] = list(self.queues)
        return {**(getattr(settings, "TASKS", None) or {}), self.alias: ours}

    @property
    def task_backend(self) -> BaseTaskBackend:
        """Return the backend under test."""
        return task_backends[self.alias]

    def task(self, name: str) -> Task[..., Any]:
        """Return one of the kit's tasks."""
        return tasks.task_of(name)

    def enqueue(self, name: str, *args: Any, **kwargs: Any) -> TaskResult[..., Any]:
        """Enqueue one of the kit's tasks."""
        return self.task(name).enqueue(*args, **kwargs)

    def awaited(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return what a coroutine function returns."""
        return async_to_sync(function)(*args, **kwargs)

    def ran(self, name: str) -> list[Any]:
        """Return the values with which a task of the kit ran, the earliest first."""
        return [entry["value"] for entry in journal.entries("ran", task=name)]

    def outcome(self, result: TaskResult[..., Any]) -> TaskResult[..., Any]:
        """Run the worker until a task has ended, and return its result as it is then."""
        if self.execution == "enqueue":
            self.assertTrue(result.is_finished, "enqueue() has not run the task")
            return result
        self.needs_running()
        if not self.task_backend.supports_get_result:
            self.does_not_apply("this backend does not support results, so none can be read")

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
        deadline = time.monotonic() + self.deadline_seconds
        while True:
            if meanwhile:
                meanwhile()
            if holds():
                return
            if time.monotonic() > deadline:
                self.fail(f"After {self.deadline_seconds} seconds it does not hold that {what}")
            time.sleep(_POLL_SECONDS)

    def start_worker(self) -> subprocess.Popen[Any]:
        """Start a worker process, which is killed at the end of the test."""
        worker = self.worker_process()
        if worker is None:
            self.fail(f"{type(self).__name__} claims what worker_process() is needed for")
        self._workers.append(worker)
        return worker

    def kill_workers(self) -> None:
        """Kill the worker processes of this test with SIGKILL."""
        for worker in self._workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGKILL)
            worker.communicate()
        self._workers.clear()

    def assert_nothing_enqueued(self) -> None:
        """Fail if a signal tells of an enqueued task."""
        self.assertEqual(journal.entries("task_enqueued"), [])

    def assert_status(self, result: TaskResult[..., Any], status: str) -> None:
        """Compare a result's status, showing the errors if it is another."""
        shown = "\n".join(error.traceback for error in result.errors)
        self.assertEqual(result.status, TaskResultStatus[status], shown)

    # Why a test does not apply

    def does_not_apply(self, reason: str) -> NoReturn:
        """End a test that has nothing to say of this backend; the reason is reported."""
        self.skipTest(f"does not apply: {reason}")

    def needs_running(self) -> None:
        """End a test if the backend runs no tasks."""
        if self.execution == "never":
            self.does_not_apply("this backend runs no tasks")

    def needs_worker(self) -> None:
        """End a test of tasks that wait for a worker, if they do not."""
        self.needs_running()
        if self.execution == "enqueue":
            self.does_not_apply("this backend runs a task before enqueue() returns")

    def needs_results(self) -> None:
        """End a test of results, if the backend does not support them."""
        if not self.task_backend.supports_get_result:
            self.does_not_apply("supports_get_result is False; a test of its own says what follows")

    def needs_claim(self, claim: str) -> None:
        """End a test of a feature that is not claimed."""
        if claim not in self.claims:
            self.does_not_apply(f"not claimed: {claim!r} ({CLAIMS[claim]})")


def _expected_failure(test: Callable[..., Any]) -> Callable[..., Any]:
    def copy(self: ConformanceCase) -> Any:
        return test(self)

    copy.__name__, copy.__doc__ = test.__name__, test.__doc__
    return unittest.expectedFailure(copy)
