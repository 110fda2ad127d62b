"""Queues in a subspace of their own, on the engine under test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fdbqueue.service import FifoQueue, PriorityQueue
from fdbqueue.service.consume import waiting
from tests.concurrency.conftest import clock, start
from tests.concurrency.kinds import STRICT, Kind
from tests.concurrency.requests import ask_and_die, let_expire
from tests.wrapped import WrappedTransaction

__all__ = ["ask_and_die", "clock", "let_expire", "start"]

#: How long a coroutine may take.
_DEADLINE_SECONDS = 60


@pytest.fixture
def only_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let waiters look when they are woken, and never by themselves, as they do in five seconds."""
    monkeypatch.setattr(waiting, "UNWOKEN_LOOK_SECONDS", 3_600.0)


class Meddled:
    """A database object around another: something is done just before each commit."""

    def __init__(self, database: Any) -> None:
        self.meddle: Callable[[], object] = lambda: None
        self._database = database

    def create_transaction(self) -> Any:
        """Return a transaction whose commit is meddled with."""
        outer, transaction = self, self._database.create_transaction()

        class Wrapped(WrappedTransaction):
            def commit(self) -> Any:
                outer.meddle()
                return transaction.commit()

        return Wrapped(transaction)


class Observed:
    """A database object around another that tells what is done through it.

    Attributes:
        reads: The name of each read that was asked for.
        transactions: How many transactions were created.
        watches: The futures of all watches.
        watching: Set when there is a watch.
    """

    def __init__(self, database: Any) -> None:
        self.reads: list[str] = []
        self.transactions = 0
        self.watches: list[Any] = []
        self.watching = threading.Event()
        self._database = database

    def create_transaction(self) -> Any:
        """Return a transaction that is observed."""
        self.transactions += 1
        return _ObservedTransaction(self, self._database.create_transaction())


class _ObservedReads:
    """Passes everything on, noting reads."""

    def __init__(self, observed: Observed, reads: Any) -> None:
        self._observed = observed
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        if name in {"get", "get_range", "get_range_startswith", "get_key"}:
            self._observed.reads.append(name)
        return getattr(self._reads, name)

    def __getitem__(self, key: Any) -> Any:
        self._observed.reads.append("get")
        return self._reads[key]


class _ObservedTransaction(_ObservedReads):
    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._reads[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._reads[key]

    @property
    def snapshot(self) -> Any:
        return _ObservedReads(self._observed, self._reads.snapshot)

    def watch(self, key: bytes) -> Any:
        future = self._reads.watch(key)
        self._observed.watches.append(future)
        self._observed.watching.set()
        return future


@pytest.fixture
def fifo(database: Any, subspace: Any) -> FifoQueue:
    """An empty FIFO queue."""
    return FifoQueue(database, subspace, name="fifo")


@pytest.fixture
def floats(database: Any, subspace: Any) -> PriorityQueue:
    """An empty priority queue whose priorities are floats."""
    return PriorityQueue(database, subspace, priority_type="float", name="floats")


@pytest.fixture
def ints(database: Any, subspace: Any) -> PriorityQueue:
    """An empty priority queue whose priorities are integers."""
    return PriorityQueue(database, subspace, name="ints")


@pytest.fixture(params=STRICT, ids=str)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each kind of queue whose pops take the very end."""
    return request.param


@pytest.fixture
def observed(database: Any) -> Observed:
    """The database, observed."""
    return Observed(database)


@pytest.fixture
def rows(database: Any, subspace: Any) -> Callable[[], list[tuple[bytes, bytes]]]:
    """The rows of ready items: keys without the subspace's prefix, and values."""

    def read() -> list[tuple[bytes, bytes]]:
        prefix = subspace.key()
        transaction = database.create_transaction()
        found = transaction.get_range(prefix, prefix + b"\xff")
        return [(row.key[len(prefix) :], row.value) for row in found]

    return read


@pytest.fixture
def meddled(database: Any) -> Meddled:
    """The database, where something may be done before each commit."""
    return Meddled(database)


@pytest.fixture
def stored(database: Any, subspace: Any) -> Callable[[], dict[bytes, bytes]]:
    """All that is stored of a queue: keys without the subspace's prefix, and values."""

    def read() -> dict[bytes, bytes]:
        prefix = subspace.key()
        transaction = database.create_transaction()
        rows = transaction.get_range(prefix, prefix + b"\xff\xff")
        return {row.key[len(prefix) :]: row.value for row in rows}

    return read


@pytest.fixture
def everything(stored: Callable[[], dict[bytes, bytes]]) -> Callable[[], set[bytes]]:
    """All keys of a queue, those of its tables included, without the subspace's prefix."""
    return lambda: set(stored())


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads that wait, or do something at once."""
    with ThreadPoolExecutor(64) as pool:
        yield pool


@pytest.fixture
def in_loop() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine in an event loop of its own; it fails when it takes too long."""

    def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(coroutine, _DEADLINE_SECONDS)

        return asyncio.run(bounded())

    return run
