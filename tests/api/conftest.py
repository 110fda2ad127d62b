"""Users, clients, and queues in a place of their own, for the tests of the REST API."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from rest_framework.test import APIClient

from fdbqueue import conf, service
from tests.concurrency.conftest import clock

__all__ = ["clock"]

PATIENT_SECONDS = 60

QUEUES = {
    "quakes": {"kind": "priority", "priority_type": "float"},
    "jobs": {"kind": "priority"},
    "mail": {"kind": "fifo"},
    "raw": {"kind": "fifo", "codec": "bytes"},
    "pairs": {"kind": "fifo", "codec": "tuple"},
    "audit": {"kind": "fifo", "order": "commit"},
    "tried": {"kind": "fifo", "max_attempts": 2},
    "user-*": {"kind": "fifo"},
}


@pytest.fixture
def fdbqueue_queues() -> dict[str, Any]:
    """QUEUES, for ``empty_queues``."""
    return QUEUES


@pytest.fixture
def queues(empty_queues: service.Catalog, allow: Callable[..., None]) -> service.Catalog:
    """The catalog of QUEUES: on a cluster if there is one, under a prefix of its own."""
    allow()
    return conf.catalog()


@pytest.fixture
def allow(settings: Any) -> Callable[..., None]:
    """Set keys of the setting's ``API``; a request has as much time as a busy machine takes."""

    def change(**options: Any) -> None:
        api = {"TIMEOUT_SECONDS": PATIENT_SECONDS, **options}
        settings.FDBQUEUE = {**settings.FDBQUEUE, "API": api}

    return change


@pytest.fixture
def root() -> Callable[[], APIClient]:
    """Make clients of a superuser who is not stored: threads may use them without a database."""

    def make() -> APIClient:
        client = APIClient()
        client.default_format = "json"
        client.force_authenticate(User(pk=1, username="root", is_superuser=True))
        return client

    return make


@pytest.fixture
def user_with(db: None) -> Callable[..., User]:
    """Make a user who has some of the app's permissions."""

    def make(*permissions: str) -> User:
        user = User.objects.create_user(f"user-{secrets.token_hex(4)}")
        found = Permission.objects.filter(
            content_type__app_label="fdbqueue", codename__in=permissions
        )
        assert len(found) == len(permissions)
        user.user_permissions.set(found)
        return user

    return make


@pytest.fixture
def quick_passwords(settings: Any) -> None:
    """Hash passwords quickly: Django's own way is slow, so that none is guessed."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def client_with(user_with: Callable[..., User]) -> Callable[..., APIClient]:
    """Make a client whose user has some of the app's permissions."""

    def make(*permissions: str) -> APIClient:
        client = APIClient()
        client.default_format = "json"
        client.force_authenticate(user_with(*permissions))
        return client

    return make


@pytest.fixture
def api(client_with: Callable[..., APIClient], queues: service.Catalog) -> APIClient:
    """A client who may do everything."""
    return client_with("view_queue", "push_queue", "pop_queue", "lease_queue", "manage_queue")


@pytest.fixture
def anonymous(db: None, queues: service.Catalog) -> APIClient:
    """A client without a user."""
    client = APIClient()
    client.default_format = "json"
    return client
