"""What is taken and given out: JSON, and nothing that a page of another site can send."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.api.test_bodies import VERBS
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


@cases(
    "accept",
    [
        "*/*",
        "",
        " ",
        ",",
        "application/json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        "application/json;version=2",
        "application/*",
        "text/html, */*;q=0.1",
        "text/html;q=0, application/json",
        "*/*;q=0, application/json;q=0.001",
        "application/*;q=0, application/json",
        "application/json;q=0, application/json;q=0.5",
        "application/json;q=1.000",
        "text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8",
    ],
)
def test_clients_that_take_json(api, json_alone, accept):
    """The most specific range decides; an empty header takes anything."""
    response = api.get("/api/queues/", headers={"Accept": accept})
    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"


@cases(
    "accept",
    [
        "text/html",
        "application/xml",
        "text/*",
        "*/*;q=0",
        "*/*; Q=0.0",
        "application/json;q=0",
        "application/json; q=0.000",
        "application/json ; q = 0",
        "application/json;charset=utf-8;q=0",
        "application/json;q=0, */*",
        "application/json;q=0, application/*;q=1",
        "application/*;q=0, */*",
        "text/html, application/json;q=0",
        "application/jsonx",
        "*/json",
        "json",
        "garbage",
    ],
)
def test_clients_that_take_no_json(api, json_alone, queues, accept):
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
