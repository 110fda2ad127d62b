"""Many poppers of one queue: ours beside the recipe and FoundationDB's own layer.

On the embedded engine, or on a cluster where ``FDB_CLUSTER_FILE`` names its file. Each
round fills a queue for ours and one for the peer, and all poppers of both are checked: no
item may be taken twice or be gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.measure import Line, line_of
from benchmarks.plan import Plan
from benchmarks.poppers import Poppers, Run
from benchmarks.queues import Load

ROUNDS = 3

RECIPE = Load(method="recipe")
PRIORITY_RECIPE = Load(method="recipe", kind="priority")
LAYER = Load(method="layer")

OURS = Load()
OURS_PRIORITY = Load(kind="priority")
OURS_RELAXED = Load(options={"contention": "relaxed"})
OURS_BY_COMMIT = Load(options={"order": "commit"})


class Case(NamedTuple):
    """A load of ours beside another; the bar is for the embedded engine and for a cluster."""

    name: str
    ours: Load
    peer: Load
    peer_name: str
    bars: tuple[str, str]


_BARS = ("at least 5", "at least 10")
_NO_LOSS = ("at least 1", "at least 1")
_LEASE = ("at least 0.5", "at least 0.5")


def contention(plan: Plan) -> Iterator[Line]:
    """Sixty-four poppers in four processes."""
    cases = (
        Case("FIFO pop", OURS, RECIPE, "recipe", _BARS),
        Case("priority pop", OURS_PRIORITY, PRIORITY_RECIPE, "recipe", _BARS),
        Case("FIFO pop", OURS, LAYER, "high-contention layer", _NO_LOSS),
        Case("FIFO pop, relaxed", OURS_RELAXED, RECIPE, "recipe", _BARS),
        Case("FIFO pop, order=commit", OURS_BY_COMMIT, RECIPE, "recipe", _BARS),
    )
    yield from _measure(plan, 4, 16, cases)


def shapes(plan: Plan) -> Iterator[Line]:
    """One popper; sixteen in one process; sixteen processes."""
    alone = (Case("FIFO pop", OURS, RECIPE, "recipe", ("no bar", "at least 0.9")),)
    many = (Case("FIFO pop", OURS, RECIPE, "recipe", _NO_LOSS),)
    yield from _measure(plan, 1, 1, alone)
    yield from _measure(plan, 1, 16, many)
    yield from _measure(plan, 16, 1, many)


def leases(plan: Plan) -> Iterator[Line]:
    """Leases, and leases with their acks, beside pops, by sixty-four."""
    lease, acked = Load(method="lease"), Load(method="lease+ack")
    cases = (
        Case("FIFO lease", lease, OURS, "pop", _LEASE),
        Case("FIFO lease and ack", acked, OURS, "pop", ("no bar", "no bar")),
    )
    yield from _measure(plan, 4, 16, cases)


def _measure(plan: Plan, processes: int, threads: int, cases: tuple[Case, ...]) -> Iterator[Line]:
    with Poppers(plan, processes, threads) as poppers:
        for case in cases:
            yield _line(plan, poppers, case, f"{case.name}, {processes} x {threads}")


def _line(plan: Plan, poppers: Poppers, case: Case, name: str) -> Line:
    runs = [(poppers.run(case.ours), poppers.run(case.peer)) for _ in range(plan.rounds(ROUNDS))]
    return line_of(
        name,
        [(ours.pops_a_second, peer.pops_a_second) for ours, peer in runs],
        peer_name=case.peer_name,
        unit="/s",
        bar=plan.bar(*case.bars),
        our_latency=Run.latency([ours for ours, _ in runs]),
        peer_latency=Run.latency([peer for _, peer in runs]),
    )


BENCHMARKS = {"contention": contention, "shapes": shapes, "leases": leases}
