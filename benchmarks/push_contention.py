"""Many pushers of one queue: ours beside the recipe and beside other libraries on SQLite.

After each round it is checked that every pushed item is in the queue once.
"""

from __future__ import annotations

import queue as queues
from collections.abc import Iterator

from benchmarks.catalog import Benchmark
from benchmarks.checks import check_numbers
from benchmarks.contention import BY_COMMIT, SIXTY_FOUR, Case, measured
from benchmarks.libraries import Huey, InThreads, Ours, PersistQueue
from benchmarks.measure import Line, compare
from benchmarks.plan import Plan
from benchmarks.queues import Load
from benchmarks.sqlite import DURABILITY
from fdbqueue.service import FifoQueue

ROUNDS = 5
THREADS = 8
#: Processes, and threads in each.
SIXTEEN = 1, 16

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


BENCHMARKS = (Benchmark("push-contention", push_contention),)
