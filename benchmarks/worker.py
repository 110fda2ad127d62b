"""Lease an item, do nothing with it, acknowledge it: beside a pop of ours and of the recipe.

Each round it is checked that every item is acknowledged once, or left.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.catalog import Benchmark
from benchmarks.contention import (
    NO_BAR,
    POP,
    PRIORITY_POP,
    PRIORITY_RECIPE,
    RECIPE,
    SIXTY_FOUR,
    Case,
    measured,
)
from benchmarks.measure import Line
from benchmarks.plan import Plan
from benchmarks.queues import Load

#: Processes, and threads in each.
ONE_PROCESS = 1, 16
SINGLE_THREADS = 16, 1

WORKER = Load(method="worker")
BY_HAND = Load(method="lease+ack")
PRIORITY_BY_HAND = Load("priority", "lease+ack")
CHAINED = Load(method="lease_many(ack=)")

_OF_A_POP = ("no bar", "at least 0.6")
_OF_THE_RECIPE = ("no bar", "at least 1.3")


def worker(plan: Plan) -> Iterator[Line]:
    """A lease and its ack: by ``Worker``, by hand, and by ``lease_many(ack=)``, beside pops."""
    yield from measured(plan, *ONE_PROCESS, _cases("Worker", WORKER))
    sixty_four = (
        *_cases("lease and ack", BY_HAND, of_a_pop=_OF_A_POP),
        Case("priority lease and ack", PRIORITY_BY_HAND, PRIORITY_POP, "pop", _OF_A_POP),
        Case("priority lease and ack", PRIORITY_BY_HAND, PRIORITY_RECIPE, "recipe's pop", NO_BAR),
        *_cases("lease_many(ack=)", CHAINED, of_a_pop=_OF_A_POP),
    )
    yield from measured(plan, *SIXTY_FOUR, sixty_four)
    single = (
        *_cases("Worker", WORKER, of_the_recipe=_OF_THE_RECIPE),
        *_cases("lease_many(ack=)", CHAINED),
    )
    yield from measured(plan, *SINGLE_THREADS, single)


def _cases(
    name: str,
    load: Load,
    *,
    of_a_pop: tuple[str, str] = NO_BAR,
    of_the_recipe: tuple[str, str] = NO_BAR,
) -> tuple[Case, Case]:
    """Return a load of a FIFO queue beside our pop and beside the recipe's, by the same crowd."""
    return (
        Case(f"FIFO {name}", load, POP, "pop", of_a_pop),
        Case(f"FIFO {name}", load, RECIPE, "recipe's pop", of_the_recipe),
    )


BENCHMARKS = (Benchmark("worker", worker),)
