"""Errors: one shape everywhere, and nothing of the server in them."""

from __future__ import annotations

import logging
from typing import ClassVar

import pytest
from django.db import connection
from django.test import override_settings
from rest_framework.throttling import BaseThrottle

import fdbqueue
from fdbqueue.api.viewsets import QueueViewSet
from fdbqueue.engines.embedded import FDBError
from fdbqueue.exceptions import QueueNotFound
from tests.cases import cases

EVERYTHING = ("view_queue", "push_queue", "pop_queue", "lease_queue", "manage_queue")
FAILING = "tests.api.failing_engine"
MAIL = {"mail": {"kind": "fifo"}, "user-*": {"kind": "fifo"}}
ITEM = "FQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQA"
LEASE = f"{ITEM}.AAAAAAAAAAA"

#: Every address, with what to send to it.
REQUESTS = [
    ("get", "/api/queues/", None),
    ("get", "/api/queues/mail/", None),
    ("get", "/api/queues/mail/peek/", None),
    ("get", "/api/queues/mail/items/", None),
    ("get", f"/api/queues/mail/items/{ITEM}/", None),
    ("post", "/api/queues/mail/push/", {"value": 1}),
    ("post", "/api/queues/mail/push/", {"items": [{"value": 1}]}),
    ("post", "/api/queues/mail/pop/", {}),
    ("post", "/api/queues/mail/lease/", {}),
    ("post", "/api/queues/mail/ack/", {"lease": LEASE}),
    ("post", "/api/queues/mail/ack/", {"leases": [LEASE]}),
    ("post", "/api/queues/mail/nack/", {"lease": LEASE}),
    ("post", "/api/queues/mail/extend/", {"lease": LEASE}),
    ("post", "/api/queues/mail/pause/", {}),
    ("post", "/api/queues/mail/resume/", {}),
]
each_request = cases(("method", "path", "body"), REQUESTS)


@pytest.fixture
def client(client_with):
    """A client who may do everything, whatever the engine."""
    return client_with(*EVERYTHING)


def check_shape(response, status, code):
    """Check what every error has in common."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/json"
    body = response.json()
    assert body["code"] == code
    assert body["message"]
    assert isinstance(body["message"], str)


@cases("name", ["nope", "user 7", "%2e%2e", "-x", "x" * 101, "a*", "ü"])
def test_unknown_queues(api, name):
    """Whatever is asked of a queue that is not configured, the answer is 404."""
    for method, path, body in REQUESTS[1:]:
        response = getattr(api, method)(path.replace("mail", name), body)
        check_shape(response, 404, "queue_not_found")


def test_no_response_names_another_queue(api, allow, monkeypatch):
    """An error about a name that is nearly right has no hint, on any way to it."""
    for method, path, body in REQUESTS[1:]:
        response = getattr(api, method)(path.replace("mail", "mial"), body)
        check_shape(response, 404, "queue_not_found")
        assert response.json().keys() == {"code", "message", "name"}
    allow(AUTHORIZER="tests.api.rules.looks_for_mial")
    response = api.get("/api/queues/quakes/")
    check_shape(response, 404, "queue_not_found")
    assert b"mail" not in response.content
    with pytest.raises(QueueNotFound, match="did you mean 'mail'"):
        fdbqueue.queue("mial")


def test_wrong_methods(api):
    """A method that an address does not have is 405 and names those it has."""
    for method, path in (
        ("delete", "/api/queues/mail/"),
        ("post", "/api/queues/"),
        ("get", "/api/queues/mail/pop/"),
        ("get", "/api/queues/mail/push/"),
        ("get", "/api/queues/mail/lease/"),
        ("put", "/api/queues/mail/ack/"),
        ("delete", "/api/queues/mail/nack/"),
        ("patch", "/api/queues/mail/extend/"),
        ("post", "/api/queues/mail/items/"),
        ("put", "/api/queues/mail/items/FQEB/"),
    ):
        response = getattr(api, method)(path)
        check_shape(response, 405, "method_not_allowed")
        assert response["Allow"]


class Watching(BaseThrottle):
    """A host project's throttle that notes whether a transaction of SQL is open."""

    savepoints: ClassVar[list[int]] = []

    def allow_request(self, request, view):
        self.savepoints.append(len(connection.savepoint_ids))
        return True


def test_atomic_requests(api, monkeypatch):
    """With ATOMIC_REQUESTS a request still opens no transaction of SQL: it may wait for long."""
    monkeypatch.setattr(QueueViewSet, "throttle_classes", [Watching])
    monkeypatch.setattr(Watching, "savepoints", [])
    before = len(connection.savepoint_ids)
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    assert api.post("/api/queues/mail/pop/", {}).status_code == 200
    assert Watching.savepoints == [before]


def test_the_host_projects_handler_is_not_used(api, settings):
    """The shape does not depend on the host project's EXCEPTION_HANDLER."""
    settings.REST_FRAMEWORK = {
        **settings.REST_FRAMEWORK,
        "EXCEPTION_HANDLER": "tests.api.no_such_module.handler",
        "NON_FIELD_ERRORS_KEY": "oops",
    }
    check_shape(api.get("/api/queues/nope/"), 404, "queue_not_found")
    check_shape(api.post("/api/queues/mail/pop/", []), 400, "invalid_input")


