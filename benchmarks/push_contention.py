"""Pushes beside other processes: many that push, or some that wait for items of another queue.

Many pushers are beside the recipe, and beside other libraries on SQLite; after each round it is
checked that every item they pushed is in the queue once.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import queue as queues
import time
from collections.abc import Iterator
from typing import Any

from fdb.subspace_impl import Subspace

from benchmarks.clients import check_numbers
from benchmarks.contention import BY_COMMIT, SIXTY_FOUR, Case, measured
from benchmarks.costs import DURABILITY
from benchmarks.libraries import Huey, InThreads, Ours, PersistQueue
from benchmarks.measure import Line, compare, line_of, rate
from benchmarks.plan import Benchmark, Plan
from benchmarks.queues import SMALL, Load
from benchmarks.task_processes import Process
from benchmarks.task_processes import idle as idle_worker
from benchmarks.task_workers import our_backend
from fdbqueue.service import FifoQueue

ROUNDS = 5
THREADS = 8
#: Processes, and threads in each.
SIXTEEN = 1, 16
#: How many processes wait, how many items are pushed meanwhile, and how long to let them begin.
_WAITING, _PUSHES, _SETTLE_SECONDS = 4, 1_000, 0.3
_TIMEOUT_SECONDS = 120
#: How many workers are idle at once, for how long, and what one may ask of the engine meanwhile.
IDLE_WORKERS, IDLE_SECONDS = (1, 8, 64), (120, 60, 8)
MOST_A_SECOND = {"transactions": 0.4, "reads": 4.0}

_BARS = ("no bar", "at least 1.5")


def push_contention(plan: Plan) -> Iterator[Line]:
    """Sixty-four pushers in four processes, sixteen in one; eight beside other libraries."""
    cases = tuple(
        Case(
            f"{name} push{suffix}",
            Load(kind, options=options, pushes=True),
            Load(kind, "recipe", pushes=True),
            "recipe",
            _BARS,
        )
        for suffix, options in (("", {}), (", order=commit", BY_COMMIT))
        for kind, name in (("fifo", "FIFO"), ("priority", "priority"))
    )
    for processes, threads in (SIXTY_FOUR, SIXTEEN):
        yield from measured(plan, processes, threads, cases)
    if plan.cluster_file is None:
        yield from _beside_libraries(plan)


def _beside_libraries(plan: Plan) -> Iterator[Line]:
    database = plan.open()
    for library in (Huey, PersistQueue):
        peer = library(plan.folder)
        with plan.subspace(database) as subspace:
            ours = Ours(FifoQueue(database, subspace), acks=False)
            yield compare(
                f"FIFO push, {THREADS} threads",
                lambda ours=ours: _rate(plan, ours),
                lambda peer=peer: _rate(plan, peer),
                peer_name=peer.name,
                unit="/s",
                bar="at least 1.2",
                rounds=plan.rounds(ROUNDS),
                note=f"{DURABILITY}, also by default",
            )


def _rate(plan: Plan, queue: InThreads) -> float:
    """Push for a while, then check that each item is in the queue once, and take it out.

    Raises:
        ItemsWentWrong: That is not so.
    """
    done = queue.push_for(plan.sized(0.5, 0.3, 0.05), THREADS)
    found = list(_taken(queue))
    first = min(found, default=0)  # the numbers go on from round to round
    check_numbers(f"{queue.name}, pushed", range(first, first + done.count), found)
    return done.rate


def _taken(queue: InThreads) -> Iterator[int]:
    while True:
        try:
            yield queue.take()
        except queues.Empty:
            return


def idle(plan: Plan) -> Iterator[Line]:
    """Pushes beside four processes that wait for items of another queue, beside pushes alone."""
    database = plan.open()
    with plan.subspace(database) as subspace:
        queue, other = (FifoQueue(database, subspace[name]) for name in ("pushed", "waited"))
        count = plan.turns(_PUSHES)

        def pushed() -> float:
            return rate(lambda: queue.push(SMALL), count)

        def pushed_beside() -> float:
            with _waiting(plan, other):
                return pushed()

        pushed()  # until then the file grows
        yield compare(
            f"FIFO push beside {_WAITING} idle processes",
            pushed_beside,
            pushed,
            peer_name="a push alone",
            unit="/s",
            bar=plan.bar("at least 0.8", "no bar"),
            rounds=plan.rounds(ROUNDS),
        )
    for workers in IDLE_WORKERS[: plan.sized(3, 2, 1)]:
        yield from _idle_workers(plan, workers)


def _idle_workers(plan: Plan, workers: int) -> Iterator[Line]:
    """Count what one of so many workers asks of the engine while it has no tasks, the median."""
    seconds = plan.sized(*IDLE_SECONDS)
    with contextlib.ExitStack() as stack:
        backend = our_backend(plan, ("idle", str(workers)))
        processes = [stack.enter_context(Process(backend)) for _ in range(workers)]
        for process in processes:
            process.begin(idle_worker, seconds)
        counts = [process.result() for process in processes]
    for what, most in MOST_A_SECOND.items():
        yield line_of(
            f"{what} of an idle tasks_worker",
            [(one[what] / seconds, most) for one in counts],
            peer_name="the most, a second",
            unit="a second",
            bar="at most 1",
            at=workers,
            note=f"each of {workers}, counted for {seconds} seconds",
        )


@contextlib.contextmanager
def _waiting(plan: Plan, queue: FifoQueue) -> Iterator[None]:
    """Have processes wait for items of a queue meanwhile."""
    context = multiprocessing.get_context("spawn")
    begun = context.Barrier(_WAITING + 1)
    arguments = plan, queue.subspace.key(), begun
    processes = [
        context.Process(target=_wait, args=arguments, daemon=True) for _ in range(_WAITING)
    ]
    for process in processes:
        process.start()
    try:
        begun.wait(_TIMEOUT_SECONDS)
        time.sleep(_SETTLE_SECONDS)
        yield
    finally:
        queue.push(SMALL)
        for process in processes:
            process.join(_TIMEOUT_SECONDS)
        queue.clear()


def _wait(plan: Plan, prefix: bytes, begun: Any) -> None:
    queue = FifoQueue(plan.open(), Subspace(rawPrefix=prefix))
    begun.wait(_TIMEOUT_SECONDS)
    while not queue.wait_for_items(_TIMEOUT_SECONDS):
        pass


BENCHMARKS = (Benchmark("push-contention", push_contention), Benchmark("idle", idle))
