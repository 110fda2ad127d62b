"""What clients look for in HTTP, from a server as the demo's image runs it."""

from __future__ import annotations

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
    """It is 304 without a body, on a connection that goes on."""
    path = "/api/queues/user-asked/items/"
    assert ask("POST", "/api/queues/user-asked/push/", json={"value": 1}).status_code == 201
    tag = ask("GET", path).headers["ETag"]
    for _ in range(3):
        again = ask("GET", path, headers={"If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")
    assert ask("POST", "/api/queues/user-asked/pop/", json={}).status_code == 200
    changed = ask("GET", path, headers={"If-None-Match": tag})
    assert (changed.status_code, changed.json()["items"]) == (200, [])


def test_a_page_and_its_files(ask):
    """People get HTML, whose scripts and styles are there."""
    page = ask("GET", "/api/queues/", headers={"Accept": BROWSER})
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    files = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)
    assert len(files) > 5
    for file in files:
        assert ask("GET", file).status_code == 200
