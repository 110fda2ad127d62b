"""A server for these tests, clients of it, and its queues opened in this process."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fdbqueue import conf, service
from tests.live.client import Client
from tests.live.server import Server, environment_of, manage
from tests.live.setting import fdbqueue_setting


class Prepared(NamedTuple):
    """Django's tables, migrated, with the demo's user in them.

    Attributes:
        tables: Their file, for servers to begin with a copy.
        token: The token of the user, who may do everything.
    """

    tables: Path
    token: str


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """What most servers begin with, made once."""
    folder = tmp_path_factory.mktemp("prepared")
    environment = environment_of("tests.live.server_settings", folder, "prepared")
    environment.pop("FDB_CLUSTER_FILE", None)  # the demo's queues are not used
    manage(environment, "migrate", "--verbosity", "0")
    token = manage(environment, "demo", "--token").strip()
    return Prepared(Path(environment["FDBQUEUE_TEST_DJANGO"]), token)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: Prepared) -> Iterator[Server]:
    """The server that these tests share; each uses queues of its own."""
    with Server(tmp_path_factory.mktemp("server"), tables=prepared.tables) as running:
        yield running
    assert "Traceback" not in running.errors


@pytest.fixture(scope="session")
def token(prepared: Prepared) -> str:
    """The token of a user who may do everything."""
    return prepared.token


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
