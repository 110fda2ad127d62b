"""The queues that are measured, ours and the peers', behind the same three verbs."""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fdb.subspace_impl import Subspace
from huey.storage import SqliteStorage

from benchmarks.peers import (
    FifoRecipe,
    HighContentionLayer,
    PriorityRecipe,
)
from fdbqueue.service import FifoQueue, PriorityQueue, Push, SeveralQueues
from fdbqueue.service.consume.contention import Race
from fdbqueue.service.consume.finding import SeveralGroup
from fdbqueue.service.idempotency import Responses
from fdbqueue.service.storage.counts import CountChange
from fdbqueue.service.storage.tables import TableKeys

SMALL = {"id": "us1000cdjq", "kind": "work", "attempt": 1, "place": "33km W of Raton"}
PRIORITIES = 10
_MANY_ITEMS = 1_000_000_000
#: What SQLite calls ``synchronous=FULL``, and how long a peer waits for its locks.
_FULL = 2
SQLITE_TIMEOUT_SECONDS = 60

PEERS: dict[str, dict[str, type[FifoRecipe]]] = {
    "recipe": {"fifo": FifoRecipe, "priority": PriorityRecipe},
    "layer": {"fifo": HighContentionLayer},
}


class Client(NamedTuple):
    """What one thread works with: it takes or pushes one item and returns its number.

    None is the number of no item. ``finish`` is called when the time is over.
    """

    work: Callable[[], int | None]
    finish: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Load:
    """Whose queue is worked on, and how.

    ``method`` is ``"recipe"``, ``"layer"``, ``"huey"``, or one of ours:
    ``"pop"``, ``"wait"``, ``"lease"``, ``"lease+ack"``, ``"lease_many(ack=)"``, which acknowledges
    an item in the transaction that leases the next, ``"worker"``; ``"unique"``, pushes under keys
    of their own; ``"pop_from"``, a pop from ``empty`` queues that hold nothing and this one; or
    ``"uncounted"``, a pop that writes no counts. ``options`` are ours too. ``pushes`` says that it
    is pushed to, instead of popped.
    """

    kind: str = "fifo"
    method: str = "pop"
    options: dict[str, Any] = field(default_factory=dict)
    pushes: bool = False
    empty: int = 0

    @property
    def is_strict(self) -> bool:
        """Are items taken in their order, as the times of the operations show it?"""
        return "shards" not in self.options and not self.is_worker

    @property
    def is_worker(self) -> bool:
        """Does one worker with many threads take the items?"""
        return self.method == "worker"

    def place(self, number: int) -> int:
        """Return where an item is in the order of the items a queue is filled with."""
        return number + number % PRIORITIES * _MANY_ITEMS if self.kind == "priority" else number


class Peer:
    """A peer's queue of the same JSON values; it stores bytes, so its caller encodes them."""

    def __init__(self, database: Any, subspace: Subspace, load: Load) -> None:
        self._queue = PEERS[load.method][load.kind](database, subspace)
        self.items = self._queue.items

    def fill(self, count: int) -> None:
        """Put ``count`` numbered items in."""
        self._queue.fill((json.dumps(value_of(n)).encode(), n % PRIORITIES) for n in range(count))

    def push(self, number: int) -> None:
        """Push one item."""
        self._queue.push(json.dumps(value_of(number)).encode(), number % PRIORITIES)

    def take(self) -> int | None:
        """Take one item and return its number, None when there is none."""
        value = self._queue.pop()
        return None if value is None else int(json.loads(value)["number"])

    def client(self) -> Client:
        """Return what one thread takes items with."""
        return Client(self.take)


class HueyQueue:
    """The storage of huey's SQLite backend; it stores bytes, so its caller encodes them."""

    def __init__(self, file: Path, name: str) -> None:
        self._storage = SqliteStorage(name, str(file), fsync=True, timeout=SQLITE_TIMEOUT_SECONDS)
        check_full(self._storage.conn)

    def fill(self, count: int) -> None:
        """Put ``count`` numbered items in, in one commit, which huey has no verb for."""
        rows = ((self._storage.name, json.dumps(value_of(n)).encode()) for n in range(count))
        with self._storage.db(commit=True) as cursor:
            cursor.executemany("INSERT INTO task (queue, data) VALUES (?, ?)", rows)

    def put(self, value: dict[str, Any]) -> None:
        """Push one item with this value."""
        self._storage.enqueue(json.dumps(value).encode())

    def push(self, number: int) -> None:
        """Push one item."""
        self.put(value_of(number))

    def take(self) -> int | None:
        """Take one item and return its number, None when there is none."""
        value = self._storage.dequeue()
        return None if value is None else int(json.loads(value)["number"])

    def client(self) -> Client:
        """Return what one thread takes items with."""
        return Client(self.take)


def check_full(connection: sqlite3.Connection) -> None:
    """Refuse to measure what is less durable than ours.

    Raises:
        ValueError: It is.
    """
    for pragma, expected in (("synchronous", _FULL), ("journal_mode", "wal")):
        (found,) = connection.execute(f"PRAGMA {pragma}").fetchone()
        if found != expected:
            raise ValueError(f"{pragma} is {found}, not {expected}")


