"""How things are timed: alternating rounds of ours and the peer, medians, ratios."""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

Operation = Callable[[], object]


@dataclass(frozen=True)
class Latency:
    """How long single operations took, in milliseconds: the median and the slow ones."""

    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, seconds: list[float]) -> Latency:
        """Return the percentiles of some durations."""
        ranked = sorted(seconds)
        return cls(*(ranked[len(ranked) * percent // 100] * 1000 for percent in (50, 95, 99)))

    def __str__(self) -> str:
        return f"p50 {self.p50:.1f}, p95 {self.p95:.1f}, p99 {self.p99:.1f} ms"


@dataclass(frozen=True)
class Line:
    """One line of the report.

    ``ours`` and ``peer`` are in ``unit``; ``ratio`` is ours to the peer's, the median of
    the rounds' ratios; ``bar`` is what it shall be, ``at least`` or ``at most``. The
    latencies are there where many operated at once.
    """

    name: str
    ours: float
    peer: float
    peer_name: str
    ratio: float
    lowest_ratio: float
    highest_ratio: float
    unit: str
    bar: str
    our_latency: Latency | None = None
    peer_latency: Latency | None = None

    def as_dict(self) -> dict[str, object]:
        """Return the line for ``--json``."""
        return asdict(self)


def rate(operation: Operation, count: int) -> float:
    """Return how many times a second an operation runs, over ``count`` runs."""
    start = time.perf_counter()
    for _ in range(count):
        operation()
    return count / (time.perf_counter() - start)


def rate_of_threads(operation: Operation, count: int, threads: int) -> float:
    """Return how many times a second ``threads`` threads run an operation together."""
    ready = threading.Barrier(threads + 1)

    def work() -> None:
        ready.wait()
        for _ in range(count // threads):
            operation()

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    ready.wait()
    start = time.perf_counter()
    for worker in workers:
        worker.join()
    return count // threads * threads / (time.perf_counter() - start)


def compare(
    name: str,
    ours: Callable[[], float],
    peer: Callable[[], float],
    *,
    peer_name: str,
    unit: str,
    bar: str,
    rounds: int,
) -> Line:
    """Measure ours and the peer in alternating rounds, so that both meet the same noise."""
    pairs = [(ours(), peer()) for _ in range(rounds)]
    return line_of(name, pairs, peer_name=peer_name, unit=unit, bar=bar)


def compare_by_turns(
    name: str,
    ours: Operation,
    peer: Operation,
    *,
    peer_name: str,
    bar: str,
    rounds: int,
    turns: int,
) -> Line:
    """Run ours and the peer by turns, and compare the median times of each round.

    A disk's fsync varies by more than what is measured; by turns both meet the same disk.
    """
    pairs = []
    for _ in range(rounds):
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(turns):
            order = list(zip((ours, peer), times, strict=True))
            random.shuffle(order)  # whoever comes second would meet what the first left
            for operation, found in order:
                start = time.perf_counter()
                operation()
                found.append(time.perf_counter() - start)
        pairs.append((1 / statistics.median(times[0]), 1 / statistics.median(times[1])))
    return line_of(name, pairs, peer_name=peer_name, unit="/s", bar=bar)


def line_of(
    name: str,
    pairs: list[tuple[float, float]],
    *,
    peer_name: str,
    unit: str,
    bar: str,
    our_latency: Latency | None = None,
    peer_latency: Latency | None = None,
) -> Line:
    """Return the line of some rounds, each ours and the peer's."""
    ratios = sorted(one / other for one, other in pairs)
    return Line(
        name=name,
        ours=statistics.median(one for one, _ in pairs),
        peer=statistics.median(other for _, other in pairs),
        peer_name=peer_name,
        ratio=statistics.median(ratios),
        lowest_ratio=ratios[0],
        highest_ratio=ratios[-1],
        unit=unit,
        bar=bar,
        our_latency=our_latency,
        peer_latency=peer_latency,
    )
