"""What an operation costs one client alone: beside the recipe's, and beside a simpler one.

The two of a line run by turns, so that both meet the same disk and the same cluster.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.catalog import Benchmark
from benchmarks.contention import ALONE_BESIDE_RECIPE
from benchmarks.measure import Line, Operation, compare_by_turns
from benchmarks.plan import Plan
from benchmarks.queues import Load, Ours, Peer, queue_of

ROUNDS = 5
TURNS = 100
MANY = 50
#: In all rounds 1,000 pushes under keys of their own, and batches of as many.
UNIQUE, UNIQUE_BATCHES, BATCH = 200, 8, 1_000


def recipe(plan: Plan) -> Iterator[Line]:
    """Push and pop beside the recipe's."""
    for kind, verb in itertools.product(KINDS, ("push", "pop")):
        yield _compare(
            plan,
            f"{KINDS[kind]} {verb}, alone",
            verb,
            (Load(kind), Load(kind, "recipe")),
            peer_name="recipe",
            bar=plan.bar(*ALONE_BESIDE_RECIPE),
        )


def counters(plan: Plan) -> Iterator[Line]:
    """Push and pop as they are, beside the same without what they write to count."""
    for kind, verb in itertools.product(KINDS, ("push", "pop")):
        yield _compare(
            plan,
            f"{KINDS[kind]} {verb}, counted",
            verb,
            (Load(kind), Load(kind, "uncounted")),
            peer_name="not counted",
            bar="at least 0.8",
        )


def taking(plan: Plan) -> Iterator[Line]:
    """Leases, and pops that would wait, beside plain pops: one by one, and many at once."""
    for method, verb, bar in (
        ("wait", "pop", "at least 0.9"),
        ("lease", "pop", "at least 0.5"),
        ("lease+ack", "pop", "no bar"),
        ("lease", f"pop of {MANY}", "at least 0.5"),
        ("lease+ack", f"pop of {MANY}", "no bar"),
    ):
        name = verb.replace("pop", "pop and wait" if method == "wait" else method)
        loads = Load(method=method), Load()
        yield _compare(plan, f"FIFO {name}, alone", verb, loads, peer_name=verb, bar=bar)


def limits(plan: Plan) -> Iterator[Line]:
    """Pops and leases of a queue whose limits are far away, beside those of one without."""
    for name, method, options in (
        ("pop, rate", "pop", {"rate": "1000000/s"}),
        ("lease, rate", "lease", {"rate": "1000000/s"}),
        ("lease, max_leased", "lease", {"max_leased": 1_000_000}),
    ):
        loads = Load(method=method, options=options), Load(method=method)
        for verb in ("pop", f"pop of {MANY}"):
            of = verb.removeprefix("pop")
            yield _compare(
                plan, f"FIFO {name}{of}", verb, loads, peer_name="no limit", bar="at least 0.8"
            )


def unique(plan: Plan) -> Iterator[Line]:
    """Pushes under unique keys of their own, beside pushes without: one by one, and in batches."""
    loads = Load(method="unique"), Load()
    for verb, bar, turns in (
        ("keyed push", "at least 0.77", UNIQUE),
        (f"batch of {BATCH:,}", "no bar", UNIQUE_BATCHES),
    ):
        name = "push" if verb == "keyed push" else f"push_batch of {BATCH:,}"
        yield _compare(
            plan, f"FIFO {name}, unique", verb, loads, peer_name="no key", bar=bar, turns=turns
        )


def _compare(
    plan: Plan,
    name: str,
    verb: str,
    loads: tuple[Load, Load],
    *,
    peer_name: str,
    bar: str,
    turns: int = TURNS,
) -> Line:
    """Compare one verb of two queues, in a database and subspaces of their own."""
    database, rounds, turns = plan.open(), plan.rounds(ROUNDS), plan.turns(turns)
    with plan.subspace(database) as one, plan.subspace(database) as other:
        ours, peer = (
            VERBS[verb](queue_of(database, subspace, load), rounds * turns)
            for subspace, load in zip((one, other), loads, strict=True)
        )
        return compare_by_turns(
            name, ours, peer, peer_name=peer_name, bar=bar, rounds=rounds, turns=turns
        )


def _push(queue: Peer | Ours, turns: int) -> Operation:  # noqa: ARG001  # nothing to prepare
    numbers = itertools.count()
    return lambda: queue.push(next(numbers))


def _push_keyed(queue: Any, turns: int) -> Operation:  # noqa: ARG001  # nothing to prepare
    numbers = itertools.count()
    return lambda: queue.push_keyed(next(numbers))


def _push_batch(queue: Any, turns: int) -> Operation:  # noqa: ARG001  # nothing to prepare
    numbers = itertools.count(step=BATCH)
    return lambda: queue.push_batch(range(begin := next(numbers), begin + BATCH))


def _pop(queue: Peer | Ours, turns: int) -> Operation:
    queue.fill(turns)
    return queue.take


def _pop_many(queue: Any, turns: int) -> Operation:
    queue.fill(turns * MANY)
    return lambda: queue.take_many(MANY)


KINDS = {"fifo": "FIFO", "priority": "priority"}
VERBS: dict[str, Callable[[Any, int], Operation]] = {
    "push": _push,
    "keyed push": _push_keyed,
    f"batch of {BATCH:,}": _push_batch,
    "pop": _pop,
    f"pop of {MANY}": _pop_many,
}

BENCHMARKS = (
    Benchmark("recipe", recipe),
    Benchmark("counters", counters),
    Benchmark("taking", taking),
    Benchmark("unique", unique),
    Benchmark("limits", limits),
)
