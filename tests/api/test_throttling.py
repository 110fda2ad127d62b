"""Throttles: the host project's rates for each permission, and its own throttles beside them."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from rest_framework.test import APIClient
from rest_framework.throttling import UserRateThrottle

from fdbqueue.api.viewsets import QueueViewSet
from tests.api.test_idempotency import Robot
from tests.api.test_permissions import ALL, VERBS
from tests.cases import cases

NONE_LEFT = "0/min"


@pytest.fixture(autouse=True)
def emptied_cache(queues):
    """Nobody has done anything yet."""
    cache.clear()


@pytest.fixture
def rates(settings):
    """Set the project's rates."""

    def change(**rates):
        settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "DEFAULT_THROTTLE_RATES": rates}

    return change


def check_throttled(response):
    """Check the shape of the answer to one request too many."""
    assert response.status_code == 429
    assert response.json().keys() == {"code", "message"}
    assert response.json()["code"] == "throttled"
    assert 1 <= int(response["Retry-After"]) <= 60


@cases(("method", "path", "body", "permission"), VERBS)
def test_the_rate_of_a_verb_is_that_of_its_permission(api, rates, method, path, body, permission):
    """A rate stops what needs its permission and nothing else."""
    scopes = {name: f"fdbqueue_{name.removesuffix('_queue')}" for name in ALL}
    own = scopes.pop(permission)
    rates(**dict.fromkeys(scopes.values(), NONE_LEFT))
    assert getattr(api, method)(path, body).status_code != 429
    rates(**{own: NONE_LEFT})
    check_throttled(getattr(api, method)(path, body))


def test_a_throttled_push_and_pop_change_nothing(api, queues, rates):
    """What was too often has no effect, and uses up no idempotency key."""
    mail = queues.queue("mail")
    item = mail.push("kept")
    rates(fdbqueue_push=NONE_LEFT, fdbqueue_pop=NONE_LEFT)
    headers = {"Idempotency-Key": "key"}
    check_throttled(api.post("/api/queues/mail/push/", {"value": 1}, headers=headers))
    check_throttled(api.post("/api/queues/mail/pop/", {}, headers=headers))
    assert [each.id for each in mail] == [item.id]
    rates()
    assert len(api.post("/api/queues/mail/pop/", {}, headers=headers).json()["items"]) == 1


def test_a_rate_lets_so_many_through(api, rates):
    """Three a minute are three, over all queues and over lease, ack, nack and extend together."""
    rates(fdbqueue_lease="3/min")
    assert api.post("/api/queues/mail/lease/", {}).status_code == 200
    assert api.post("/api/queues/jobs/lease/", {}).status_code == 200
    assert api.post("/api/queues/mail/ack/", {"leases": []}).status_code == 400
    for verb in ("lease", "ack", "nack", "extend"):
        check_throttled(api.post(f"/api/queues/mail/{verb}/", {}))
    assert api.post("/api/queues/mail/pop/", {}).status_code == 200


def test_each_user_has_its_own_count(client_with, rates):
    """One who asked too often does not stop the others."""
    rates(fdbqueue_view="1/min")
    alice, bob = client_with("view_queue"), client_with("view_queue")
    assert alice.get("/api/queues/").status_code == 200
    check_throttled(alice.get("/api/queues/mail/"))
    assert bob.get("/api/queues/").status_code == 200


@pytest.mark.parametrize("given", [{}, {"fdbqueue_pop": None}, {"user": NONE_LEFT}])
def test_without_a_rate_there_is_no_limit(api, rates, given):
    """Rates that are not there, or are of somebody else, stop nothing."""
    rates(**given)
    for _ in range(20):
        assert api.post("/api/queues/mail/pop/", {}).status_code == 200


def test_no_rates_at_all(api, settings):
    """A project may have set them to None."""
    settings.REST_FRAMEWORK = {**settings.REST_FRAMEWORK, "DEFAULT_THROTTLE_RATES": None}
    assert api.get("/api/queues/").status_code == 200


def test_who_may_not_is_not_counted(client_with, rates):
    """What is refused is refused again: 403 and not 429, and 401 without a user."""
    rates(fdbqueue_pop="1/min")
    client, anonymous = client_with("view_queue"), APIClient()
    for _ in range(3):
        assert client.post("/api/queues/mail/pop/", {}).status_code == 403
        assert anonymous.post("/api/queues/mail/pop/", {}, format="json").status_code == 401


def test_wrong_methods_are_not_counted(api, rates):
    """A method that an address lacks needs no permission and has no rate."""
    rates(**{f"fdbqueue_{name.removesuffix('_queue')}": NONE_LEFT for name in ALL})
    assert api.delete("/api/queues/mail/").status_code == 405


class HostThrottle(UserRateThrottle):
    """The host project's own: two requests a minute of whatever kind."""

    THROTTLE_RATES = {"user": "2/min"}  # noqa: RUF012  # as DRF declares it


def test_the_host_projects_throttles_are_asked_too(api, rates, monkeypatch):
    """Its default classes stop requests here as elsewhere, and ours do beside them."""
    monkeypatch.setattr(QueueViewSet, "throttle_classes", [HostThrottle])
    rates(fdbqueue_push="1/min")
    assert api.post("/api/queues/mail/push/", {"value": 1}).status_code == 201
    check_throttled(api.post("/api/queues/mail/push/", {"value": 1}))
    check_throttled(api.get("/api/queues/"))


def test_a_user_who_is_not_stored_has_a_count(root, rates):
    """Users whom another system knows are told apart by their names."""
    rates(fdbqueue_view="1/min")
    for name in ("ada", "bob"):
        client = root()
        client.force_authenticate(User(username=name, is_superuser=True))
        assert client.get("/api/queues/").status_code == 200
        check_throttled(client.get("/api/queues/"))


def test_users_of_different_classes_have_their_own_counts(root, queues, rates):
    """Also if their primary keys are the same."""
    rates(fdbqueue_view="1/min")
    robot = root()
    robot.force_authenticate(Robot())
    for client in (root(), robot):
        assert client.get("/api/queues/").status_code == 200
        assert client.get("/api/queues/").status_code == 429
