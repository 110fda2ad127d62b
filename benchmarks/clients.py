"""Many clients of one queue, started together in real processes; and checks of what they did."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import multiprocessing
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

from fdb.subspace_impl import Subspace

from benchmarks.measure import Latency
from benchmarks.peers import transact
from benchmarks.plan import Plan
from benchmarks.queues import Client, Load, Ours, Peer, queue_of
from fdbqueue.service import Counts, Item, Queue, Worker

#: The number of an operation that found the queue empty.
NOTHING = -1


class Operation(NamedTuple):
    """One push or pop: the number of its item, :data:`NOTHING` for none, and when."""

    number: int
    begun_at: float
    ended_at: float


class ItemsWentWrong(Exception):
    """An item was taken twice or too late, or is gone, or was not found."""


def check_pushes(load: Load, pushes: list[Operation], held: int, clients: int, queue: Ours) -> None:
    """Check that each pushed item is in the queue once, and each client's in their order.

    Args:
        load: How the queue was pushed to.
        pushes: The pushes; the numbers of a client's items differ by ``clients``.
        held: How many items the queue held before, numbered from 0.
        clients: How many clients pushed.
        queue: The queue.

    Raises:
        ItemsWentWrong: They are not.
    """
    found = queue.numbers()
    expected = [*range(held), *(push.number for push in pushes)]
    wrong = {
        **_difference(expected, found),
        "out of order": _misplaced(load, (number for number in found if number >= held), clients),
        "counted wrongly": queue.queue.counts() != Counts(len(expected), 0, 0, 0),
    }
    _refuse(wrong, f"{load}: of {held} and {len(pushes)} pushed")


def check_pops(load: Load, pops: list[Operation], count: int, queue: Ours) -> None:
    """Check that each item was either taken once or is left, and that none was overtaken.

    Args:
        load: How the queue was popped.
        pops: The pops, or leases; items that were to be acknowledged are not leased any more.
        count: How many items the queue held before, numbered from 0.
        queue: The queue.

    Raises:
        ItemsWentWrong: That is not so.
    """
    taken = [pop for pop in pops if pop.number != NOTHING]
    left = queue.numbers()
    leased = len(taken) if load.method == "lease" else 0
    wrong = {
        **_difference(range(count), [*left, *(pop.number for pop in taken)]),
        "pops that found none": len(left) and len(pops) - len(taken),
        "taken too late": _overtaken(load, taken) if taken and load.is_strict else 0,
        "counted wrongly": queue.queue.counts() != Counts(len(left), leased, 0, 0),
    }
    _refuse(wrong, f"{load}: of {count}")


def check_numbers(name: str, expected: Iterable[int], found: Iterable[int]) -> None:
    """Check that each of the expected numbers was found once, and no others.

    Raises:
        ItemsWentWrong: That is not so.
    """
    _refuse(_difference(expected, found), name)


def _refuse(wrong: dict[str, int | bool], what: str) -> None:
    if any(wrong.values()):
        raise ItemsWentWrong(f"{what}: {wrong}")


def _difference(expected: Iterable[int], found: Iterable[int]) -> dict[str, int | bool]:
    """Count the numbers that are missing, and those found too often or not expected at all."""
    wanted, there = Counter(expected), Counter(found)
    return {"gone": (wanted - there).total(), "there twice": (there - wanted).total()}


def _misplaced(load: Load, numbers: Iterable[int], clients: int) -> int:
    """Count the items that are before one that the same client pushed earlier."""
    misplaced, last = 0, dict[int, int]()
    for number in numbers:
        place = load.place(number)
        misplaced += place < last.get(number % clients, place)
        last[number % clients] = place
    return misplaced


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


#: A queue that ran empty would be measured empty: more than anybody pops.
_ITEMS_A_SECOND = 20_000
#: What a queue that is pushed to holds already.
_HELD = 100
_START_TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class Run:
    """What all clients of one run did; no latencies where operations are not timed one by one.

    ``conflicts`` are those of its pops and one more, so never none, for each pop of ours.
    ``numbers`` are those of the items in the order in which the operations ended. ``least_share``
    is what the process did that did least, beside the mean of all.
    """

    a_second: float
    latencies: list[float]
    conflicts: float
    numbers: list[int]
    least_share: float

    @staticmethod
    def latency(runs: list[Run]) -> Latency | None:
        """Return the percentiles of all operations of some runs, None where none was timed."""
        seconds = [seconds for run in runs for seconds in run.latencies]
        return Latency.of(seconds) if seconds else None


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
                it, or is neither taken nor there, or was there and not found; or one that
                was pushed is not there once, or is before one that the same client pushed
                earlier; or the queue's counts are wrong.
        """
        database = self._plan.open()
        count = _HELD if load.pushes else int(self._plan.seconds * _ITEMS_A_SECOND)
        with self._plan.subspace(database) as subspace:
            queue = queue_of(database, subspace, load, self._plan.folder)
            queue.fill(count)
            arguments = (self._plan, subspace.key(), load)
            tasks = [
                self._pool.submit(_work_together, *arguments, numbers)
                for numbers in self._numbers(count)
            ]
            try:
                results = [task.result() for task in tasks]
            finally:  # who still worked would write again what is cleared next
                concurrent.futures.wait(tasks)
            begun_at = min(one.begun_at for one in results)
            done = [operation for one in results for operation in one.operations]
            counts = [sum(one.number != NOTHING for one in each.operations) for each in results]
            if isinstance(queue, Ours):
                if load.pushes:
                    check_pushes(load, done, count, self._processes * self._threads, queue)
                else:
                    check_pops(load, done, count, queue)
        conflicts = sum(one.conflicts for one in results)
        share = min(counts) * len(counts) / max(1, sum(counts))
        return _run(load, done, begun_at, self._plan.seconds, conflicts, share)

    def _numbers(self, first: int) -> list[list[range]]:
        """Return the numbers of the items that each thread of each process pushes."""
        step = self._processes * self._threads
        clients = [range(first + client, sys.maxsize, step) for client in range(step)]
        return [clients[n : n + self._threads] for n in range(0, step, self._threads)]


