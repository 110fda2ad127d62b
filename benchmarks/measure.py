"""How things are timed: alternating rounds of ours and the peer, medians, ratios."""

from __future__ import annotations

import math
import operator
import random
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
Operation = Callable[[], object]

OURS = "fdbqueue"
_COMPARISONS = {"at least": operator.ge, "at most": operator.le}


@dataclass(frozen=True)
class Latency:
    """How long single operations took, in milliseconds."""

    p50: float
    p90: float
    p99: float
    max: float

    @classmethod
    def of(cls, seconds: list[float]) -> Latency:
        """Return the percentiles of some durations."""
        ranked = sorted(seconds)
        indexes = [len(ranked) * percent // 100 for percent in (50, 90, 99)]
        return cls(*(ranked[index] * 1000 for index in (*indexes, -1)))

    def __str__(self) -> str:
        return f"p50 {self.p50:.1f}, p90 {self.p90:.1f}, p99 {self.p99:.1f}, max {self.max:.0f} ms"


@dataclass(frozen=True)
class Line:
    """One line of the report.

    ``ours`` and ``peer`` are in ``unit``; ``ratio`` is ours to the peer's, the median of
    the rounds' ratios; ``bar`` is what it shall be, ``at least`` or ``at most``. The
    latencies are there where many operated at once. ``at`` is how large or how many, where
    lines differ in that alone. ``note`` says what must be known to judge it. ``our_name`` is
    another where two others are compared.
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
    rounds: int
    our_latency: Latency | None = None
    peer_latency: Latency | None = None
    at: int | None = None
    note: str = ""
    our_name: str = OURS

    @property
    def is_met(self) -> bool | None:
        """Whether the ratio is what it shall be; None where there is no bar."""
        words, _, limit = self.bar.rpartition(" ")
        compared = _COMPARISONS.get(words)
        return None if compared is None else compared(self.ratio, float(limit))

    def as_dict(self) -> dict[str, Any]:
        """Return the line for ``--json``."""
        return {**asdict(self), "is_met": self.is_met}

    def __str__(self) -> str:
        text = (
            f"{self.name:34} {self.ours:12,.2f} {self.unit:7}"
            f" {self.peer_name:28} {self.peer:12,.2f}"
            f"  ratio {self.ratio:5.2f} ({self.lowest_ratio:.2f} to"
            f" {self.highest_ratio:.2f}), {self.bar}"
        )
        if self.is_met is False:
            text += ": missed"
        if self.our_latency:
            text += f"\n{'':34} {self.our_latency}; {self.peer_name}: {self.peer_latency}"
        return text


def rate(operation: Operation, count: int) -> float:
    """Return how many times a second an operation runs, over ``count`` runs."""
    start = time.perf_counter()
    for _ in range(count):
        operation()
    return count / (time.perf_counter() - start)


class Done(NamedTuple):
    """How many operations were done, in how many seconds."""

    count: int
    seconds: float

    @property
    def rate(self) -> float:
        """How many a second."""
        return self.count / self.seconds


def in_threads(
    operation: Operation, threads: int, *, count: float = math.inf, seconds: float = math.inf
) -> Done:
    """Have threads run an operation: so many times together, or for so long.

    Raises:
        Exception: What it raised in one of them.
    """
    ready = threading.Barrier(threads + 1)
    done = [0] * threads
    errors: list[BaseException] = []
    starts: list[float] = []

    def work(number: int) -> None:
        ready.wait()
        ends_at = starts[0] + seconds
        try:
            while done[number] < count / threads and time.perf_counter() < ends_at:
                operation()
                done[number] += 1
        except BaseException as error:  # noqa: BLE001  # raised in the caller's thread
            errors.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    try:
        starts.append(time.perf_counter())
        ready.wait()
    except BaseException:
        ready.abort()
        raise
    finally:  # who still worked would write again what the caller clears
        for worker in workers:
            worker.join()
    if errors:
        raise errors[0]
    return Done(sum(done), time.perf_counter() - starts[0])


def compare(
    name: str,
    ours: Callable[[], float],
    peer: Callable[[], float],
    *,
    rounds: int,
    **described: Any,
) -> Line:
    """Measure ours and the peer in alternating rounds, so that both meet the same noise.

    Which of them begins alternates too. ``described`` is the rest of the line.
    """
    pairs = [in_turn(number, ours, peer) for number in range(rounds)]
    return line_of(name, pairs, **described)


def in_turn(number: int, ours: Callable[[], T], peer: Callable[[], T]) -> tuple[T, T]:
    """Return what ours and the peer's return; in odd rounds the peer begins."""
    if number % 2:
        other = peer()
        return ours(), other
    return ours(), peer()


def compare_by_turns(
    name: str,
    ours: Operation,
    peer: Operation,
    *,
    rounds: int,
    turns: int,
    restore: tuple[Operation, Operation] | None = None,
    times: float = 1,
    **described: Any,
) -> Line:
    """Run ours and the peer by turns, and compare the median times of each round.

    A disk's fsync varies by more than what is measured; by turns both meet the same disk.

    Args:
        name: The line's.
        ours: What is measured.
        peer: What it is measured beside.
        rounds: How many rounds.
        turns: How often each runs in a round.
        restore: What puts each back to where it was, after each turn; it is not timed.
        times: How many one operation counts for.
        described: The rest of the line.
    """
    pairs = []
    for _ in range(rounds):
        found: tuple[list[float], list[float]] = ([], [])
        for _ in range(turns):
            order = list(zip((ours, peer), found, restore or (_nothing, _nothing), strict=True))
            random.shuffle(order)  # whoever comes second would meet what the first left
            for operation, durations, put_back in order:
                start = time.perf_counter()
                operation()
                durations.append(time.perf_counter() - start)
                put_back()
        pairs.append((times / statistics.median(found[0]), times / statistics.median(found[1])))
    return line_of(name, pairs, **{"unit": "/s", **described})


def line_of(name: str, pairs: list[tuple[float, float]], **described: Any) -> Line:
    """Return the line of some rounds, each ours and the peer's."""
    ratios = sorted(one / other for one, other in pairs)
    return Line(
        name=name,
        ours=statistics.median(one for one, _ in pairs),
        peer=statistics.median(other for _, other in pairs),
        ratio=statistics.median(ratios),
        lowest_ratio=ratios[0],
        highest_ratio=ratios[-1],
        rounds=len(pairs),
        **described,
    )


def _nothing() -> None:
    """Put nothing back."""
