"""The pages that document the API, as a real server serves them."""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

import requests


def test_swagger_ui_comes_from_this_server_alone(server, token):
    """The page, the schema and each file that the page loads are there, and all are local."""
    with requests.Session() as session:
        session.auth = ("demo", "demo")
        page = session.get(f"{server.address}/api/docs/", timeout=60)
        assert page.status_code == 200
        loaded = re.findall(r"""(?:src|href)=["']([^"']+)""", page.text)
        assert len(loaded) >= 3
        for address in [*loaded, "/api/schema/"]:
            assert not urlsplit(address).netloc
            assert session.get(urljoin(page.url, address), timeout=60).status_code == 200
        assert not re.search(r"https?://", page.text)
