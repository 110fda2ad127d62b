"""Many clients of one queue, with shards or without: beside the recipe, a layer, a pop of ours.

Each round fills a queue for ours and one for the peer, and all poppers of both are checked: no
item may be taken twice or be gone.

Each round it is checked that every item is acknowledged once, or left.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.clients import Clients, Run
from benchmarks.measure import OURS, Line, in_turn, line_of
from benchmarks.plan import Benchmark, Plan
from benchmarks.queues import Load

ROUNDS = 3
#: Processes, and threads in each.
SIXTY_FOUR = 4, 16
#: Processes of one thread each.
PROCESSES = 4, 16
#: Those of which single pushes and pops are timed.
TIMED = ((1, 1), (4, 2), (4, 4), (4, 16))

RECIPE = Load(method="recipe")
PRIORITY_RECIPE = Load(method="recipe", kind="priority")
LAYER = Load(method="layer")
HUEY = Load(method="huey")

POP = Load()
PRIORITY_POP = Load(kind="priority")
LEASE_AND_ACK = Load(method="lease+ack")
SHARDS = {"shards": 16}
BY_COMMIT = {"order": "commit"}


class Case(NamedTuple):
    """A load beside another; the bars are for the embedded engine and for a cluster."""

    name: str
    ours: Load
    peer: Load
    peer_name: str
    bars: tuple[str, str]
    our_name: str = OURS


_NO = "no bar"
NO_BAR = _NO, _NO
#: Of one client alone.
ALONE_BESIDE_RECIPE = "at least 0.85", "at least 0.92"
_BARS = ("at least 5", "at least 10")
_NO_LOSS = ("at least 1", "at least 1")
_LEASE = ("at least 0.5", "at least 0.5")


def contention(plan: Plan) -> Iterator[Line]:
    """Sixty-four poppers in four processes."""
    cases = (
        Case("FIFO pop", POP, RECIPE, "recipe", _BARS),
        Case("priority pop", PRIORITY_POP, PRIORITY_RECIPE, "recipe", _BARS),
        Case("FIFO pop", POP, LAYER, "high-contention layer", _NO_LOSS),
        Case("FIFO pop, 16 shards", Load(options=SHARDS), RECIPE, "recipe", _BARS),
        Case(
            "priority pop, 16 shards",
            Load("priority", options=SHARDS),
            PRIORITY_RECIPE,
            "recipe",
            _BARS,
        ),
        Case("FIFO pop, order=commit", Load(options=BY_COMMIT), RECIPE, "recipe", _BARS),
        Case(
            "priority pop, order=commit",
            Load("priority", options=BY_COMMIT),
            PRIORITY_RECIPE,
            "recipe",
            _BARS,
        ),
    )
    yield from measured(plan, *SIXTY_FOUR, cases)


def shapes(plan: Plan) -> Iterator[Line]:
    """One popper; sixteen in one process; four and sixteen processes, and the least share."""
    # The file of huey is its own, whatever the engine: measured beside the embedded one.
    with_huey = plan.cluster_file is None

    def cases(beside_recipe: tuple[str, str], beside_huey: str = "") -> tuple[Case, ...]:
        recipe = Case("FIFO pop", POP, RECIPE, "recipe", beside_recipe)
        huey = Case("FIFO pop", POP, HUEY, "huey, SQLite", (beside_huey, _NO))
        return (recipe, huey) if beside_huey and with_huey else (recipe,)

    yield from measured(plan, 1, 1, cases(ALONE_BESIDE_RECIPE, "at least 0.8"))
    yield from measured(plan, 1, 16, cases(_NO_LOSS))
    few, many = PROCESSES
    yield from measured(plan, few, 1, cases(("at least 1", "at least 1.2")))
    yield from measured(plan, many, 1, cases(("at least 1", "at least 2"), "at least 0.6"))
    yield from _beside_one(plan)


def _beside_one(plan: Plan) -> Iterator[Line]:
    """Yield the lines of processes of one thread beside one such process, and the least share."""
    processes = PROCESSES[-1]
    # Each process is to do enough that its share says something.
    plan = dataclasses.replace(plan, times=plan.sized(2, 3, 1))
    with Clients(plan, 1, 1) as alone, Clients(plan, processes, 1) as all_of_them:
        for name, load, on_cluster in (
            ("pop", POP, "at least 2"),
            ("lease and ack", LEASE_AND_ACK, "at least 1.5"),
        ):
            runs = [
                in_turn(
                    number,
                    lambda load=load: all_of_them.run(load),
                    lambda load=load: alone.run(load),
                )
                for number in range(plan.rounds(ROUNDS))
            ]
            yield line_of(
                f"FIFO {name}, {processes} x 1",
                [(ours.a_second, one.a_second) for ours, one in runs],
                peer_name="1 x 1",
                unit="/s",
                bar=plan.bar("at least 1", on_cluster),
            )
            yield line_of(
                f"FIFO {name}, {processes} x 1, the process that did least",
                [(ours.least_share, 1.0) for ours, _ in runs],
                peer_name="the mean",
                unit="share",
                bar="at least 0.5",
            )


def leases(plan: Plan) -> Iterator[Line]:
    """Leases beside pops, by sixty-four."""
    cases = (
        Case("FIFO lease", Load(method="lease"), POP, "pop", _LEASE),
        Case("priority lease", Load("priority", "lease"), PRIORITY_POP, "pop", _LEASE),
    )
    yield from measured(plan, *SIXTY_FOUR, cases)


def several(plan: Plan) -> Iterator[Line]:
    """Pops from ten empty queues and a full one; and by sixteen from an empty one and a full."""
    alone = tuple(
        Case(
            f"pop_from, {empty} empty",
            Load(method="pop_from", empty=empty),
            POP,
            "pop of one queue",
            NO_BAR,
        )
        for empty in (0, 1, 10)
    )
    yield from measured(plan, 1, 1, alone)
    yield from measured(plan, 4, 4, alone[1:2])


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
    for processes, threads in TIMED:
        yield from measured(plan, processes, threads, cases, at=processes * threads)


def measured(
    plan: Plan,
    processes: int,
    threads: int,
    cases: tuple[Case, ...],
    *,
    at: int | None = None,
) -> Iterator[Line]:
    """Yield the line of each case, with so many clients."""
    with Clients(plan, processes, threads) as clients:
        for case in cases:
            yield _line(plan, clients, case, f"{case.name}, {processes} x {threads}", at)


def _line(plan: Plan, clients: Clients, case: Case, name: str, at: int | None) -> Line:
    runs = [
        in_turn(number, lambda: clients.run(case.ours), lambda: clients.run(case.peer))
        for number in range(plan.rounds(ROUNDS))
    ]
    return line_of(
        name,
        [(ours.a_second, peer.a_second) for ours, peer in runs],
        peer_name=case.peer_name,
        unit="/s",
        bar=plan.bar(*case.bars),
        our_latency=Run.latency([ours for ours, _ in runs]),
        peer_latency=Run.latency([peer for _, peer in runs]),
        at=at,
        our_name=case.our_name,
    )


SIXTEEN, CHOICES = 16, 2
OPTIONS = {"shards": SIXTEEN, "choices": CHOICES}
#: Processes, and threads in each: those that a strict queue is worst at, and threads that combine.
SHAPES = ((16, 1), (4, 16), (1, 1))
STRICT = "the strict queue"
#: The most conflicts with other processes that a pop may meet, on average.
CONFLICTS = 0.05


def shards(plan: Plan) -> Iterator[Line]:
    """Sixteen shards beside one head: pops, conflicts, and the rank of what is taken."""
    for processes, threads in SHAPES:
        shape = f"{processes} x {threads}"
        with Clients(plan, processes, threads) as clients:
            for kind, recipe in (("fifo", RECIPE), ("priority", PRIORITY_RECIPE)):
                ours, strict = Load(kind, options=OPTIONS), Load(kind)
                runs = _runs(plan, clients, ours, strict)
                bar = "at least 1.6" if processes == SIXTEEN else "no bar"
                name = f"{kind} pop, {SIXTEEN} shards, {shape}"
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
        [(max(statistics.mean(one), 0.01), expected_rank(SIXTEEN, CHOICES)) for one in found],
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


BENCHMARKS = (
    Benchmark("contention", contention),
    Benchmark("shapes", shapes),
    Benchmark("leases", leases),
    Benchmark("several", several),
    Benchmark("latency", latency),
    Benchmark("shards", shards),
    Benchmark("worker", worker),
)
