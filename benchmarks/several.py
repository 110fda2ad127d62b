"""Pops from several queues of which one has items, beside pops from that one alone."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.catalog import Benchmark
from benchmarks.contention import NO_BAR, POP, Case, measured
from benchmarks.measure import Line
from benchmarks.plan import Plan
from benchmarks.queues import Load

_PEER = "pop of one queue"


def several(plan: Plan) -> Iterator[Line]:
    """Pops from ten empty queues and a full one; and by sixteen from an empty one and a full."""
    alone = tuple(
        Case(f"pop_from, {empty} empty", Load(method="pop_from", empty=empty), POP, _PEER, NO_BAR)
        for empty in (0, 1, 10)
    )
    yield from measured(plan, 1, 1, alone)
    yield from measured(plan, 4, 4, alone[1:2])


BENCHMARKS = (Benchmark("several", several),)
