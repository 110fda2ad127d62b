"""Many clients of one queue: real processes, each with threads, started together."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import multiprocessing
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

from fdb.subspace_impl import Subspace

from benchmarks.measure import Latency
from benchmarks.peers import transact
from benchmarks.plan import Plan
from benchmarks.queues import PEERS, Load, Ours, Peer, queue_of

#: A queue that ran empty would be measured empty: more than anybody pops.
_ITEMS_A_SECOND = 20_000
#: What a queue that is pushed to holds already.
_HELD = 100
_START_TIMEOUT_SECONDS = 120


#: What a pop took that found the queue empty.
NOTHING = -1


class Operation(NamedTuple):
    """One push or pop: the number of its item, :data:`NOTHING` for none, and when."""

    number: int
    begun_at: float
    ended_at: float


@dataclass(frozen=True)
class Run:
    """What all clients of one run did."""

    a_second: float
    latencies: list[float]

    @staticmethod
    def latency(runs: list[Run]) -> Latency:
        """Return the percentiles of all operations of some runs."""
        return Latency.of([seconds for run in runs for seconds in run.latencies])


class ItemsWentWrong(Exception):
    """An item was taken twice or too late, or is gone, or was not found."""


class Clients(contextlib.AbstractContextManager["Clients"]):
    """So many processes with so many threads each, to run any number of loads.

    The processes are started anew, not forked, and each opens the database itself.
    """

    def __init__(self, plan: Plan, processes: int, threads: int) -> None:
        processes, threads = (min(n, plan.sized(n, n, 2)) for n in (processes, threads))
        self._plan = plan
        self._processes = processes
        self._threads = threads
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(
            processes, context, initializer=_keep, initargs=(context.Barrier(processes),)
        )

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def run(self, load: Load) -> Run:
        """Fill a queue, let all work on it for a while, and check what they took or pushed.

        Raises:
            ItemsWentWrong: In a queue of ours an item was taken twice, or after one behind
                it, or is neither taken nor there, or was there and not found; or what was
                pushed is not all there is.
        """
        database = self._plan.open()
        count = _HELD if load.pushes else int(self._plan.seconds * _ITEMS_A_SECOND)
        with self._plan.subspace(database) as subspace:
            queue = queue_of(database, subspace, load)
            queue.fill(count)
            arguments = (self._plan, subspace.key(), load, self._threads)
            tasks = [self._pool.submit(_work_together, *arguments) for _ in range(self._processes)]
            try:
                results = [task.result() for task in tasks]
            finally:  # who still worked would write again what is cleared next
                concurrent.futures.wait(tasks)
            begun_at = min(begun_at for begun_at, _ in results)
            done = [operation for _, operations in results for operation in operations]
            if load.method not in PEERS:
                check = _check_pushes if load.pushes else _check_pops
                check(load, done, count, _rows(database, queue.items))
        return _run(done, begun_at, self._plan.seconds)


def _run(operations: list[Operation], begun_at: float, seconds: float) -> Run:
    """Count what ended in time; but time also what ended later, or the slowest were left out."""
    done = [operation for operation in operations if operation.number != NOTHING]
    if not done:
        raise ItemsWentWrong("nobody did anything")
    seconds = min(seconds, max(one.ended_at for one in done) - begun_at)
    in_time = sum(one.ended_at <= begun_at + seconds for one in done)
    return Run(max(1, in_time) / seconds, [one.ended_at - one.begun_at for one in done])


def _check_pushes(load: Load, pushes: list[Operation], count: int, held: int) -> None:
    if held != count + len(pushes):
        raise ItemsWentWrong(f"{load}: {held} items are there of {count} and {len(pushes)} pushed")


def _check_pops(load: Load, pops: list[Operation], count: int, left: int) -> None:
    taken = [pop for pop in pops if pop.number != NOTHING]
    wrong = {
        "taken twice": len(taken) - len({pop.number for pop in taken}),
        "gone": count - len(taken) - left,
        "pops that found none": left and len(pops) - len(taken),
        "taken too late": _overtaken(load, taken) if taken and load.is_strict else 0,
    }
    if any(wrong.values()):
        raise ItemsWentWrong(f"{load}: of {count}: {wrong}")


def _overtaken(load: Load, pops: list[Operation]) -> int:
    """Count the pops that began when an item behind theirs had been taken already."""
    ended = iter(sorted(pops, key=lambda pop: pop.ended_at))
    late, last_ended, furthest = 0, next(ended), -1
    for pop in sorted(pops, key=lambda pop: pop.begun_at):
        while last_ended.ended_at < pop.begun_at:
            furthest = max(furthest, load.place(last_ended.number))
            last_ended = next(ended)
        late += load.place(pop.number) < furthest
    return late


def _rows(database: Any, items: Subspace) -> int:
    begin, stop = items.range().start, items.range().stop
    return transact(
        database, lambda tr: sum(1 for _ in tr.snapshot.get_range(begin, stop, limit=0))
    )


# What runs in the processes


def _keep(barrier: Any) -> None:
    global _barrier  # noqa: PLW0603  # it can be given to a process only when that starts
    _barrier = barrier


_barrier: Any = None


def _work_together(
    plan: Plan, prefix: bytes, load: Load, threads: int
) -> tuple[float, list[Operation]]:
    """Push or pop with some threads, beginning when all processes are ready to."""
    database = plan.open()
    queue = queue_of(database, Subspace(rawPrefix=prefix), load)
    transact(database, lambda tr: tr.get_read_version().wait())
    start = threading.Barrier(threads + 1)
    with ThreadPoolExecutor(threads) as pool:
        tasks = [
            pool.submit(_work_until, _pusher(queue) if load.pushes else queue.take, start, plan)
            for _ in range(threads)
        ]
        try:
            _barrier.wait(_START_TIMEOUT_SECONDS)
        except BaseException:
            start.abort()
            raise
        begun_at = time.monotonic()
        start.wait()
        return begun_at, list(itertools.chain.from_iterable(task.result() for task in tasks))


def _work_until(
    work: Callable[[], int | None], start: threading.Barrier, plan: Plan
) -> list[Operation]:
    """Push or pop until the time is over or the queue is empty."""
    done = []
    start.wait()
    ended_at = time.monotonic()
    ends_at = ended_at + plan.seconds
    while ended_at < ends_at:
        begun_at = time.monotonic()
        number = work()
        ended_at = time.monotonic()
        done.append(Operation(NOTHING if number is None else number, begun_at, ended_at))
        if number is None:
            break
    return done


def _pusher(queue: Peer | Ours) -> Callable[[], int]:
    """Return what pushes the next number, and returns it."""
    numbers = itertools.count()

    def push() -> int:
        number = next(numbers)
        queue.push(number)
        return number

    return push
