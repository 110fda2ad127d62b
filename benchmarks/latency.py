"""How long single pushes and pops take: at 1, 8, 16 and 64 clients, ours beside the recipe."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.catalog import Benchmark
from benchmarks.contention import NO_BAR, Case, measured
from benchmarks.measure import Line
from benchmarks.plan import Plan
from benchmarks.queues import Load

#: Processes, and threads in each.
SHAPES = ((1, 1), (4, 2), (4, 4), (4, 16))


def latency(plan: Plan) -> Iterator[Line]:
    """Push and pop at 1, 8, 16 and 64 clients: their rates, and the percentiles of single ones."""
    cases = tuple(
        Case(
            f"FIFO {verb}",
            Load(pushes=verb == "push"),
            Load(method="recipe", pushes=verb == "push"),
            "recipe",
            NO_BAR,
        )
        for verb in ("push", "pop")
    )
    for processes, threads in SHAPES:
        yield from measured(plan, processes, threads, cases, at=processes * threads)


BENCHMARKS = (Benchmark("latency", latency),)
