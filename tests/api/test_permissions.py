"""Who may do what: denied by default, one permission for each verb."""

from __future__ import annotations

from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import User
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory, force_authenticate

from fdbqueue.api.actions import QueuePermission
from fdbqueue.api.viewsets import QueueViewSet
from tests.cases import cases

ALL = ("view_queue", "push_queue", "pop_queue", "lease_queue", "manage_queue")
ITEM = "FQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQA"
LEASE = f"{ITEM}.AAAAAAAAAAA"

#: The method, the address, the body, and the permission that is needed.
VERBS = [
    ("get", "/api/queues/", None, "view_queue"),
    ("get", "/api/queues/mail/", None, "view_queue"),
    ("get", "/api/queues/mail/peek/", None, "view_queue"),
    ("get", "/api/queues/mail/items/", None, "view_queue"),
    ("get", f"/api/queues/mail/items/{ITEM}/", None, "view_queue"),
    ("options", "/api/queues/", None, "view_queue"),
    ("options", "/api/queues/mail/", None, "view_queue"),
    ("options", "/api/queues/mail/items/", None, "view_queue"),
    ("options", "/api/queues/mail/push/", None, "push_queue"),
    ("options", "/api/queues/mail/pop/", None, "pop_queue"),
    ("options", "/api/queues/mail/lease/", None, "lease_queue"),
    ("options", "/api/queues/mail/ack/", None, "lease_queue"),
    ("options", "/api/queues/mail/redrive/", None, "manage_queue"),
    ("options", f"/api/queues/mail/items/{ITEM}/", None, "view_queue"),
    ("get", "/api/queues/mail/dead-reasons/", None, "view_queue"),
    ("post", "/api/queues/mail/bury/", {"id": ITEM}, "manage_queue"),
    ("post", "/api/queues/mail/redrive/", {}, "manage_queue"),
    ("post", "/api/queues/mail/give-back/", {"worker": "dead:1"}, "manage_queue"),
    ("post", "/api/queues/mail/run-now/", {}, "manage_queue"),
    ("post", "/api/queues/mail/purge/", {"state": "dead"}, "manage_queue"),
    ("delete", f"/api/queues/mail/items/{ITEM}/", None, "manage_queue"),
    ("post", "/api/queues/mail/push/", {"value": 1}, "push_queue"),
    ("post", "/api/queues/mail/pop/", {}, "pop_queue"),
    ("post", "/api/queues/mail/lease/", {}, "lease_queue"),
    ("post", "/api/queues/mail/ack/", {"lease": LEASE}, "lease_queue"),
    ("post", "/api/queues/mail/nack/", {"lease": LEASE}, "lease_queue"),
    ("post", "/api/queues/mail/extend/", {"lease": LEASE}, "lease_queue"),
    ("options", "/api/queues/mail/pause/", None, "manage_queue"),
    ("post", "/api/queues/mail/pause/", {"reason": "deploying"}, "manage_queue"),
    ("post", "/api/queues/mail/resume/", {}, "manage_queue"),
]
each_verb = cases(("method", "path", "body", "permission"), VERBS)


@each_verb
def test_a_verb_without_its_permission(client_with, queues, method, path, body, permission):
    """Every other permission together does not allow a verb."""
    client = client_with(*(other for other in ALL if other != permission))
    response = getattr(client, method)(path, body)
    assert response.status_code == 403
    assert response.json()["code"] == "permission_denied"


@each_verb
def test_a_verb_with_its_permission_alone(client_with, queues, method, path, body, permission):
    """A verb needs its own permission and no other."""
    response = getattr(client_with(permission), method)(path, body)
    assert response.status_code in {200, 201, 404, 409}  # no such item, no such lease


@each_verb
def test_anonymous_is_refused(anonymous, method, path, body, permission):
    """Without credentials nothing is answered, but how to give them."""
    response = getattr(anonymous, method)(path, body)
    assert response.status_code == 401
    assert response.json()["code"] == "not_authenticated"
    assert response["WWW-Authenticate"] == "Token"
    unknown = getattr(anonymous, method)(path.replace("mail", "nope"), body)
    assert unknown.content == response.content


class Generous(BaseBackend):
    """An authentication backend that gives everybody every permission."""

    def has_perm(self, user_obj, perm, obj=None):
        return True


def test_anonymous_is_refused_whatever_a_backend_grants(anonymous, settings):
    """Permissions that a backend gives to everybody do not replace credentials."""
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.Generous"]
    assert anonymous.get("/api/queues/").status_code == 401


def test_a_refused_push_and_pop_change_nothing(client_with, queues):
    """A refused request has no effect."""
    mail = queues.queue("mail")
    item = mail.push("kept")
    client = client_with("view_queue")
    client.post("/api/queues/mail/push/", {"value": 1})
    client.post("/api/queues/mail/pop/", {})
    assert [each.id for each in mail] == [item.id]


def test_the_host_project_cannot_open_it():
    """The viewset names its own permissions; DRF's defaults do not reach it."""
    assert QueueViewSet.permission_classes == (QueuePermission,)
    assert "permission_classes" in vars(QueueViewSet)


def test_an_action_that_declares_nothing_is_refused(db):
    """A new action that nobody gave a permission is closed, even to a superuser."""

    class Extended(QueueViewSet):
        def new(self, request):
            return Response("open")

    request = APIRequestFactory().get("/")
    force_authenticate(request, User.objects.create_superuser("root"))
    response = Extended.as_view({"get": "new"})(request)
    assert response.status_code == 403


def test_a_refusal_names_the_permission(client_with, queues):
    """It is the same for queues that exist and that do not."""
    client = client_with("view_queue")
    texts = {
        client.post(f"/api/queues/{name}/push/", {"value": 1}, format="json").json()["message"]
        for name in ("mail", "nope")
    }
    assert texts == {"You do not have the permission fdbqueue.push_queue for this queue."}
