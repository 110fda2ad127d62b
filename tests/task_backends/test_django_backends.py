"""The kit over Django's own backends: the immediate one and the dummy."""

from __future__ import annotations

import django
from django.test import SimpleTestCase

from tests.task_backends.kit import BackendConformance

PACKAGE = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"


class TestImmediateBackend(BackendConformance, SimpleTestCase):
    """It runs a task before ``enqueue`` returns."""

    backend = f"{PACKAGE}.backends.immediate.ImmediateBackend"
    execution = "enqueue"
    claims = frozenset({"order-of-enqueueing"})


class TestDummyBackend(BackendConformance, SimpleTestCase):
    """It keeps what was enqueued, and runs nothing."""

    backend = f"{PACKAGE}.backends.dummy.DummyBackend"
    execution = "never"
