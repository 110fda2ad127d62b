"""Clients of the server under test: with a kept connection, or that disconnect."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests

from tests.live.worker import HEADER

if TYPE_CHECKING:
    from typing_extensions import Self

_TIMEOUT_SECONDS = 60
_BROKEN = (requests.ConnectionError, requests.exceptions.ChunkedEncodingError)


class Client:
    """A client with a token, and a connection that it keeps.

    Args:
        api: The address of the queues.
        token: The user's.
    """

    def __init__(self, api: str, token: str) -> None:
        self._api, self._token = api, token
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Token {token}"

    def ask(self, path: str, body: Any = None, key: str | None = None) -> requests.Response:
        """GET, or POST where there is a body, and return the response whatever it is."""
        return self._session.request(
            "GET" if body is None else "POST",
            f"{self._api}/{path}",
            json=body,
            headers={} if key is None else {"Idempotency-Key": key},
            timeout=_TIMEOUT_SECONDS,
        )

    def get(self, path: str) -> Any:
        """GET, and return the answer."""
        return _answer(self.ask(path))

    def post(self, path: str, body: Any, key: str | None = None) -> Any:
        """POST, and return the answer."""
        return _answer(self.ask(path, body, key))

    def worker(self) -> int:
        """Return which worker is at the other end of the connection."""
        return int(self.ask("").headers[HEADER])

    def send(self, path: str, body: Any, key: str | None = None) -> socket.socket:
        """POST over a connection of its own, and do not wait for the answer."""
        server = urlsplit(self._api)
        content = json.dumps(body)
        lines = [
            f"POST {server.path}/{path} HTTP/1.1",
            f"Host: {server.netloc}",
            f"Authorization: Token {self._token}",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
            *([] if key is None else [f"Idempotency-Key: {key}"]),
        ]
        connection = socket.create_connection((server.hostname, server.port), _TIMEOUT_SECONDS)
        connection.sendall("\r\n".join([*lines, "", content]).encode())
        return connection

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def persistent_post(client: Client, path: str, body: Any) -> tuple[Any, int]:
    """POST under a key, again and again while the connection breaks.

    Returns:
        The answer, and how often the connection broke.
    """
    key = secrets.token_hex(8)
    for broken in range(100):
        with contextlib.suppress(*_BROKEN):
            return client.post(path, body, key), broken
    raise AssertionError("the connection breaks for ever")


def _answer(response: requests.Response) -> Any:
    assert response.ok, f"{response.status_code} {response.text[:1000]}"
    return response.json()