@each_request
@pytest.mark.parametrize("where", ["a directory", "below a file"])
def test_engine_unavailable(client, settings, tmp_path, where, method, path, body):
    """An engine that cannot be opened is 503 with Retry-After, and its path is not shown."""
    file = tmp_path / "file"
    file.write_text("")
    place = tmp_path if where == "a directory" else file / "queues.sqlite3"
    settings.FDBQUEUE = {"OPTIONS": {"path": place}, "QUEUES": MAIL}
    response = getattr(client, method)(path, body)
    check_shape(response, 503, "engine_unavailable")
    assert int(response["Retry-After"]) > 0
    assert response.json().keys() == {"code", "message"}
    assert tmp_path.name.encode() not in response.content


@each_request
@pytest.mark.parametrize(
    ("fdb_code", "code"), [(1031, "deadline_exceeded"), (1510, "engine_error")]
)
def test_engine_errors(client, settings, fdb_code, code, method, path, body):
    """The engine's own errors are 503 with Retry-After; one of them says that time ran out."""
    settings.FDBQUEUE = {"ENGINE": FAILING, "OPTIONS": {"code": fdb_code}, "QUEUES": MAIL}
    response = getattr(client, method)(path, body)
    check_shape(response, 503, code)
    assert response.json().keys() == {"code", "message"}
    assert int(response["Retry-After"]) > 0


@each_request
def test_a_full_disk(client, settings, method, path, body):
    """Is said, without the path; nothing was changed."""
    error = FDBError(1510, "The disk is full: /secret has 0.2 MB free")
    settings.FDBQUEUE = {"ENGINE": FAILING, "OPTIONS": {"error": error}, "QUEUES": MAIL}
    response = getattr(client, method)(path, body)
    check_shape(response, 503, "disk_full")
    assert b"secret" not in response.content


def test_outcome_unknown(client, settings, tmp_path):
    """A push, pop or lease of unknown outcome says so: it may have worked."""
    settings.FDBQUEUE = {
        "ENGINE": "tests.api.unsure_engine",
        "OPTIONS": {"path": tmp_path / "q"},
        "QUEUES": MAIL,
    }
    for path, body in (
        ("push/", {"value": 1}),
        ("push/", {"items": [{"value": 1}, {"value": 2}]}),
        ("pop/", {}),
        ("lease/", {}),
    ):
        response = client.post(f"/api/queues/mail/{path}", body)
        check_shape(response, 503, "outcome_unknown")
        assert response.json().keys() == {"code", "message"}
        assert int(response["Retry-After"]) > 0


def test_wrong_settings(client, settings, tmp_path, caplog):
    """A wrong setting is 500 without a word about it; the log has it all."""
    settings.FDBQUEUE = {"OPTIONS": {"path": tmp_path / "q"}, "QUEUES": {"mail": {"kind": "x"}}}
    with caplog.at_level(logging.ERROR, logger="fdbqueue.api"):
        response = client.get("/api/queues/")
    check_shape(response, 500, "configuration_error")
    assert response.json().keys() == {"code", "message"}
    assert "fdbqueue.E008" in caplog.text


def test_errors_of_the_engine_are_logged(client, settings, tmp_path, caplog):
    """What a client is not told, the log says."""
    settings.FDBQUEUE = {"OPTIONS": {"path": tmp_path}, "QUEUES": MAIL}
    with caplog.at_level(logging.ERROR, logger="fdbqueue.api"):
        client.get("/api/queues/mail/")
    assert str(tmp_path) in caplog.text


def test_bugs_are_left_to_django(client, settings):
    """What is no known error is no business of the API's: Django answers 500."""
    settings.FDBQUEUE = {
        "ENGINE": FAILING,
        "OPTIONS": {"error": ZeroDivisionError("a bug")},
        "QUEUES": MAIL,
    }
    with pytest.raises(ZeroDivisionError, match="a bug"):
        client.get("/api/queues/mail/")
    client.raise_request_exception = False
    assert client.get("/api/queues/mail/").status_code == 500


def test_too_many_query_fields(api, settings):
    """What Django itself refuses comes in the same shape."""
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 100
    query = "&".join(f"a{number}=1" for number in range(150))
    check_shape(api.get(f"/api/queues/?{query}"), 400, "parse_error")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        one
        for one in REQUESTS
        if one[1].endswith(("push/", "pop/", "peek/", "lease/", "mail/items/"))
    ],
)
def test_a_queue_that_was_written_under_other_settings(
    client, queues, settings, method, path, body
):
    """It is a conflict that names both settings; its figures are shown all the same."""
    other = {**settings.FDBQUEUE["QUEUES"], "mail": {"kind": "fifo", "codec": "bytes"}}
    with override_settings(FDBQUEUE={**settings.FDBQUEUE, "QUEUES": other}):
        fdbqueue.queue("mail").push(b"bytes")
    response = getattr(client, method)(path, body, format="json")
    check_shape(response, 409, "format_mismatch")
    assert (response.json()["written"], response.json()["here"]) == ("codec bytes", "codec json")
    assert client.get("/api/queues/mail/").status_code == 409  # it shows the items at the ends
    listed = {one["name"]: one for one in client.get("/api/queues/").json()["queues"]}
    assert listed["mail"]["counts"]["ready"] == fdbqueue.queue("mail").size() == 1
