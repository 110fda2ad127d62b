"""Queues for each test, and an observer of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fdbqueue.service import instrumentation
from fdbqueue.service.instrumentation import Observer, Operation
from tests.api.conftest import allow, clock, fdbqueue_queues, queues, user_with
from tests.contract.conftest import ask_and_die

__all__ = ["allow", "ask_and_die", "clock", "fdbqueue_queues", "queues", "user_with"]


class Notes(Observer):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.codes: list[int] = []

    def operation(self, done: Operation) -> None:
        self.operations.append(done)

    def engine_error(self, code: int) -> None:
        self.codes.append(code)

    def said(self, queue: str) -> list[tuple[str, int]]:
        """Return what was done to a queue, and to how many items."""
        return [(one.verb, one.items) for one in self.operations if one.queue == queue]


@pytest.fixture
def notes() -> Iterator[Notes]:
    """An observer who is told during a test."""
    observer = Notes()
    instrumentation.add(observer)
    yield observer
    instrumentation.remove(observer)
