"""The kit over django-tasks-db's database backend, with its own worker."""

from __future__ import annotations

import sys
from types import MappingProxyType

from django.test import TransactionTestCase

from tests.task_backends.database import DatabaseConformance
from tests.task_backends.kit import BackendConformance, WorkerDeath


class TestDatabaseBackend(DatabaseConformance, BackendConformance, TransactionTestCase):
    """It keeps tasks in a table, and a command runs them: what it claims holds, but for four."""

    claims = frozenset({"order-of-enqueueing"})
    known_failures = MappingProxyType(
        {
            "test_the_sender_of_task_started": "db_worker passes the backend object, not its class",
            "test_the_sender_of_task_finished": "as above; for a failed task it passes the class",
            "test_returned_bytes_are_normalised": "normalize_json() does not see return values",
            "test_an_exception_with_a_lone_surrogate": "it ends the worker, not the task",
        }
    )


class TestWorkerDeathOfDatabaseBackend(DatabaseConformance, WorkerDeath, TransactionTestCase):
    """It does not claim to handle killed workers, and does not: their tasks stay RUNNING."""

    claims = frozenset({"worker-death", "poison-tasks"})
    deadline_seconds = 5.0
    test_tasks_of_killed_workers_end = None  # whether it fails is a matter of the moment
    known_failures = MappingProxyType(
        {
            "test_a_task_of_a_killed_worker_ends": "nothing takes back the tasks of a dead worker",
            "test_a_task_that_kills_its_worker_ends": "as above",
        }
    )


class TestWorkerDeathHandled(DatabaseConformance, WorkerDeath, TransactionTestCase):
    """Where a worker takes these tasks back, the same tests pass."""

    claims = frozenset({"worker-death", "poison-tasks"})

    def worker_process(self):
        return self.popen([sys.executable, "-m", "tests.task_backends.reaping_worker"])
