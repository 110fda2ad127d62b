"""The proxy of docker-compose.yml in front of gunicorn: clients that are slow stop no others."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import shutil
import socket
import subprocess
import threading

import pytest
import requests

from fdbqueue.conf import ApiOptions
from project import gunicorn_conf
from tests.engines.children import wait_until
from tests.live.client import Client
from tests.live.server import DEADLINE_SECONDS, ROOT, Server
from tests.live.setting import MAX_WAIT_SECONDS

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
#: More than there are threads.
MANY = 2 * gunicorn_conf.threads + 10
#: Clients that wait for items at once.
WAITING = 200
HEAD = "Host: 127.0.0.1\r\n"


@pytest.fixture
def proxied(tmp_path, prepared):
    """The address of nginx in front of a server as the image runs it."""
    folder = tmp_path / "server"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Server(folder, config="tests.live.production_conf", tables=prepared.tables) as server:
        config = (ROOT / "project" / "nginx.conf").read_text()
        for there, here in (
            ("listen 8000;", f"listen 127.0.0.1:{port};"),
            ("web:8000", server.address.removeprefix("http://")),
            ("/tmp/", f"{tmp_path}/"),
            ("proxy_read_timeout 35s", f"proxy_read_timeout {MAX_WAIT_SECONDS}s"),  # if it is busy
        ):
            assert there in config
            config = config.replace(there, here)
        (tmp_path / "nginx.conf").write_text(config)
        command = [NGINX, "-c", str(tmp_path / "nginx.conf"), "-g", "daemon off;"]
        nginx = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            yield ("127.0.0.1", port)
        finally:
            nginx.terminate()
            nginx.wait(DEADLINE_SECONDS)


def sent(address, text):
    """Send something over a connection of its own, once something listens there."""
    for _ in range(600):
        with contextlib.suppress(ConnectionRefusedError):
            connection = socket.create_connection(address, DEADLINE_SECONDS)
            connection.sendall(text.encode())
            return connection
        threading.Event().wait(0.1)
    raise AssertionError("nginx is not there")


def test_slow_clients_stop_no_others(proxied, prepared):
    """Those that send half, read nothing, close nothing or wait for items; as many as they are."""
    api = f"http://{proxied[0]}:{proxied[1]}/api/queues"
    with contextlib.ExitStack() as stack:
        for text in (
            f"GET /health/live/ HTTP/1.1\r\n{HEAD}\r\n",
            f"GET /health/live/ HTTP/1.1\r\n{HEAD}Connection: close\r\n\r\n",
            f"POST /api/queues/mail/push/ HTTP/1.1\r\n{HEAD}Content-Length: 1000\r\n\r\n{{",
            "GET /health/live/ HT",
        ):
            for _ in range(MANY):
                stack.enter_context(sent(proxied, text))
        client = Client(api, prepared.token)
        for _ in range(gunicorn_conf.threads):
            stack.enter_context(client.send("user-nobody/pop/", {"wait": 20}))
        for _ in range(20):
            answer = requests.get(
                f"http://{proxied[0]}:{proxied[1]}/health/live/", timeout=DEADLINE_SECONDS
            )
            assert answer.status_code == 200


def answered(connections):
    """Return which connections have something to read, and so are no longer waited on."""
    return [one for one in connections if select.select([one], [], [], 0)[0]]


def answer(connection):
    """Return the headers and the JSON of an answer."""
    response = http.client.HTTPResponse(connection, method="POST")
    response.begin()
    assert response.status == 200
    return response.headers, json.loads(response.read())


def test_clients_that_wait_stop_no_others(proxied, prepared):
    """Half of all threads wait at most: others that would are answered, as are all who would not.

    Those who wait do so until there is an item for each.
    """
    address = f"http://{proxied[0]}:{proxied[1]}"
    places = ApiOptions().max_waiting * gunicorn_conf.workers
    assert 2 * ApiOptions().max_waiting <= gunicorn_conf.threads
    with contextlib.ExitStack() as stack:
        sent(proxied, "GET /health/live/ HTTP/1.1\r\n").close()  # nginx is there
        client = stack.enter_context(Client(f"{address}/api/queues", prepared.token))
        body = {"wait": MAX_WAIT_SECONDS}
        polls = [stack.enter_context(client.send("user-nobody/pop/", body)) for _ in range(WAITING)]
        wait_until(lambda: len(answered(polls)) >= WAITING - places)
        for _ in range(20):
            health = requests.get(f"{address}/health/live/", timeout=DEADLINE_SECONDS)
            assert health.status_code == 200
            client.post("user-somebody/push/", {"value": 1})
        turned_away = answered(polls)
        assert 0 < WAITING - len(turned_away) <= places
        for headers, found in map(answer, turned_away):
            assert (found, headers["Retry-After"]) == ({"items": []}, "5")
        waiting = [one for one in polls if one not in turned_away]
        client.post("user-nobody/push/", {"items": [{"value": 1} for _ in waiting]})
        assert all(len(answer(one)[1]["items"]) == 1 for one in waiting)
