"""What users of single queues may do with the queues of limited tasks over REST."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from fdbqueue.tasks.compat import task_backends
from tests.tasks import limited_jobs

QUEUE, OTHER = "tasks-default", "tasks-other"


def may_default(_user, _permission, name):
    """Allow everything for one queue."""
    return name == QUEUE


@pytest.fixture(autouse=True)
def backend(empty_queues, settings, db):
    """A backend with two queues, one of which users may use."""
    apps = {*settings.INSTALLED_APPS, "fdbqueue.tasks"}
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, *apps.difference(settings.INSTALLED_APPS)]
    kind = {"BACKEND": "fdbqueue.tasks.FdbQueueBackend", "QUEUES": ["default", "other"]}
    settings.TASKS = {"default": kind}
    api = {"AUTHORIZER": "tests.tasks.test_limited_over_rest.may_default"}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "API": api}
    return task_backends["default"]


def test_rest_shows_limited_tasks_to_who_may_view_their_home(admin_user, backend):
    """It reads their queues, and no others; what may be done with them is unchanged."""
    for name in ("default", "other"):
        limited_jobs.one_a_customer.using(queue_name=name).enqueue("ada", 1)
    client = APIClient()
    client.force_authenticate(admin_user)
    seen, hidden = sorted(name for name in backend.catalog.names() if name.startswith("limited"))
    assert client.get(f"/api/queues/{seen}/").json()["home"] == QUEUE
    assert client.get(f"/api/queues/{seen}/items/").status_code == 200
    assert client.get(f"/api/queues/{hidden}/items/").status_code == 403
    assert client.get("/api/queues/").status_code == 403
    assert client.post(f"/api/queues/{seen}/pause/", {}, format="json").status_code == 403
