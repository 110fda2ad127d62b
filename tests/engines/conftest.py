"""A database file for each test, on the embedded engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fdbqueue.engines import embedded
from tests.engines.children import Child, run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the test's database is."""
    return tmp_path / "queues.sqlite3"


@pytest.fixture
def database(path: Path) -> Iterator[embedded.Database]:
    """The test's own database, closed at the end."""
    database = embedded.open(path)
    yield database
    database.close()


@pytest.fixture
def transaction(database: embedded.Database) -> Any:
    """A new transaction."""
    return database.create_transaction()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.Database]:
    """A database of all tests of a file, which each example empties or fills anew."""
    path = tmp_path_factory.mktemp("shared") / "queues.sqlite3"
    database = embedded.open(path)
    yield database
    database.close()


@pytest.fixture
def put(database: embedded.Database) -> Callable[..., Any]:
    """Set keys in a transaction of their own: ``put({key: value})``."""

    def put(rows: dict[bytes, bytes]) -> Any:
        return run(database, lambda tr: [tr.set(key, value) for key, value in rows.items()])

    return put


@pytest.fixture
def start(path: Path) -> Iterator[Callable[..., Child]]:
    """Start a process that runs a script on the test's file; it is killed at the end."""
    children: list[Child] = []

    def start(script: str, *arguments: object) -> Child:
        children.append(Child(path, script, *arguments))
        return children[-1]

    yield start
    for child in children:
        child.kill()
