"""The backend, with its own worker, keeps the rules of Django's Tasks API."""

from __future__ import annotations

import pytest
from django.test import SimpleTestCase, TransactionTestCase

from tests.tasks.rules.contexts import AsyncTasks, Contexts, Retries
from tests.tasks.rules.enqueueing import Enqueueing
from tests.tasks.rules.order import Deferring, Priorities
from tests.tasks.rules.outcomes import Outcomes
from tests.tasks.rules.results import Results
from tests.tasks.rules.signals import Checks, Signals
from tests.tasks.rules.validation import Validation


class Rules(
    *(Enqueueing, Validation, Outcomes, Results, Contexts, AsyncTasks, Priorities, Deferring),
    *(Retries, Signals, Checks),
):
    """Everything that the API and its documentation have names for."""


class TestBackend(Rules, SimpleTestCase):
    """Tasks that are enqueued in FoundationDB."""


@pytest.mark.nightly
class TestOutbox(Rules, TransactionTestCase):
    """All that holds for tasks that are enqueued in a table, too."""

    options = {"outbox": True}  # noqa: RUF012  # as the mix-in has it
