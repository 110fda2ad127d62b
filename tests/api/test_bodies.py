"""Bodies: how long they may be, before they are read; and what the settings cap."""

from __future__ import annotations

import io
import json

import pytest
from django.contrib.auth.models import User
from django.core.handlers.asgi import ASGIRequest
from rest_framework.test import APIClient, force_authenticate

from fdbqueue.api.viewsets import QueueViewSet
from tests.api.test_deadlines import Stopwatch
from tests.cases import cases

PUSH = "/api/queues/mail/push/"
VERBS = ["push", "pop", "lease", "ack", "nack", "extend", "pause", "resume"]


class Unreadable(io.BytesIO):
    """A body that nobody may read."""

    def read(self, size=-1):
        """Fail."""
        raise AssertionError("the body was read")

    readline = read1 = read


def body_of(size):
    """Return a push that is so many bytes long."""
    frame = len(json.dumps({"value": ""}))
    return json.dumps({"value": "x" * (size - frame)}).encode()


def send(client, path, stream, **environ):
    """Send a body as a server hands it over, whatever its length is said to be."""
    given = {
        "CONTENT_TYPE": "application/json",
        "wsgi.input": stream,
        "REQUEST_METHOD": "POST",
        "PATH_INFO": path,
        **environ,
    }
    return client.request(**given)


@cases("verb", VERBS)
def test_a_body_over_the_limit_is_not_read(api, allow, queues, verb):
    """Its length alone decides; nothing of it is read or done, whatever the verb."""
    allow(MAX_BODY_BYTES=1_000)
    mail = queues.queue("mail")
    mail.push("kept")
    before = [each.id for each in mail]
    path = f"/api/queues/mail/{verb}/"
    response = send(api, path, Unreadable(), CONTENT_LENGTH="1001")
    assert response.status_code == 413
    assert response.json() == {
        "code": "body_too_large",
        "message": "The request's body is too large.",
    }
    assert [each.id for each in mail] == before


@pytest.mark.parametrize("length", ["5000001", str(10**15), "9" * 4_000, "9" * 5_000])
def test_the_limit_is_5_mb_by_default(api, length):
    """However long it says it is."""
    response = send(api, PUSH, Unreadable(), CONTENT_LENGTH=length)
    assert (response.status_code, response.json()["code"]) == (413, "body_too_large")


def test_the_body_of_a_read_does_not_matter(api):
    """What is not read may be of any length."""
    environ = {"CONTENT_LENGTH": "5000001", "REQUEST_METHOD": "GET"}
    assert send(api, "/api/queues/mail/", Unreadable(), **environ).status_code == 200


def test_a_body_at_the_limit(api, allow):
    """As long as the limit is not too long; one byte more is."""
    allow(MAX_BODY_BYTES=2_000)
    for size, status in ((2_000, 201), (2_001, 413)):
        body = body_of(size)
        assert len(body) == size
        response = api.post(PUSH, body, content_type="application/json")
        assert response.status_code == status


def test_djangos_limit_for_forms_is_not_ours(api, settings):
    """DATA_UPLOAD_MAX_MEMORY_SIZE is for what Django parses."""
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    assert api.post(PUSH, {"value": "x" * 5_000}).status_code == 201


@cases("verb", VERBS)
@cases("coding", ["chunked", "gzip, chunked", "identity"])
def test_a_chunked_body_is_not_read(api, queues, verb, coding):
    """A body of unknown length is refused: taken for none, it would pop something else."""
    mail = queues.queue("mail")
    mail.push("kept")
    before = [each.id for each in mail]
    environ = {"HTTP_TRANSFER_ENCODING": coding, "wsgi.input_terminated": True}
    response = send(api, f"/api/queues/mail/{verb}/", Unreadable(), **environ)
    assert (response.status_code, response.json()["code"]) == (400, "parse_error")
    assert "Content-Length" in response.json()["message"]
    assert [each.id for each in mail] == before


@pytest.mark.parametrize("length", ["x", "-1", "1.5", "1_4", "+14", "\u0665"])
def test_a_pop_whose_length_is_none(api, queues, length):
    """A pop with such a body is refused, too: it may have asked for the other end."""
    mail = queues.queue("mail")
    item = mail.push("kept")
    path, stream = "/api/queues/mail/pop/", io.BytesIO(b'{"end": "max"}')
    response = send(api, path, stream, CONTENT_LENGTH=length)
    assert response.status_code == 400
    assert [each.id for each in mail] == [item.id]


@pytest.mark.parametrize("length", [11, 1, 0, 100])
def test_a_length_that_is_wrong(api, queues, length):
    """No more is read than was announced; a body cut short is no JSON."""
    body = b'{"value": 1}'
    response = send(api, PUSH, io.BytesIO(body), CONTENT_LENGTH=str(length))
    if length > len(body):  # the server gave all there was, and that is whole
        assert response.status_code == 201
    else:
        assert response.status_code == 400
        assert queues.queue("mail").peek() is None


