"""ETags: a GET whose response has not changed is 304, and nothing else is."""

from __future__ import annotations

import pytest

from tests.cases import cases

READS = ["", "mail/", "mail/peek/", "mail/items/", "mail/items/?state=dead", "mail/dead-reasons/"]


def tag_of(api, path):
    """GET an address and return the tag of its response."""
    response = api.get(f"/api/queues/{path}")
    assert response.status_code == 200
    assert response["Cache-Control"] == "private, no-cache"
    return str(response["ETag"])


def ask(api, path, tag, method="get"):
    """Ask for what has changed since a tag."""
    return getattr(api, method)(f"/api/queues/{path}", headers={"If-None-Match": tag})


@cases("path", READS)
@cases("known", ["{tag}", "W/{tag}", '"x", {tag}', "*"])
def test_what_has_not_changed(api, queues, path, known):
    """It is 304 without a body, with the headers that a cache needs."""
    queues.queue("mail").push("kept")
    tag = tag_of(api, path)
    assert tag.startswith('"')  # strong: the bytes are the same
    response = ask(api, path, known.replace("{tag}", tag))
    assert (response.status_code, response.content) == (304, b"")
    assert response["ETag"] == tag
    assert response["Cache-Control"] == "private, no-cache"
    assert "Accept" in response["Vary"]
    assert "Content-Type" not in response


@pytest.mark.parametrize("path", ["", "mail/", "mail/peek/", "mail/items/"])
def test_what_has_changed(api, queues, path):
    """A push gives each list another tag, and removing the item gives it the first again."""
    before = tag_of(api, path)
    item = queues.queue("mail").push("new")
    response = ask(api, path, before)
    assert (response.status_code, bool(response.content)) == (200, True)
    assert response["ETag"] != before
    queues.queue("mail").remove(item.id)
    assert ask(api, path, before).status_code == 304


@cases("header", ["", '"x"', "x", 'W/"', "*, *", '"' * 3_000, "W/" * 1_000])
def test_tags_that_are_not_known(api, header):
    """Whatever the header has, the response is whole."""
    assert ask(api, "mail/", header).status_code == 200


def test_what_changes_something_has_no_tag(api, queues):
    """A pop is never 304, and no cache may keep its response."""
    queues.queue("mail").push("a value")
    for body in ({}, {}):
        response = api.post("/api/queues/mail/pop/", body, headers={"If-None-Match": "*"})
        assert response.status_code == 200
        assert "ETag" not in response
        assert response["Cache-Control"] == "no-store"
    assert queues.queue("mail").size() == 0


def test_errors_and_options_have_no_tag(api, client_with):
    """They are said anew each time."""
    for response in (
        ask(api, "nope/", "*"),
        ask(api, "mail/items/?limit=x", "*"),
        ask(client_with(), "mail/", "*"),
        ask(api, "mail/", "*", "options"),
    ):
        assert response.status_code in {200, 400, 403, 404}
        assert "ETag" not in response
        assert response["Cache-Control"] == "no-store"


def test_a_tag_opens_nothing(api, client_with):
    """Who may not see a queue is not told whether it has changed."""
    assert ask(client_with("push_queue"), "mail/", tag_of(api, "mail/")).status_code == 403


def test_middlewares_that_know_tags(api, queues, settings):
    """A compressed response has a weak tag, which is taken back; a pop has none all the same."""
    for number in range(50):
        queues.queue("mail").push(number)
    settings.MIDDLEWARE = [
        "django.middleware.gzip.GZipMiddleware",
        "django.middleware.http.ConditionalGetMiddleware",
        *settings.MIDDLEWARE,
    ]
    headers = {"Accept-Encoding": "gzip"}
    first = api.get("/api/queues/mail/items/", headers=headers)
    assert first["Content-Encoding"] == "gzip"
    assert first["ETag"].startswith('W/"')
    again = {**headers, "If-None-Match": first["ETag"]}
    assert api.get("/api/queues/mail/items/", headers=again).status_code == 304
    popped = api.post("/api/queues/mail/pop/", {}, headers={**headers, "If-None-Match": "*"})
    assert popped.status_code == 200
    assert "ETag" not in popped
