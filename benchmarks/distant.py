"""Pops of many processes whose machines, like the cluster's, have processors to spare: simulated.

On one machine of two cores all clients and the server share these, and a ratio compares processor
time. Between machines a transaction mostly waits. So here the simulator (``tests/simulation``) runs
the package and the recipe on a virtual clock. Each message takes some time. Each attempt of a
transaction does, too, and has a processor of its own. The simulator counts commits and snapshots;
the results say how many there are for each item.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fdb.subspace_impl import Subspace

from benchmarks.clients import check_numbers
from benchmarks.measure import Line, in_turn, line_of
from benchmarks.peers import FifoRecipe
from benchmarks.plan import Benchmark, Plan
from tests.simulation import schedule as simulated
from tests.simulation.cluster import Cluster, Database, Faults
from tests.simulation.programs import Program

#: The middle of what FoundationDB's documentation gives ("Performance"): 0.3 to 1 ms until a
#: transaction has begun, 0.1 to 1 ms for a read, 1.5 to 2.5 ms for a commit.
_READ_US, _COMMIT_US = 1_200, 2_000
#: What Python adds to an attempt; and by how much a message may take less or more.
_PYTHON_US, _SPREAD = 200, 0.2
#: How probable it is at a turn that another thread goes on.
_SWITCH = 0.02
_MAX_STEPS, _MAX_FRAMES = 100_000_000, 20_000
_SECONDS, _ITEMS_A_SECOND, _ROUNDS = 1.0, 16_000, 3
_FAMILY, _OF_EACH = "m-", 16
_PLACE = Subspace(("distant",))
_NOTE = "simulated: messages take their time, processors have no limit"


class _Source:
    """The queue that processes take from, ours or the recipe's.

    Args:
        service: The process's copy of the package's service.
        database: The cluster as the process sees it.
    """

    #: Whether the items that were taken are the first ones.
    is_strict = True

    def __init__(self, service: Any, database: Any) -> None:
        self._queue = service.FifoQueue(database, _PLACE)

    def fill(self, count: int) -> None:
        """Push the numbers from 0 on, ``count`` of them."""
        self._queue.push_many(range(count))

    def take(self) -> int | None:
        """Take one, None if there is none."""
        item = self._queue.pop()
        return None if item is None else item.value


class _Leased(_Source):
    def take(self) -> int | None:
        item = self._queue.lease()
        if item is None:
            return None
        self._queue.ack(item)
        number: int = item.value
        return number


class _Recipe(_Source):
    def __init__(self, _: Any, database: Any) -> None:
        self._recipe = FifoRecipe(database, _PLACE)

    def fill(self, count: int) -> None:
        self._recipe.fill((str(number).encode(), 0) for number in range(count))

    def take(self) -> int | None:
        value = self._recipe.pop()
        return None if value is None else int(value)


class _Family(_Source):
    is_strict = False

    def __init__(self, service: Any, database: Any) -> None:
        specs = [service.QueueSpec(f"{_FAMILY}*", "fifo")]
        self._catalog = service.Catalog(database, ("distant",), specs)
        self._queue = self._catalog.several([f"{_FAMILY}*"])

    def fill(self, count: int) -> None:
        for first in range(0, count, _OF_EACH):
            member = self._catalog.queue(f"{_FAMILY}{first}")
            member.push_many(range(first, first + _OF_EACH))


class _Network(Cluster):
    """A cluster that loses no message, each of which takes as long as on a network.

    Attributes:
        sent: How many commits were sent.
        waits: Two for each snapshot: for its version, and for what is read.
    """

    def __init__(self, seed: str) -> None:
        super().__init__(seed, Faults())
        self.sent = self.waits = 0
        self._message_us = 0.0

    def latency_us(self) -> int:
        return int(self.dice.uniform(1 - _SPREAD, 1 + _SPREAD) * self._message_us)

    def wait(self) -> None:
        self.waits += 1
        self._message_us = (_READ_US + _PYTHON_US) / 2
        super().wait()

    def send(self, request: Any, done: Callable[[], None]) -> None:
        self.sent += 1
        self._message_us = _COMMIT_US / 2
        super().send(request, done)

    def apply(self, request: Any) -> None:
        super().apply(request)
        while len(self.states) > 1:  # no transaction here sets its own read version
            self.states.popleft()


class _Done(NamedTuple):
    """What all clients of a run did, and what each item cost the cluster."""

    a_second: float
    least_share: float
    commits: float
    snapshots: float


@functools.cache
def _copy(number: int) -> Program:
    """Return the copy of the package that a process has."""
    made = Program(f"process {number}")
    made["service"]
    made.keep()
    return made


def _run(of: type[_Source], processes: int, threads: int, seconds: float, seed: int) -> _Done:
    """Start processes with threads, let all take items for a while, and check what they took.

    Raises:
        ItemsWentWrong: One was taken twice; or, of a strict queue, one before one that was not.
    """
    schedule = simulated.running = simulated.Schedule(f"order {seed}", _SWITCH, _MAX_STEPS)
    cluster = _Network(f"network {seed}")
    copies = [_copy(number) for number in range(processes)]
    taken: list[list[int]] = [[] for _ in copies]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_MAX_FRAMES)  # a greenlet begins at the depth of who starts it
    try:
        for number, copy in enumerate(copies):
            copy.begin(f"{seed} {number}", 100 + number)
        sources = [of(copy["service"], Database(cluster, copy)) for copy in copies]
        count = int(seconds * _ITEMS_A_SECOND)
        schedule.join(schedule.start("fill", copies[0], lambda: sources[0].fill(count)))
        cluster.sent = cluster.waits = 0
        begun_us = schedule.now_us
        ends_us = begun_us + int(seconds * 1e6)

        def work(number: int) -> None:
            while schedule.now_us < ends_us and (found := sources[number].take()) is not None:
                taken[number].append(found)

        clients = [
            schedule.start(f"{number}.{thread}", copies[number], functools.partial(work, number))
            for number, thread in itertools.product(range(processes), range(threads))
        ]
        for client in clients:
            schedule.join(client)
        took_us = schedule.now_us - begun_us
    finally:
        schedule.end()
        sys.setrecursionlimit(limit)
    done = list(itertools.chain.from_iterable(taken))
    check_numbers(of.__name__, range(len(done)) if of.is_strict else {*done}, done)
    return _Done(
        len(done) / took_us * 1e6,
        min(map(len, taken)) * processes / len(done),
        cluster.sent / len(done),
        cluster.waits / 2 / len(done),
    )


class _Distant:
    """The lines of one plan."""

    def __init__(self, plan: Plan) -> None:
        self._seconds = plan.sized(_SECONDS, _SECONDS / 2, 0.1)
        self._rounds = plan.rounds(_ROUNDS)
        self._many = plan.sized(16, 16, 3)  # not four, which have rows of their own

    def lines(self) -> Iterator[Line]:
        many = self._many
        for processes, threads, bar in (
            (1, 1, "no bar"),
            (4, 1, "at least 1.2"),
            (many, 1, "at least 2"),
            (4, many, "at least 10"),
        ):
            name, shape = f"FIFO pop, {processes} x {threads}", (processes, threads)
            runs = self._runs((_Source, *shape), (_Recipe, *shape))
            yield self._rates(name, runs, "recipe", bar)
            for what in ("commits", "snapshots"):
                pairs = [(getattr(one, what), getattr(other, what)) for one, other in runs]
                described = {"peer_name": "recipe", "unit": "an item", "bar": "at most 1.1"}
                yield self._line(f"{what}: {name}", pairs, **described)
        for name, of, bar in (
            ("pop", _Source, "at least 2"),
            ("lease and ack", _Leased, "at least 1.5"),
        ):
            runs = self._runs((of, many, 1), (of, 1, 1))
            yield self._rates(f"FIFO {name}, {many} x 1", runs, "1 x 1", bar)
            yield self._line(
                f"FIFO {name}, {many} x 1, the process that did least",
                [(one.least_share, 1.0) for one, _ in runs],
                peer_name="the mean",
                unit="share",
                bar="at least 0.5",
            )
        members = int(self._seconds * _ITEMS_A_SECOND) // _OF_EACH
        runs = self._runs((_Family, 4, many), (_Source, 4, many))
        name = f"pop_from, {members:,} members, 4 x {many}"
        yield self._rates(name, runs, "pops of one queue", "at least 0.8")

    def _runs(
        self, ours: tuple[type[_Source], int, int], peer: tuple[type[_Source], int, int]
    ) -> list[tuple[_Done, _Done]]:
        def run(number: int, one: tuple[type[_Source], int, int]) -> _Done:
            return _run(*one, self._seconds, number)

        return [
            in_turn(
                number, functools.partial(run, number, ours), functools.partial(run, number, peer)
            )
            for number in range(self._rounds)
        ]

    def _rates(self, name: str, runs: list[tuple[_Done, _Done]], peer: str, bar: str) -> Line:
        pairs = [(one.a_second, other.a_second) for one, other in runs]
        return self._line(name, pairs, peer_name=peer, unit="/s", bar=bar)

    @staticmethod
    def _line(name: str, pairs: list[tuple[float, float]], **described: Any) -> Line:
        return line_of(name, pairs, **{"bar": "no bar", "note": _NOTE, **described})


def distant(plan: Plan) -> Iterator[Line]:
    """Takes by processes on machines of their own, simulated: no processor is the limit."""
    yield from _Distant(plan).lines()


BENCHMARKS = (Benchmark("distant", distant, engines=("embedded",), is_long=True),)