def _run(
    load: Load,
    operations: list[Operation],
    begun_at: float,
    seconds: float,
    conflicts: int,
    least_share: float,
) -> Run:
    """Count what ended in time; but time also what ended later, or the slowest were left out."""
    done = [operation for operation in operations if operation.number != NOTHING]
    if not done:
        raise ItemsWentWrong("nobody did anything")
    seconds = min(seconds, max(one.ended_at for one in done) - begun_at)
    in_time = sum(one.ended_at <= begun_at + seconds for one in done)
    timed = [] if load.is_worker else done
    return Run(
        max(1, in_time) / seconds,
        [one.ended_at - one.begun_at for one in timed],
        (conflicts + 1) / len(done),
        [one.number for one in sorted(done, key=lambda one: one.ended_at)],
        least_share,
    )


# What runs in the processes


class _Worked(NamedTuple):
    """What one process did, and how many of its rounds at the min end conflicted."""

    begun_at: float
    operations: list[Operation]
    conflicts: int


def _keep(barrier: Any) -> None:
    global _barrier  # noqa: PLW0603  # it can be given to a process only when that starts
    _barrier = barrier


_barrier: Any = None


def _work_together(plan: Plan, prefix: bytes, load: Load, numbers: list[range]) -> _Worked:
    """Push or take with a thread for each of the numbers, when all processes are ready to."""
    database = plan.open()
    queue = queue_of(database, Subspace(rawPrefix=prefix), load, plan.folder)
    transact(database, lambda tr: tr.get_read_version().wait())
    if isinstance(queue, Ours) and load.is_worker:
        _barrier.wait(_START_TIMEOUT_SECONDS)
        begun_at = time.monotonic()
        handled = _handle_until(queue.queue, len(numbers), begun_at + plan.seconds)
        return _Worked(begun_at, handled, 0)
    conflicts = queue.count_conflicts() if isinstance(queue, Ours) else []
    clients = [_pusher(queue, own) if load.pushes else queue.client() for own in numbers]
    start = threading.Barrier(len(clients) + 1)
    with ThreadPoolExecutor(len(clients)) as pool:
        tasks = [pool.submit(_work_until, client, start, plan.seconds) for client in clients]
        try:
            _barrier.wait(_START_TIMEOUT_SECONDS)
        except BaseException:
            start.abort()
            raise
        begun_at = time.monotonic()
        start.wait()
        done = list(itertools.chain.from_iterable(task.result() for task in tasks))
        return _Worked(begun_at, done, len(conflicts))


def _work_until(client: Client, start: threading.Barrier, seconds: float) -> list[Operation]:
    """Push or take until the time is over or the queue is empty."""
    done = []
    start.wait()
    ended_at = time.monotonic()
    ends_at = ended_at + seconds
    while ended_at < ends_at:
        begun_at = time.monotonic()
        number = client.work()
        ended_at = time.monotonic()
        done.append(Operation(NOTHING if number is None else number, begun_at, ended_at))
        if number is None:
            break
    client.finish()
    return done


def _pusher(queue: Peer | Ours, numbers: range) -> Client:
    """Return what pushes the next number, and returns it."""
    left = iter(numbers)

    def push() -> int:
        number = next(left)
        queue.push(number)
        return number

    return Client(push)


def _handle_until(queue: Queue, concurrency: int, ends_at: float) -> list[Operation]:
    """Have a worker with some number of threads handle items until the time is over.

    An item's operation has no length: it is the moment when the item was acknowledged.

    Raises:
        ItemsWentWrong: The items that were handled are not those that were acknowledged.
    """
    handled: list[int] = []
    done: list[Operation] = []

    def end(item: Item, error: BaseException | None) -> None:
        now = time.monotonic()
        if error is None:
            done.append(Operation(item.value["number"], now, now))
        if now >= ends_at:
            worker.stop()

    worker = Worker(
        queue,
        lambda item: handled.append(item.value["number"]),
        threads=concurrency,
        on_end=end,
    )
    worker.run()
    if time.monotonic() < ends_at:  # it found nothing more to lease
        done.append(Operation(NOTHING, time.monotonic(), time.monotonic()))
    check_numbers("worker", handled, (one.number for one in done if one.number != NOTHING))
    return done
