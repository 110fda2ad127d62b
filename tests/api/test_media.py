"""What is taken and given out: JSON, and nothing that a page of another site can send."""

from __future__ import annotations

import gzip
import json

import fdb.tuple
import pytest

from tests.api.test_bodies import VERBS
from tests.api.test_listing import put
from tests.cases import cases

#: What a form or a script of another site can send without asking: the content types of forms,
#: with any parameters, and none at all.
CROSS_SITE = [
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "text/plain",
    "text/plain; charset=application/json",
    "text/plain; application/json",
    "",
    None,
]
OTHERS = [
    "*/*",
    "application/*",
    "*/json",
    "text/json",
    "application/json-patch+json",
    "application/jsonx",
    "application/json, text/plain",
    "text/plain, application/json",
    "application/octet-stream",
    "json",
    "x" * 500,
]


def send(api, verb, body, kind, **headers):
    """POST a body under a content type, or without one."""
    path = f"/api/queues/mail/{verb}/"
    return api.generic("POST", path, body, content_type=kind, headers=headers)


@cases("kind", [*CROSS_SITE, *OTHERS])
@cases("body", [b"", b"{}", b'{"value": 1}'])
def test_a_post_that_does_not_say_json(api, queues, kind, body):
    """It is 415 whatever it sends, nothing included, and nothing is done."""
    mail = queues.queue("mail")
    mail.push("kept")
    before = [each.id for each in mail]
    for verb in VERBS:
        response = send(api, verb, body, kind)
        assert response.status_code == 415
        assert response.json()["code"] == "unsupported_media_type"
        assert len(response.content) < 1_000
    assert [each.id for each in mail] == before


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "Application/JSON",
        "application/json;charset=utf-8",
        " application/json ",
    ],
)
def test_json_by_any_spelling(api, queues, kind):
    """Parameters mean nothing: JSON is UTF-8."""
    queues.queue("mail").push("café")
    response = send(api, "pop", b"{}", kind)
    assert response.status_code == 200
    assert response.json()["items"][0]["value"] == "café"


@cases("coding", ["gzip", "deflate", "br", "GZIP", "identity, gzip", "x", "utf-8"])
def test_a_body_that_is_encoded(api, queues, coding):
    """It is 415, and not read as what it is not, or happens to be."""
    mail = queues.queue("mail")
    mail.push("kept")
    before = mail.size()
    for verb in VERBS:
        for body in (gzip.compress(b"{}"), b"{}", b""):
            headers = {"Content-Encoding": coding}
            response = send(api, verb, body, "application/json", **headers)
            assert response.status_code == 415
            assert response.json()["code"] == "unsupported_content_encoding"
    assert mail.size() == before


@pytest.mark.parametrize("coding", ["identity", "Identity", ""])
def test_a_body_as_it_is(api, coding):
    """The coding that is none may be named."""
    response = send(api, "pop", b"{}", "application/json", **{"Content-Encoding": coding})
    assert response.status_code == 200


def test_what_is_wrong_is_said_before_who_asks(anonymous):
    """Whoever looks for a CSRF token reads the body: the checks come first."""
    assert send(anonymous, "pop", b"", "text/plain").status_code == 415
    assert send(anonymous, "pop", b"{}", "application/json").status_code == 401


@pytest.mark.parametrize("kind", ["text/plain", None])
def test_only_posts_are_asked_for_json(api, kind):
    """The content type of what is not read does not matter; nor where there is no POST."""
    for method, path, status in (
        ("GET", "/api/queues/mail/", 200),
        ("HEAD", "/api/queues/mail/", 200),
        ("OPTIONS", "/api/queues/mail/pop/", 200),
        ("PUT", "/api/queues/mail/pop/", 405),
        ("POST", "/api/queues/mail/", 405),
    ):
        response = api.generic(method, path, b"", content_type=kind)
        assert response.status_code == status


@cases("accept", ["*/*", "application/json", "application/json; charset=utf-8", "application/*"])
def test_clients_that_take_json(api, accept):
    """They get it, as Django REST framework negotiates."""
    response = api.get("/api/queues/", headers={"Accept": accept})
    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"


@cases("accept", ["application/xml", "application/problem+json", "application/jsonx", "garbage"])
def test_clients_that_take_no_json(api, queues, accept):
    """It is 406, in JSON all the same, and nothing is done."""
    mail = queues.queue("mail")
    mail.push("kept")
    before = mail.size()
    for method, path in (("get", "/api/queues/"), ("post", "/api/queues/mail/pop/")):
        response = getattr(api, method)(path, headers={"Accept": accept})
        if method == "post":
            response = api.post(path, {}, headers={"Accept": accept})
        assert response.status_code == 406
        assert json.loads(response.content)["code"] == "not_acceptable"
    assert mail.size() == before


@pytest.mark.parametrize("accept", ["application/json; indent=4", "text/html"])
def test_nothing_is_indented(api, queues, accept):
    """Whoever asks: a nested value would become hundreds of times as long."""
    nested = 1
    for _ in range(190):
        nested = [nested]
    queues.queue("mail").push(nested)
    response = api.get("/api/queues/mail/peek/", headers={"Accept": accept})
    assert b"[" * 190 in response.content


@pytest.mark.parametrize("verb", ["pop", "peek"])
@pytest.mark.parametrize("accept", ["application/json", "text/html"])
def test_what_has_no_utf_8(api, queues, verb, accept):
    """Half of a surrogate pair, which another program has pushed, is escaped; no pop loses it."""
    mail = queues.queue("mail")
    put(mail, fdb.tuple.pack(('["\\ud800", "ü"]',)))
    path, headers = f"/api/queues/mail/{verb}/", {"Accept": accept}
    is_pop = verb == "pop"
    response = api.post(path, {}, headers=headers) if is_pop else api.get(path, headers=headers)
    assert response.status_code == 200
    assert "\\ud800" in response.content.decode()
