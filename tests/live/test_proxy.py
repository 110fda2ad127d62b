"""The proxy of docker-compose.yml in front of gunicorn: clients that are slow stop no others."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading

import pytest
import requests

from project import gunicorn_conf
from tests.live.client import Client
from tests.live.server import DEADLINE_SECONDS, ROOT, Server

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
#: More than there are threads.
MANY = 2 * gunicorn_conf.threads + 10
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
