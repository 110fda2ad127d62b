"""Tasks and the REST API: they can be seen and managed, and nobody else pushes or takes them."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from fdbqueue.access import LEASE, MANAGE, POP, PUSH, VIEW, may
from tests.tasks import jobs

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(backend, admin_user):
    """A superuser's client."""
    client = APIClient()
    client.force_authenticate(admin_user)
    return client


def test_a_superuser_may_see_and_manage_tasks_and_no_more(backend, admin_user):
    """Also not by a permission for all queues."""
    for permission in (VIEW, MANAGE):
        assert may(admin_user, permission, "tasks-default")
        assert may(admin_user, permission)
    for permission in (PUSH, POP, LEASE):
        assert not may(admin_user, permission, "tasks-default")


def test_tasks_cannot_be_enqueued_or_taken_by_rest(backend, client):
    """Whoever could would run any task, or lose one."""
    jobs.note.enqueue(1)
    for address, body in [
        ("queues/tasks-default/push/", {"value": {"task": "tests.tasks.jobs.note"}}),
        ("queues/tasks-default/pop/", {}),
        ("queues/tasks-default/lease/", {}),
        ("pop-from/", {"queues": ["tasks-default"]}),
        ("pop-from/", {"queues": ["tasks-*"]}),
        ("lease-from/", {"queues": ["*"]}),
    ]:
        answer = client.post(f"/api/{address}", body, format="json")
        assert answer.status_code == 403, (address, answer.content)
        assert answer.json()["message"].endswith("No user has it for a queue of tasks.")
    assert backend.queue("default").size() == 1


def test_only_a_queue_of_tasks_is_said_to_be_one(backend, client, db):
    """A refusal of a plain queue does not speak of tasks, nor one of a user without permission."""
    client.force_authenticate(User.objects.create_user("bob"))
    for address, body in [
        ("queues/mail/pop/", {}),
        ("queues/tasks-default/pop/", {}),
        ("pop-from/", {"queues": ["mail", "tasks-*"]}),
    ]:
        answer = client.post(f"/api/{address}", body, format="json")
        assert answer.status_code == 403
        assert "tasks" not in answer.json()["message"]


def test_tasks_can_be_seen_by_rest(backend, client):
    """Their counts and their items."""
    result = jobs.note.enqueue(1)
    answer = client.get("/api/queues/tasks-default/items/")
    assert answer.status_code == 200
    assert answer.json()["items"][0]["value"]["id"] == result.id
