"""The REST API under gunicorn beside a bare DRF view; batches beside single items.

The client is one thread over kept connections: it sends the same bytes again and again, and
looks at no more of an answer than its length and its status.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import selectors
import socket
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from benchmarks.catalog import Benchmark
from benchmarks.measure import Line, compare
from benchmarks.plan import Plan
from benchmarks.queues import SMALL
from tests.live.server import THREADS, WORKERS, Server

BATCH, FILL = 100, 500
REQUESTS = 200
ROUNDS = 15
_ANSWER_TIMEOUT_SECONDS = 60
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_WORKER = re.compile(rb"\r\nx-worker: (\d+)", re.IGNORECASE)
_NOTHING = b'{"items":[]}'
_MAKE_TOKEN = "from benchmarks.http_urls import make_token; print(make_token())"


class Connection:
    """A kept connection, and the answer that is coming over it."""

    def __init__(self, address: str) -> None:
        server = urlsplit(address)
        place = server.hostname, server.port
        self.socket = socket.create_connection(place, _ANSWER_TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answer = b""

    def fileno(self) -> int:
        """Return its number, for a selector."""
        return self.socket.fileno()

    def receive(self) -> tuple[bytes, bytes] | None:
        """Return the head and the body once all of the answer is there."""
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the server has closed the connection")
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not end:
            return None
        length = _LENGTH.search(head + b"\r\n")
        if length is None or not head.startswith(b"HTTP/1.1 2"):
            raise ValueError(self._answer[:1_000])
        if len(body) < int(length[1]):
            return None
        self._answer = b""
        return head, body


class Client:
    """A client of one server, with a connection to each thread of each worker.

    Args:
        address: The server's.
        token: Its user's.
    """

    def __init__(self, address: str, token: str) -> None:
        self._address, self._token = address, token
        self._connections = list(self._connect())

    def _connect(self) -> Iterator[Connection]:
        request, met = self.request("/bare/"), Counter[bytes]()
        while met.total() < WORKERS * THREADS:
            connection = Connection(self._address)
            connection.socket.sendall(request)
            answer = None
            while answer is None:
                answer = connection.receive()
            found = _WORKER.search(answer[0])
            if found is not None and met[found[1]] < THREADS:
                met[found[1]] += 1
                yield connection
            else:
                connection.socket.close()

    def request(self, path: str, body: Any = None) -> bytes:
        """Return the bytes of a GET, or of a POST where there is a body."""
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\n"
            f"Host: {urlsplit(self._address).netloc}\r\n"
            f"Authorization: Token {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        return head.encode() + content

    def rate(self, request: bytes, count: int) -> float:
        """Return how many of ``count`` requests are answered a second, over all connections.

        Raises:
            ValueError: There was an error, or nothing to take.
            TimeoutError: No answer came for a minute.
        """
        with selectors.DefaultSelector() as selector:
            start = time.perf_counter()
            for connection in self._connections:
                selector.register(connection, selectors.EVENT_READ)
                connection.socket.sendall(request)
            sent, answered = len(self._connections), 0
            while answered < count:
                ready = selector.select(_ANSWER_TIMEOUT_SECONDS)
                if not ready:
                    raise TimeoutError("the server has stopped answering")
                for key, _ in ready:
                    connection = key.fileobj
                    answer = connection.receive()
                    if answer is None:
                        continue
                    if answer[1] == _NOTHING:
                        raise ValueError("there was nothing to take")
                    answered += 1
                    if sent < count:
                        connection.socket.sendall(request)
                        sent += 1
            return count / (time.perf_counter() - start)

    def fill(self, queue: str, count: int) -> None:
        """Push at least so many items."""
        items = {"items": [{"value": SMALL}] * FILL}
        request = self.request(f"/api/queues/{queue}/push/", items)
        self.rate(request, max(len(self._connections), -(-count // FILL)))

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            connection.socket.close()


@contextlib.contextmanager
def _client(plan: Plan) -> Iterator[Client]:
    """Give a client of a server of its own, as in production."""
    environment = {
        "DJANGO_ALLOWED_HOSTS": "127.0.0.1",
        "DJANGO_DEBUG": "0",
        "DJANGO_HTTPS": "0",
        "DJANGO_SECRET_KEY": secrets.token_urlsafe(50),
        "PYTHONWARNINGS": "default",
    }
    with Server(plan.folder, "benchmarks.http_settings", environment) as server:
        token = server.manage("shell", "--no-imports", "--command", _MAKE_TOKEN).strip()
        client = Client(server.address, token)
        try:
            yield client
        finally:
            client.close()


def requests(plan: Plan) -> Iterator[Line]:
    """Requests a second, beside a bare view with the same users."""
    rounds, count = plan.rounds(ROUNDS), plan.sized(REQUESTS, REQUESTS, 8)
    with _client(plan) as client:
        client.fill("quakes", 1_000)
        client.fill("mail", rounds * count)
        bare, peek = client.request("/bare/"), client.request("/api/queues/quakes/peek/?end=max")
        bodies = {
            "peek": peek,
            "pop": client.request("/api/queues/mail/pop/", {}),
            "push": client.request("/api/queues/mail/push/", {"value": SMALL}),
        }
        for verb, request in bodies.items():
            yield compare(
                f"HTTP {verb}",
                lambda request=request: client.rate(request, count),
                lambda: client.rate(bare, count),
                peer_name="bare DRF view",
                unit="/s",
                bar="at least 0.6" if verb == "peek" else "no bar",
                rounds=rounds,
            )
        without_users = client.request("/open/")
        yield compare(
            "HTTP peek",
            lambda: client.rate(peek, count),
            lambda: client.rate(without_users, count),
            peer_name="bare view without users",
            unit="/s",
            bar="no bar",
            rounds=rounds,
        )


def batches(plan: Plan) -> Iterator[Line]:
    """Items a second in batches of 100, beside one by one."""
    rounds, count = plan.rounds(ROUNDS), plan.sized(REQUESTS, REQUESTS, 8)
    times = plan.sized(REQUESTS // 10, REQUESTS // 10, 8)
    with _client(plan) as client:
        client.fill("mail", rounds * (count + times * BATCH))
        path, items = "/api/queues/mail", [{"value": SMALL}] * BATCH
        for verb, many, one in (
            ("pop", {"limit": BATCH}, {}),
            ("push", {"items": items}, {"value": SMALL}),
        ):
            batch, single = (client.request(f"{path}/{verb}/", body) for body in (many, one))
            yield compare(
                f"HTTP {verb} by {BATCH}",
                lambda batch=batch: client.rate(batch, times) * BATCH,
                lambda single=single: client.rate(single, count),
                peer_name="one by one",
                unit="items/s",
                bar="at least 10",
                rounds=rounds,
            )


BENCHMARKS = (Benchmark("http", requests), Benchmark("http-batches", batches))
