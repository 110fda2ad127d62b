"""A project whose tasks are in queues of the test's own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import fdb.tuple
import pytest
from django.conf import settings
from django.test import override_settings

from fdbqueue.tasks.compat import task_backends
from fdbqueue.tasks.task_worker import TaskWorker
from tests.pages.conftest import patient_pages, person
from tests.tasks import jobs
from tests.tasks.engines import engine_setting

__all__ = ["patient_pages"]

APPS = [*settings.INSTALLED_APPS, "fdbqueue.tasks"]


@pytest.fixture
def configure(engine: Any, embedded_path: str, subspace: Any) -> Iterator[Callable[..., Any]]:
    """Set the backend's OPTIONS, and return the backend."""
    prefix = fdb.tuple.unpack(subspace.key())
    setting = {**engine_setting(engine.name, embedded_path), "PREFIX": prefix, "QUEUES": {}}
    overridden: list[override_settings] = []

    def configure(*, queues: Any = ("default", "other"), **options: Any) -> Any:
        backend = {"BACKEND": "fdbqueue.tasks.FdbQueueBackend", "QUEUES": [*queues]}
        one = override_settings(
            INSTALLED_APPS=APPS,
            FDBQUEUE=setting,
            TASKS={"default": {**backend, "OPTIONS": options}},
        )
        one.enable()
        overridden.append(one)
        return task_backends["default"]

    yield configure
    for one in reversed(overridden):
        one.disable()


def backend_of(settings, *, queues=("default", "other"), **options):
    """Let a test's project have the app of tasks, and return its backend with these options.

    Its queues are on the engine of the test's project.
    """
    if "fdbqueue.tasks" not in settings.INSTALLED_APPS:
        settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "fdbqueue.tasks"]
    own = {"QUEUES": [*queues], "OPTIONS": options}
    settings.TASKS = {"default": {"BACKEND": "fdbqueue.tasks.FdbQueueBackend", **own}}
    return task_backends["default"]


@pytest.fixture
def backend(configure: Any) -> Any:
    """The backend with its default options, but for a short pause between attempts."""
    return configure()


@pytest.fixture
def lasting_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the claim of an outbox hold for an hour: a test that says whose it is may be slow."""
    monkeypatch.setattr("fdbqueue.tasks.outbox.mover.CLAIM_SECONDS", 3_600.0)


@pytest.fixture
def fdbqueue_queues() -> dict[str, Any]:
    """No queue but those of tasks, for ``empty_queues``."""
    return {}


@pytest.fixture
def viewer() -> Any:
    """Somebody who may view queues."""
    return person("viewer", "view_queue")


@pytest.fixture(autouse=True)
def _nothing_done() -> Iterator[None]:
    jobs.done.clear()
    jobs.begun.clear()
    jobs.gate.clear()
    yield
    jobs.gate.set()


@pytest.fixture
def work() -> Callable[..., TaskWorker]:
    """Run what is ready in this process, and return the worker that did."""

    def work(names: Any = (), **options: Any) -> TaskWorker:
        worker = TaskWorker(task_backends["default"], names, **{"follow": False, **options})
        worker.run()
        return worker

    return work


@pytest.fixture
def at_work() -> Iterator[Callable[..., TaskWorker]]:
    """Start a worker in a thread that waits for tasks."""
    started: list[tuple[TaskWorker, threading.Thread]] = []

    def start(**options: Any) -> TaskWorker:
        worker = TaskWorker(task_backends["default"], **options)
        thread = threading.Thread(target=worker.run)
        thread.start()
        started.append((worker, thread))
        return worker

    yield start
    jobs.gate.set()
    for worker, _ in started:
        worker.stop()
    for _, thread in started:
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture
def environment(engine: Any, embedded_path: str, subspace: Any) -> dict[str, str]:
    """Return the environment of a process with the settings of ``tests.tasks.process_settings``."""
    found = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.tasks.process_settings"}
    found |= {"FDBQUEUE_PATH": embedded_path, "FDBQUEUE_TEST_PREFIX": subspace.key().hex()}
    if engine.name == "embedded":
        found.pop("FDB_CLUSTER_FILE", None)
    return found
