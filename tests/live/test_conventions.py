"""What clients look for in HTTP, from a server as the demo's image runs it."""

from __future__ import annotations

import json
import re

import pytest
import requests

from tests.live.server import DEADLINE_SECONDS

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture(scope="module")
def ask(server, token):
    """Send a request with the token, and return the response."""
    with requests.Session() as session:
        session.headers["Authorization"] = f"Token {token}"

        def send(method, path, **options):
            options = {"timeout": DEADLINE_SECONDS, "allow_redirects": False, **options}
            return session.request(method, server.address + path, **options)

        yield send


def test_a_list_is_asked_for_again(ask):
    """It is 304 without a body, on a connection that goes on; HEAD has the same tag."""
    path = "/api/queues/user-asked/items/"
    assert ask("POST", "/api/queues/user-asked/push/", json={"value": 1}).status_code == 201
    tag = ask("GET", path).headers["ETag"]
    assert ask("HEAD", path).headers["ETag"] == tag
    for _ in range(3):
        again = ask("GET", path, headers={"If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")
    assert ask("POST", "/api/queues/user-asked/pop/", json={}).status_code == 200
    changed = ask("GET", path, headers={"If-None-Match": tag})
    assert (changed.status_code, changed.json()["items"]) == (200, [])


def test_where_a_pushed_item_is(ask):
    """The location leads to it, until it is removed there."""
    pushed = ask("POST", "/api/queues/user-live/push/", json={"value": 2**80})
    assert pushed.status_code == 201
    place = pushed.headers["Location"]
    assert ask("GET", place).json() == pushed.json()
    assert ask("DELETE", place).json() == {"removed": 1}
    gone = ask("GET", place, headers={"Accept": "application/problem+json"})
    assert gone.headers["Content-Type"] == "application/problem+json"
    assert (gone.status_code, gone.json()["status"]) == (404, 404)


def test_the_log_has_the_id_of_the_request(ask, server):
    """Of a client that names it, in the record that Django makes of an error."""
    response = ask("GET", "/api/queues/nope/", headers={"X-Request-ID": "from-a-client"})
    assert response.headers["X-Request-ID"] == "from-a-client"
    lines = [line for line in server.errors.splitlines() if "from-a-client" in line]
    assert any(json.loads(line)["request_id"] == "from-a-client" for line in lines)


def test_a_page_and_its_files(ask):
    """People get HTML, whose scripts and styles are there."""
    page = ask("GET", "/api/queues/", headers={"Accept": BROWSER})
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    files = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)
    assert len(files) > 5
    for file in files:
        assert ask("GET", file).status_code == 200


def test_every_address_of_the_root(ask):
    """What the root lists is there."""
    for name, address in ask("GET", "/api/").json().items():
        path = "/" + address.split("/", 3)[3]
        expected = 405 if name.endswith("-from") else 200
        assert ask("GET", path).status_code == expected, name


def test_what_is_nowhere(ask):
    """Below the API every other address is 404 in its own form: JSON, or a page for people."""
    for path in ("/api/x", "/api/schema", "/api/queues", "/api/queuesque/", "/api/%00"):
        response = ask("GET", path)
        assert (response.status_code, response.json()["code"]) == (404, "address_not_found")
        page = ask("GET", path, headers={"Accept": BROWSER})
        assert (page.status_code, "address_not_found" in page.text) == (404, True)
