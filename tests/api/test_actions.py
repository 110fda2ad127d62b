"""An action is declared once: all else about it follows from its declaration."""

from __future__ import annotations

import json

import pytest
from django.urls import URLPattern
from drf_spectacular.generators import SchemaGenerator
from rest_framework.routers import SimpleRouter
from rest_framework.test import APIRequestFactory, force_authenticate

from fdbqueue.access import MANAGE
from fdbqueue.api import inputs, outputs, urls
from fdbqueue.api.actions import Action, declaration, declarations
from fdbqueue.api.viewsets import QueueViewSet

BODY = {"id": "A", "reason": "not ours"}


def shout(_self, asked, name):
    """Say a reason aloud."""
    return {"buried": 1, "said": f"{name}: {asked['reason'].upper()}"}


@pytest.fixture
def routes(monkeypatch):
    """The addresses of a viewset with one more action."""
    declare = Action(
        "POST",
        "Shout a reason",
        MANAGE,
        body=inputs.BuryBody,
        answer=outputs.BuriedOutput,
        examples={"Aloud": BODY},
    )
    monkeypatch.setattr(QueueViewSet, "shout", declare(shout), raising=False)
    router = SimpleRouter()
    router.register("queues", QueueViewSet, basename="queue")
    return router.urls


def post(routes, user, body):
    """POST a body to the action, and return the status and the JSON."""
    found = [match for route in routes if (match := route.resolve("queues/mail/shout/"))]
    request = APIRequestFactory().post("/queues/mail/shout/", body, format="json")
    force_authenticate(request, user)
    response = found[0].func(request, **found[0].kwargs).render()
    return response.status_code, json.loads(response.content)


def test_a_declared_action_is_served(routes, queues, user_with):
    """It has an address, its permission is asked for, and its body is checked."""
    manager, worker = user_with("manage_queue"), user_with("view_queue", "pop_queue")
    assert post(routes, manager, BODY) == (200, {"buried": 1, "said": "mail: NOT OURS"})
    assert post(routes, worker, BODY)[0] == 403
    status, error = post(routes, manager, {**BODY, "x": 1})
    assert (status, error["fields"]) == (400, {"x": "Unknown key."})


def test_a_declared_action_is_described(routes):
    """The schema has its summary, docstring, body, answer, and examples of these."""
    schema = SchemaGenerator(patterns=routes).get_schema(public=True)
    operation = schema["paths"]["/queues/{name}/shout/"]["post"]
    assert operation["operationId"] == "queues_shout"
    assert operation["summary"] == "Shout a reason"
    assert operation["description"] == "Say a reason aloud."
    body = operation["requestBody"]["content"]["application/json"]
    assert body["schema"] == {"$ref": "#/components/schemas/BuryBody"}
    assert [one["value"] for one in body["examples"].values()] == [BODY]
    answer = operation["responses"]["200"]["content"]["application/json"]
    assert answer["schema"] == {"$ref": "#/components/schemas/BuriedOutput"}
    assert [one["value"] for one in answer["examples"].values()] == [{"buried": 1}]


def test_every_routed_action_is_declared():
    """Each address of the viewset serves declared actions, and each of these has an address."""
    views = [one.callback for one in urls.urlpatterns if isinstance(one, URLPattern)]
    names = {name for view in views for name in getattr(view, "actions", {}).values()}
    assert all(declaration(QueueViewSet, name) for name in names)
    assert names == {one.name for one in declarations(QueueViewSet)}
