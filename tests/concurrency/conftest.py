"""A clock that stands still, and processes that work on a queue."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.concurrency.clock import Clock
from tests.concurrency.kinds import Kind
from tests.concurrency.worker import SCRIPT
from tests.conftest import Engine
from tests.engines.children import Child


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Set what the service takes for the time."""
    clock = Clock()
    monkeypatch.setattr("fdbqueue.service.clock.time", clock)
    return clock


@pytest.fixture
def start(engine: Engine, subspace: Any) -> Iterator[Callable[..., Child]]:
    """Start a process that works in the test's subspace; it is killed at the end."""
    children: list[Child] = []

    def start(kind: Kind, task: str, **arguments: Any) -> Child:
        path = getattr(engine.database, "path", "unused")
        place = (engine.name, kind.name, subspace.key().hex())
        children.append(Child(path, SCRIPT, *place, task, json.dumps(arguments)))
        return children[-1]

    yield start
    for child in children:
        child.kill()
