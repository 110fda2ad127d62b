"""Queues with shards: pops of many processes, and how far out of order items are taken."""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Iterator, Sequence

from benchmarks.catalog import Benchmark
from benchmarks.clients import Clients, Run
from benchmarks.contention import PRIORITY_RECIPE, RECIPE, ROUNDS
from benchmarks.measure import Line, in_turn, line_of
from benchmarks.plan import Plan
from benchmarks.queues import Load

SHARDS, CHOICES = 16, 2
OPTIONS = {"shards": SHARDS, "choices": CHOICES}
#: Processes, and threads in each: those that a strict queue is worst at, and threads that combine.
SHAPES = ((16, 1), (4, 16), (1, 1))
STRICT = "the strict queue"
#: Two pops of different processes of about so many conflict at the most.
CONFLICTS = 0.05


def shards(plan: Plan) -> Iterator[Line]:
    """Sixteen shards beside one head: pops, conflicts, and the rank of what is taken."""
    for processes, threads in SHAPES:
        shape = f"{processes} x {threads}"
        with Clients(plan, processes, threads) as clients:
            for kind, recipe in (("fifo", RECIPE), ("priority", PRIORITY_RECIPE)):
                ours, strict = Load(kind, options=OPTIONS), Load(kind)
                runs = _runs(plan, clients, ours, strict)
                bar = "at least 1.6" if processes == SHARDS else "no bar"
                name = f"{kind} pop, {SHARDS} shards, {shape}"
                yield line_of(
                    name,
                    [(one.a_second, other.a_second) for one, other in runs],
                    peer_name=STRICT,
                    unit="/s",
                    bar=bar,
                    our_latency=Run.latency([one for one, _ in runs]),
                    peer_latency=Run.latency([other for _, other in runs]),
                )
                yield from _conflicts(name, [one for one, _ in runs])
                yield _ranks(name, ours, [one for one, _ in runs])
                if kind == "fifo":
                    beside = _runs(plan, clients, ours, recipe)
                    yield line_of(
                        name,
                        [(one.a_second, other.a_second) for one, other in beside],
                        peer_name="recipe",
                        unit="/s",
                        bar="no bar",
                    )


def _runs(plan: Plan, clients: Clients, ours: Load, peer: Load) -> list[tuple[Run, Run]]:
    return [
        in_turn(number, lambda: clients.run(ours), lambda: clients.run(peer))
        for number in range(plan.rounds(ROUNDS))
    ]


def _conflicts(name: str, runs: Sequence[Run]) -> Iterator[Line]:
    """Yield how many conflicts there are for each pop, beside the most that there may be."""
    yield line_of(
        f"conflicts: {name}",
        [(run.conflicts, CONFLICTS) for run in runs],
        peer_name="the most",
        unit="a pop",
        bar="at most 1",
    )


def _ranks(name: str, load: Load, runs: Sequence[Run]) -> Line:
    """Return how many items were before the one that was taken, beside what is expected.

    By when the pops ended, so those of other processes that were under way count, too. A few pops
    may all be in order; that is shown as 0.01.
    """
    found = [ranks([load.place(number) for number in run.numbers]) for run in runs]
    every = sorted(rank for one in found for rank in one)
    note = f"p99 {every[len(every) * 99 // 100]}, max {every[-1]}"
    return line_of(
        f"rank: {name}",
        [(max(statistics.mean(one), 0.01), expected_rank(SHARDS, CHOICES)) for one in found],
        peer_name="formula",
        unit="items",
        bar="no bar",
        note=note,
    )


def ranks(numbers: Sequence[int]) -> list[int]:
    """Return how many that are taken later were before each item, given the order of the takes."""
    left = sorted(numbers)
    found = []
    for number in numbers:
        at = bisect.bisect_left(left, number)
        found.append(at)
        del left[at]
    return found


def expected_rank(shards: int, choices: int) -> float:
    """Return how many ready items are expected to be before the one that is taken.

    As :mod:`fdbqueue.service.consume.head` says, with one popper.
    """
    total = 0.0
    for k in range(1, shards):
        share = 1 - math.comb(shards - k, choices) / math.comb(shards, choices)
        total += (1 - share) * (1 + k / (shards * share - k))
    return total


BENCHMARKS = (Benchmark("shards", shards),)
