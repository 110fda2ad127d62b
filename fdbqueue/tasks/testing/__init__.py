"""A conformance kit: tests of what Django's Tasks API promises, for the author of any backend.

    class TestOurs(BackendConformance, TransactionTestCase):
        backend = "ours.backend.OurBackend"

        def run_worker(self, count=None):
            call_command("our_worker", batch=True, max_tasks=count)

The kit knows nothing of fdbqueue: it uses Django's Tasks and its test cases, with or without
pytest. Its modules:

- ``case``: the attributes and hooks that the author of a backend sets, and what the tests use;
- ``enqueueing``, ``validation``, ``outcomes``, ``results``, ``contexts``, ``order``, ``signals``,
  ``worker_death``: the tests, in a mix-in for each concern;
- ``conformance``: all of them in one class;
- ``tasks``: the Tasks that they enqueue, made of ``functions`` when a worker imports them;
- ``journal``, ``signal_journal``: a file in which each function and each signal leaves a line,
  in whichever process, so that tests know what ran even where no result is kept.

A new promise is a method ``test_...`` of the mix-in of its concern: its docstring says in a
sentence what must hold. If not every backend can keep it, ask for the flag or claim first.
"""

from __future__ import annotations

from fdbqueue.tasks.testing.case import CLAIMS, ConformanceCase
from fdbqueue.tasks.testing.conformance import BackendConformance
from fdbqueue.tasks.testing.contexts import AsyncTasks, Contexts, Retries
from fdbqueue.tasks.testing.enqueueing import Enqueueing
from fdbqueue.tasks.testing.order import Deferring, Priorities
from fdbqueue.tasks.testing.outcomes import Outcomes
from fdbqueue.tasks.testing.results import Results
from fdbqueue.tasks.testing.signals import Checks, Signals
from fdbqueue.tasks.testing.validation import Validation
from fdbqueue.tasks.testing.worker_death import WorkerDeath

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
