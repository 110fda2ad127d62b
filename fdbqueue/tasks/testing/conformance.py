"""The whole kit."""

from __future__ import annotations

from fdbqueue.tasks.testing.contexts import AsyncTasks, Contexts, Retries
from fdbqueue.tasks.testing.enqueueing import Enqueueing
from fdbqueue.tasks.testing.order import Deferring, Priorities
from fdbqueue.tasks.testing.outcomes import Outcomes
from fdbqueue.tasks.testing.results import Results
from fdbqueue.tasks.testing.signals import Checks, Signals
from fdbqueue.tasks.testing.validation import Validation
from fdbqueue.tasks.testing.worker_death import WorkerDeath


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