@pytest.mark.parametrize("verb", VERBS)
def test_no_body(api, queues, verb):
    """A body that was lost on its way is not taken for an empty object, which would pop."""
    mail = queues.queue("mail")
    item = mail.push("kept")
    path = f"/api/queues/mail/{verb}/"
    response = api.generic("POST", path, content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (400, "parse_error")
    assert "A body is required" in response.json()["message"]
    assert [each.id for each in mail] == [item.id]


def test_a_connection_that_broke(api, queues):
    """A body that does not come is the client's error, not ours."""

    class Broken(io.BytesIO):
        def read(self, size=-1):
            raise OSError("connection reset")

    response = send(api, PUSH, Broken(), CONTENT_LENGTH="12")
    assert (response.status_code, response.json()["code"]) == (400, "parse_error")
    assert queues.queue("mail").peek() is None


def test_the_limits_of_numbers(api, allow):
    """MAX_LIMIT caps what is pushed, taken and shown at once, in bodies and in queries."""
    allow(MAX_LIMIT=3)
    message = "Ensure this value is less than or equal to 3."
    for verb in ("pop", "lease"):
        assert api.post(f"/api/queues/mail/{verb}/", {"limit": 3}).status_code == 200
        refused = api.post(f"/api/queues/mail/{verb}/", {"limit": 4})
        assert refused.status_code == 400
        assert refused.json()["fields"] == {"limit": message}
    for path in ("", "mail/peek/", "mail/items/"):
        assert api.get(f"/api/queues/{path}?limit=3").status_code == 200
        refused = api.get(f"/api/queues/{path}?limit=4")
        assert refused.status_code == 400
        assert refused.json()["fields"] == {"limit": message}
    entries = [{"value": 1}] * 4
    assert api.post(PUSH, {"items": entries[:3]}).status_code == 201
    refused = api.post(PUSH, {"items": entries})
    assert refused.status_code == 400
    assert refused.json()["fields"] == {"items": "Ensure there are no more than 3 items."}


def test_defaults_follow_the_limit(api, allow):
    """Where fewer are allowed than a page has by default, a page has fewer."""
    api.post(PUSH, {"items": [{"value": n} for n in range(5)]})
    allow(MAX_LIMIT=2)
    page = api.get("/api/queues/mail/items/").json()
    assert [item["value"] for item in page["items"]] == [0, 1]
    assert page["cursor"] is not None
    assert len(api.get("/api/queues/").json()["queues"]) == 2
    assert len(api.post("/api/queues/mail/pop/", {}).json()["items"]) == 1


FORMS = {
    "multipart/form-data; boundary=x": (
        '--x\r\nContent-Disposition: form-data; name="csrfmiddlewaretoken"\r\n\r\n%s\r\n--x--\r\n'
    ),
    "application/x-www-form-urlencoded": "csrfmiddlewaretoken=%s&limit=5",
}


@pytest.mark.parametrize(("kind", "form"), FORMS.items(), ids=["multipart", "urlencoded"])
def test_a_form_of_a_browsers_session(db, queues, kind, form):
    """A form is not looked into for the CSRF token; it is 415 as it is otherwise."""
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    token = "a" * 32
    client.cookies["csrftoken"] = token
    form %= token
    for verb in VERBS:
        response = client.generic("POST", f"/api/queues/mail/{verb}/", form, content_type=kind)
        assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/json"])
def test_a_sessions_body_over_the_limit_is_not_read(db, queues, kind):
    """Nor is it in search of a CSRF token, which is looked for before anything else."""
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    client.cookies["csrftoken"] = "a" * 32
    environ = {"CONTENT_LENGTH": "5000001", "CONTENT_TYPE": kind}
    response = send(client, PUSH, Unreadable(), **environ)
    assert (response.status_code, response.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("content", [b'{"end": "max"}', b""])
def test_a_body_of_unknown_length_under_asgi(queues, content):
    """An ASGI server tells no length of a chunked body: it is refused, and so is none at all."""
    queues.queue("mail").push(1)
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}
    scope["headers"] = [(b"content-type", b"application/json")]
    request = ASGIRequest(scope, io.BytesIO(content))
    force_authenticate(request, User(pk=1, is_superuser=True))
    response = QueueViewSet.as_view({"post": "pop"})(request, name="mail")
    assert response.status_code == 400
    assert queues.queue("mail").size() == 1


class Slow(io.BytesIO):
    """A body that takes ten seconds to arrive."""

    def __init__(self, body, watch):
        super().__init__(body)
        self._watch = watch

    def read(self, size=-1):
        self._watch.seconds += 10
        return super().read(size)


@pytest.mark.parametrize("verb", VERBS)
def test_a_slow_upload_takes_none_of_the_engines_time(api, queues, monkeypatch, verb):
    """The time that the engine has begins when the body is there."""
    mail = queues.queue("mail")
    mail.push("there")
    lease = mail.lease().lease
    mail.push("another")
    watch = Stopwatch()
    monkeypatch.setattr("fdbqueue.deadlines.monotonic", watch)
    held = {"lease": lease}
    bodies = {"push": {"value": 1}, "ack": held, "nack": held, "extend": held}
    body = json.dumps(bodies.get(verb, {})).encode()
    path = f"/api/queues/mail/{verb}/"
    response = send(api, path, Slow(body, watch), CONTENT_LENGTH=str(len(body)))
    assert response.status_code in {200, 201}
    assert watch.seconds > 1_000


def test_a_list_that_is_too_long_is_not_looked_into(api):
    """What is wrong with its members is not said: it would take a minute to find it all."""
    named = ("push", "items"), ("ack", "leases"), ("nack", "leases"), ("extend", "leases")
    for verb, name in named:
        response = api.post(f"/api/queues/mail/{verb}/", {name: [1] * 1_001})
        assert response.status_code == 400
        assert response.json()["fields"] == {name: "Ensure there are no more than 1000 items."}


def test_few_of_the_unknown_keys_are_named(api):
    """However many there are: the first twenty of them."""
    body = {f"key-{number:05}": 1 for number in range(5_000)}
    response = api.post("/api/queues/mail/pop/", body)
    assert list(response.json()["fields"]) == [f"key-{number:05}" for number in range(20)]
