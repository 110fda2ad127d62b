"""Ours beside other queues of Python that keep their items in SQLite.

All of them with the write-ahead log and ``synchronous=FULL``, which is checked: what they
acknowledge is on the disk. The same JSON value goes in and comes out.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import queue as queues
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import persistqueue
import persistqueue.serializers.json

from benchmarks import tasks
from benchmarks.costs import DURABILITY
from benchmarks.measure import Done, Line, in_threads, in_turn, line_of
from benchmarks.plan import Benchmark, Plan
from benchmarks.queues import SQLITE_TIMEOUT_SECONDS, HueyQueue, check_full, value_of
from fdbqueue.service import FifoQueue

ROUNDS = 5
THREADS = (1, 8)


class Library(Protocol):
    """Another's queue."""

    name: str

    def push_for(self, seconds: float, threads: int) -> Done:
        """Push for so long."""

    def take_all(self, count: int, threads: int) -> Done:
        """Take as many as there are."""


class InThreads:
    """A library whose queue the threads of one process share; its items are numbered from 0."""

    name: str

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def push(self) -> None:
        """Push the next item."""
        self.put(value_of(next(self._numbers)))

    def put(self, value: dict[str, Any]) -> None:
        """Push one item with this value."""
        raise NotImplementedError

    def take(self) -> int:
        """Take one item and return its number.

        Raises:
            queue.Empty: There is none.
        """
        raise NotImplementedError

    def push_for(self, seconds: float, threads: int) -> Done:
        """Push for so long."""
        return in_threads(self.push, threads, seconds=seconds)

    def take_all(self, count: int, threads: int) -> Done:
        """Take as many as there are."""
        return in_threads(self.take, threads, count=count // threads * threads)


class Huey(InThreads):
    """The storage of huey's SQLite backend."""

    name = "huey"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._queue = HueyQueue(folder / "huey.sqlite3", "bench")

    def put(self, value: dict[str, Any]) -> None:
        """Push one item with this value."""
        self._queue.put(value)

    def take(self) -> int:
        """Take one item and return its number."""
        if (number := self._queue.take()) is None:
            raise queues.Empty
        return number


class PersistQueue(InThreads):
    """persist-queue's FIFO queue."""

    name = "persist-queue"
    _class: Any = persistqueue.FIFOSQLiteQueue

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._queue = self._class(
            str(folder / self.name),
            multithreading=True,
            auto_commit=True,
            timeout=SQLITE_TIMEOUT_SECONDS,
            serializer=persistqueue.serializers.json,
        )
        check_full(self._queue._putter)  # noqa: SLF001  # there is no other way to ask it

    def put(self, value: dict[str, Any]) -> None:
        """Push one item with this value."""
        self._queue.put(value)

    def take(self) -> int:
        """Take one item and return its number."""
        try:
            return int(self._queue.get(block=False)["number"])
        except persistqueue.Empty as error:
            raise queues.Empty from error


class PersistAckQueue(PersistQueue):
    """persist-queue's queue with acknowledgements; they leave the row, marked, in the table."""

    name = "persist-queue, acked"
    _class = persistqueue.SQLiteAckQueue

    def take(self) -> int:
        """Take one item, acknowledge it, and return its number; there is one."""
        item = self._queue.get(block=False, raw=True)
        self._queue.ack(id=item["pqid"])
        return int(item["data"]["number"])


class DjangoTasks(contextlib.AbstractContextManager["DjangoTasks"]):
    """django-tasks-db, in a process that has its Django."""

    name = "django-tasks-db"

    def __init__(self, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(
            1, context, initializer=tasks.set_up, initargs=(str(folder / "tasks.sqlite3"),)
        )

    def push_for(self, seconds: float, threads: int) -> Done:
        """Enqueue tasks for so long."""
        return self._pool.submit(tasks.enqueue_for, seconds, threads).result()

    def take_all(self, count: int, threads: int) -> Done:
        """Have workers claim, run and finish as many as there are."""
        return self._pool.submit(tasks.work_all, count, threads).result()

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()


class Ours(InThreads):
    """A FIFO queue of ours.

    Args:
        queue: The queue.
        acks: Whether its items are leased and acknowledged, instead of popped.
    """

    name = "fdbqueue"

    def __init__(self, queue: FifoQueue, *, acks: bool) -> None:
        super().__init__()
        self._queue = queue
        self._acks = acks

    def put(self, value: dict[str, Any]) -> None:
        """Push one item with this value."""
        self._queue.push(value)

    def take(self) -> int:
        """Take one item and return its number."""
        item = self._queue.lease() if self._acks else self._queue.pop()
        if item is None:
            raise queues.Empty
        if self._acks:
            self._queue.ack(item)
        return int(item.value["number"])


class _Peer(NamedTuple):
    """A library, whether its items are acknowledged, and what its verbs are called."""

    make: Callable[[Path], Any]
    acks: bool
    take: str
    note: str


_PEERS = (
    _Peer(Huey, False, "pop", f"{DURABILITY}, also by default"),
    _Peer(PersistQueue, False, "pop", f"{DURABILITY}, also by default"),
    _Peer(PersistAckQueue, True, "lease and ack", f"{DURABILITY}, also by default"),
    _Peer(
        DjangoTasks,
        True,
        "lease and ack",
        f"{DURABILITY}; by default a rollback journal. The worker runs a task that does nothing.",
    ),
)


def libraries(plan: Plan) -> Iterator[Line]:
    """Push and pop, or lease and ack, beside huey, persist-queue and django-tasks-db."""
    database = plan.open()
    for number, described in enumerate(_PEERS):
        with contextlib.ExitStack() as stack:
            peer = described.make(plan.folder)
            if isinstance(peer, contextlib.AbstractContextManager):
                stack.enter_context(peer)
            subspace = stack.enter_context(plan.subspace(database))
            ours = Ours(FifoQueue(database, subspace[number]), acks=described.acks)
            yield from _lines(plan, ours, peer, described)


def _lines(plan: Plan, ours: Library, peer: Library, described: _Peer) -> Iterator[Line]:
    for one in (ours, peer):  # what is done once only
        one.take_all(one.push_for(plan.sized(0.1, 0.1, 0.01), 1).count, 1)
    for threads in THREADS:
        rounds = [
            _round(plan, number, (ours, peer), threads) for number in range(plan.rounds(ROUNDS))
        ]
        for name, pairs in (
            ("push", [pushes for pushes, _ in rounds]),
            (described.take, [takes for _, takes in rounds]),
        ):
            yield line_of(
                f"FIFO {name}, {threads} thread{'s' * (threads > 1)}",
                [(one.rate, other.rate) for one, other in pairs],
                peer_name=peer.name,
                unit="/s",
                bar="no bar",
                at=threads,
                note=described.note,
            )


def _round(
    plan: Plan, number: int, both: tuple[Library, Library], threads: int
) -> tuple[tuple[Done, Done], tuple[Done, Done]]:
    """Have both push for a while, by turns, and then take what they have pushed."""
    seconds = plan.sized(0.5, 0.3, 0.05)
    ours, peer = both
    pushes = in_turn(
        number,
        lambda: ours.push_for(seconds, threads),
        lambda: peer.push_for(seconds, threads),
    )
    takes = in_turn(
        number,
        lambda: ours.take_all(pushes[0].count, threads),
        lambda: peer.take_all(pushes[1].count, threads),
    )
    return pushes, takes


BENCHMARKS = (Benchmark("libraries", libraries, engines=("embedded",)),)
