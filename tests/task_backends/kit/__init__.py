"""A conformance kit: tests of what Django's Tasks API promises, for the author of any backend.

    class TestOurs(BackendConformance, TransactionTestCase):
        backend = "ours.backend.OurBackend"

        def run_worker(self, count=None):
            call_command("our_worker", batch=True, max_tasks=count)

The kit knows nothing of fdbqueue's queues: it uses Django's Tasks and its test cases, with or
without pytest, and of fdbqueue only ``fdbqueue.tasks.compat``. ``docs/task-backends.md`` has the
command that runs it over a backend of any project. Its modules:

- ``case``: the attributes and hooks that the author of a backend sets, and what the tests use;
- ``enqueueing``, ``validation``, ``outcomes``, ``results``, ``contexts``, ``order``, ``signals``,
  ``worker_death``: the tests, in a mix-in for each concern;
- ``tasks``: the Tasks that they enqueue, made of ``functions`` when a worker imports them;
- ``journal``: a file in which each function and each signal leaves a line,
  in whichever process, so that tests know what ran even where no result is kept.

A new promise is a method ``test_...`` of the mix-in of its concern: its docstring says in a
sentence what must hold. If not every backend can keep it, ask for the flag or claim first.
"""

from __future__ import annotations

from tests.task_backends.kit.case import CLAIMS, ConformanceCase
from tests.task_backends.kit.contexts import AsyncTasks, Contexts, Retries
from tests.task_backends.kit.enqueueing import Enqueueing
from tests.task_backends.kit.order import Deferring, Priorities
from tests.task_backends.kit.outcomes import Outcomes
from tests.task_backends.kit.results import Results
from tests.task_backends.kit.signals import Checks, Signals
from tests.task_backends.kit.validation import Validation
from tests.task_backends.kit.worker_death import WorkerDeath

__all__ = [
    "CLAIMS",
    "AsyncTasks",
    "BackendConformance",
    "Checks",
    "ConformanceCase",
    "Contexts",
    "Deferring",
    "Enqueueing",
    "Outcomes",
    "Priorities",
    "Results",
    "Retries",
    "Signals",
    "Validation",
    "WorkerDeath",
]


class BackendConformance(
    Enqueueing,
    Validation,
    Outcomes,
    Results,
    Contexts,
    AsyncTasks,
    Priorities,
    Deferring,
    Retries,
    Signals,
    Checks,
    WorkerDeath,
):
    """Test everything that Django's Tasks API promises, of any backend.

    Put it before one of Django's test cases, and say what is under test; ``ConformanceCase``
    documents the attributes and the two hooks, ``run_worker`` and ``worker_process``. A flag of the
    API that the backend sets must hold, and what it does not support must be refused. A test that
    has nothing to say of a backend is skipped with the reason.
    """
