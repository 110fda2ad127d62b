"""What the growing pauses after conflicts cost, which ``on_error`` makes."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.catalog import Benchmark
from benchmarks.contention import NO_BAR, SIXTY_FOUR, Case, measured
from benchmarks.measure import Line
from benchmarks.plan import Plan
from benchmarks.queues import Load

EAGER = "recipe at once"


def backoff(plan: Plan) -> Iterator[Line]:
    """The recipe's contended pops tried again at once, beside with pauses; ours beside those."""
    cases = []
    for kind, name in (("fifo", "FIFO"), ("priority", "priority")):
        eager, patient = Load(kind, "eager recipe"), Load(kind, "recipe")
        cases += [
            Case(f"{name} pop", eager, patient, "recipe with pauses", NO_BAR, EAGER),
            Case(f"{name} pop", Load(kind), eager, EAGER, NO_BAR),
        ]
    yield from measured(plan, *SIXTY_FOUR, tuple(cases))


BENCHMARKS = (Benchmark("backoff", backoff),)