class Ours:
    """Our queue of the same JSON values."""

    def __init__(self, database: Any, subspace: Subspace, load: Load) -> None:
        self.items = subspace
        self._has_priorities = load.kind == "priority"
        self.queue: Any = (PriorityQueue if self._has_priorities else FifoQueue)(
            database, subspace, **load.options
        )
        self._method = load.method
        if load.method == "pop_from":
            several = _Several(database, subspace["empty"], load.empty, self.queue)
            self.queue = several.queues["full"]
            group = SeveralGroup(database, lambda name: several.queue(name).parts.consumer)
            self.several = SeveralQueues(several, (*several.queues,), group)
        if load.method == "uncounted":
            store = self.queue.parts.store  # there is no such option
            store.count_change = functools.partial(_NoCountChange, store.tables)

    def fill(self, count: int) -> None:
        """Put ``count`` numbered items in."""
        values = ((value_of(number), number % PRIORITIES) for number in range(count))
        self.queue.push_many(values if self._has_priorities else (value for value, _ in values))

    def push(self, number: int) -> None:
        """Push one item."""
        self.queue.push(value_of(number), number % PRIORITIES if self._has_priorities else None)

    def push_keyed(self, number: int) -> None:
        """Push one item under a key of its own, if the load says so."""
        self.queue.push(value_of(number), unique=self._key(number))

    def push_batch(self, numbers: range) -> None:
        """Push items in one transaction, under keys of their own if the load says so."""
        self.queue.push_batch([Push(value_of(n), unique=self._key(n)) for n in numbers])

    def _key(self, number: int) -> str | None:
        return f"key {number}" if self._method == "unique" else None

    def take(self) -> int | None:
        """Take one item and return its number, None when there is none."""
        if self._method in {"pop", "uncounted"}:
            item = self.queue.pop()
        elif self._method == "pop_from":
            item = self.several.pop()
        elif self._method == "wait":
            item = self.queue.pop(wait=1)
        else:
            item = self.queue.lease()
            if self._method == "lease+ack" and item is not None:
                self.queue.ack(item)
        return None if item is None else item.value["number"]

    def client(self) -> Client:
        """Return what one thread takes items with."""
        if self._method == "lease_many(ack=)":
            chain = _Chain(self.queue)
            return Client(chain.take, chain.finish)
        return Client(self.take)

    def count_conflicts(self) -> list[int]:
        """Return a list that has an entry more after each round at the min end that conflicts."""
        decide, found = Race.goes_on, []

        def goes_on(race: Race, **facts: Any) -> bool:
            found.append(1)
            return decide(race, **facts)

        Race.goes_on = goes_on  # what every conflict calls
        return found

    def numbers(self) -> list[int]:
        """Return the numbers of the ready items, in order."""
        return [item.value["number"] for item in self.queue]

    def take_many(self, count: int) -> None:
        """Take that many in one transaction; their acks take another."""
        if self._method == "pop":
            self.queue.pop_many(count)
        else:
            items = self.queue.lease_many(count)
            if self._method == "lease+ack":
                self.queue.ack_many(items)


class _Chain:
    """Leases of one thread, each of which acknowledges the item before."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self._done: list[Any] = []

    def take(self) -> int | None:
        """Lease one item and return its number, None when there is none."""
        self._done = self._queue.lease_many(1, ack=self._done)
        return self._done[0].value["number"] if self._done else None

    def finish(self) -> None:
        """Acknowledge the last item."""
        self._queue.ack_many(self._done)


class _Several:
    """Find empty queues and one that is not, by their names."""

    def __init__(self, database: Any, subspace: Subspace, empty: int, full: Any) -> None:
        self.database = database
        self.responses = Responses(TableKeys(subspace["several"].key()), "several queues")
        self.queues: dict[str, Any] = {
            name: FifoQueue(database, subspace[name], name=name)
            for name in (f"empty-{n:03}" for n in range(empty))
        }
        self.queues["full"] = type(full)(database, full.subspace, name="full")

    def queue(self, name: str) -> Any:
        """Return the queue with a name."""
        return self.queues[name]

    def matching(self, *_: Any) -> Iterator[str]:
        """There are no patterns here."""
        raise NotImplementedError


class _NoCountChange(CountChange):
    """Counts nothing."""

    def enter(self, *_: Any) -> None:
        """Leave out the age of an item that becomes ready."""

    def leave(self, *_: Any) -> None:
        """Leave out the age of an item that is ready no more."""

    def write(self) -> None:
        """Write nothing."""


def queue_of(
    database: Any, subspace: Subspace, load: Load, folder: Path | None = None
) -> Peer | HueyQueue | Ours:
    """Return the queue that a load works on; huey's is in a file of its own in a folder."""
    if load.method == "huey":
        assert folder is not None
        return HueyQueue(folder / "huey.sqlite3", subspace.key().hex())
    return (Peer if load.method in PEERS else Ours)(database, subspace, load)


def value_of(number: int) -> dict[str, Any]:
    """Return the value of an item."""
    return {"number": number, **SMALL}
