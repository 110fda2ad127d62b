"""A server for these tests, clients of it, and its queues opened in this process."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fdbqueue import conf, service
from tests.live.client import Client
from tests.live.server import Server
from tests.live.setting import fdbqueue_setting


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that these tests share; each uses queues of its own."""
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running
    assert "Traceback" not in running.errors


@pytest.fixture(scope="session")
def token(server: Server) -> str:
    """The token of a user who may do everything."""
    return token_of(server.manage("demo"))


def token_of(printed: str) -> str:
    """Return the token that the demo command has printed."""
    found = re.search(r"token ([0-9a-f]{40})\n", printed)
    assert found, printed
    return found[1]


@pytest.fixture
def client_of(server: Server, token: str) -> Iterator[Callable[[], Client]]:
    """Make a client with a connection of its own."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Client(server.api, token))


@pytest.fixture
def client(client_of: Callable[[], Client]) -> Client:
    """A client."""
    return client_of()


@pytest.fixture
def name() -> str:
    """The name of a FIFO queue that nobody else uses."""
    return f"user-{secrets.token_hex(8)}"


@pytest.fixture
def catalog(server: Server, settings: Any) -> Iterator[service.Catalog]:
    """The server's queues, from this process."""
    settings.FDBQUEUE = fdbqueue_setting(server.prefix, server.path)
    found = conf.catalog()
    yield found
    if hasattr(found.database, "close"):
        found.database.close()


@pytest.fixture
def queue(catalog: service.Catalog, name: str) -> service.Queue:
    """That queue, from this process."""
    return catalog.queue(name)
