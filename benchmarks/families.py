"""Families of queues: what a take costs among many members, and how long the items of each wait."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import fdb.tuple

from benchmarks.catalog import Benchmark
from benchmarks.checks import ItemsWentWrong
from benchmarks.measure import Latency, Line, compare_by_turns, in_turn, line_of
from benchmarks.peers import transact
from benchmarks.plan import Plan
from fdbqueue.service import Catalog, Item, QueueSpec, SeveralQueues

ROUNDS, TURNS = 5, 100
MEMBERS, MILLION, WITH_ITEMS = 100_000, 1_000_000, 10
#: How many queues are filled in one transaction.
_FILLED_AT_ONCE = 200
PROCESSES, THREADS = 4, 16
FULL_MEMBERS = 10_000
#: Tenants beside one that has as many items as all of them, and how many items each has.
TENANTS, OF_EACH = 2_000, 2
_START_TIMEOUT_SECONDS = 120
#: How many items each client of a second takes at the most.
_ITEMS_A_SECOND = 4_000


class _Counted:
    """A database that counts the reads which are asked for."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self.reads = 0

    def create_transaction(self) -> Any:
        """Return a transaction whose reads are counted."""
        return _CountedReads(self, self._database.create_transaction())


class _CountedReads:
    def __init__(self, counted: _Counted, reads: Any) -> None:
        self._counted = counted
        self._reads = reads

    @property
    def snapshot(self) -> Any:
        """The same without conflicts."""
        return _CountedReads(self._counted, self._reads.snapshot)

    def __getattr__(self, name: str) -> Any:
        self._counted.reads += name in {"get", "get_range", "get_key"}
        return getattr(self._reads, name)

    def __getitem__(self, key: Any) -> Any:
        self._counted.reads += 1
        return self._reads[key]

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._reads[key] = value


def _catalog(database: Any, prefix: bytes) -> Catalog:
    names = ("strict", "user-*")
    return Catalog(database, fdb.tuple.unpack(prefix), [QueueSpec(name, "fifo") for name in names])


@contextlib.contextmanager
def _opened(plan: Plan, database: Any) -> Iterator[bytes]:
    """Give the prefix of a catalog of its own; all under it is cleared at the end."""
    with plan.subspace(database) as subspace:
        yield subspace.key()


def _fill(catalog: Catalog, names: Iterable[str], values: Callable[[str], Iterable[Any]]) -> None:
    """Push some values to each queue, many queues in a transaction."""
    rest = iter(names)
    while some := list(itertools.islice(rest, _FILLED_AT_ONCE)):

        def push(tr: Any, some: list[str] = some) -> None:
            for name in some:
                queue = catalog.queue(name)
                for value in values(name):
                    queue.push(value, tr=tr)

        transact(catalog.database, push)


def _drain(several: SeveralQueues) -> int:
    """Take all there is; return how many items."""
    count = 0
    while items := several.pop_many(1_000):
        count += len(items)
    return count


def among_members(plan: Plan) -> Iterator[Line]:
    """Pops from 100,000 members of which ten have items, beside ten; pushes beside plain ones."""
    yield from _among(plan, plan.sized(MEMBERS, MEMBERS // 10, 60))
    database = plan.open()
    with _opened(plan, database) as prefix:
        catalog = _catalog(database, prefix)
        member, plain, numbers = catalog.queue("user-1"), catalog.queue("strict"), itertools.count()
        yield compare_by_turns(
            "push to a member",
            lambda: member.push(next(numbers)),
            lambda: plain.push(next(numbers)),
            peer_name="plain push",
            bar="at least 0.95",
            rounds=plan.rounds(ROUNDS),
            turns=plan.turns(2 * TURNS),
        )


def among_a_million(plan: Plan) -> Iterator[Line]:
    """Pops from a family of a million members of which ten have items, beside ten."""
    yield from _among(plan, plan.sized(MILLION, MILLION, 60))


def _among(plan: Plan, members: int) -> Iterator[Line]:
    counted = _Counted(plan.open())
    reads: list[list[int]] = [[], []]
    with _opened(plan, counted) as large, _opened(plan, counted) as small:
        sides = []
        for prefix, count, seen in ((large, members, reads[0]), (small, 0, reads[1])):
            catalog = _catalog(counted, prefix)
            # Members that have had items, and are empty now; the rows that say so are corrected.
            rest = [f"user-{number}" for number in range(WITH_ITEMS, count)]
            _fill(catalog, rest, lambda _: (0,))
            users = catalog.several(["user-*"])
            if _drain(users) != len(rest) or users.pop() is not None:
                raise ItemsWentWrong("not all members were emptied")
            _fill(catalog, [f"user-{n}" for n in range(WITH_ITEMS)], lambda _: range(5))
            sides.append(_side(counted, catalog, users, seen))
        (work, again), (peer, peer_again) = sides
        yield compare_by_turns(
            f"pop_from, {members:,} members",
            work,
            peer,
            peer_name=f"{WITH_ITEMS} members",
            bar="at least 0.67",
            rounds=plan.rounds(ROUNDS),
            turns=plan.turns(TURNS),
            restore=(again, peer_again),
            at=members,
        )
    yield line_of(
        f"pop_from, {members:,} members, reads",
        [(sum(reads[0]) / len(reads[0]), sum(reads[1]) / len(reads[1]))],
        peer_name=f"{WITH_ITEMS} members",
        unit="reads",
        bar="at most 1.05",
        at=members,
    )


def _side(
    counted: _Counted, catalog: Catalog, users: SeveralQueues, seen: list[int]
) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what pops from a family and counts its reads, and what pushes that item again."""
    taken: list[Item] = []

    def pop() -> None:
        before = counted.reads
        item = users.pop()
        if item is None:
            raise ItemsWentWrong("a family that has items gave none")
        taken.append(item)
        seen.append(counted.reads - before)

    def push() -> None:
        item = taken.pop()
        catalog.queue(item.queue).push(item.value)

    return pop, push


def by_many(plan: Plan) -> Iterator[Line]:
    """Sixty-four poppers of a family of 10,000 members, beside pops of one strict queue."""
    members = plan.sized(FULL_MEMBERS, FULL_MEMBERS, 40)
    processes, threads = plan.sized((PROCESSES, THREADS), (PROCESSES, THREADS), (2, 2))
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes)
    database = plan.open()
    with ProcessPoolExecutor(processes, context, initializer=_keep, initargs=(barrier,)) as pool:

        def run(name: str) -> float:
            items = int(plan.seconds * _ITEMS_A_SECOND)
            with _opened(plan, database) as prefix:
                catalog = _catalog(database, prefix)
                if name == "strict":
                    catalog.queue("strict").push_many(range(items))
                else:
                    each = max(2, items // members)
                    _fill(catalog, [f"user-{n}" for n in range(members)], lambda _: range(each))
                tasks = [
                    pool.submit(_pop_for, plan, prefix, name, threads) for _ in range(processes)
                ]
                results = [task.result() for task in tasks]
            taken = [one for own, _ in results for one in own]
            if len(set(taken)) != len(taken):
                raise ItemsWentWrong("an item was taken twice")
            return len(taken) / max(seconds for _, seconds in results)

        pairs = [
            in_turn(number, lambda: run("user-*"), lambda: run("strict"))
            for number in range(plan.rounds(3))
        ]
    yield line_of(
        f"pop_from, {members:,} members, {processes} x {threads}",
        pairs,
        peer_name="pops of one queue",
        unit="/s",
        bar="at least 0.8",
    )


_barrier: Any = None


def _keep(barrier: Any) -> None:
    global _barrier  # noqa: PLW0603  # it can be given to a process only when that starts
    _barrier = barrier


def _pop_for(
    plan: Plan, prefix: bytes, name: str, threads: int
) -> tuple[list[tuple[str, str]], float]:
    """Pop in some threads for a time; return what was taken, and in how many seconds."""
    catalog = _catalog(plan.open(), prefix)
    source = catalog.queue(name) if "*" not in name else catalog.several([name])
    start = threading.Barrier(threads + 1)

    def work(_: int) -> list[tuple[str, str]]:
        found = []
        start.wait(_START_TIMEOUT_SECONDS)
        until = time.monotonic() + plan.seconds
        while time.monotonic() < until and (item := source.pop()) is not None:
            found.append((item.queue, item.id))
        return found

    with ThreadPoolExecutor(threads) as pool:
        tasks = [pool.submit(work, number) for number in range(threads)]
        _barrier.wait(_START_TIMEOUT_SECONDS)
        begun = time.monotonic()
        start.wait(_START_TIMEOUT_SECONDS)
        found = [one for task in tasks for one in task.result()]
        return found, time.monotonic() - begun


def tenants(plan: Plan) -> Iterator[Line]:
    """How long items of 2,000 tenants wait, with one that has as many as all, and without it."""
    count = plan.sized(TENANTS, TENANTS // 4, 20)
    names = [f"user-{number}" for number in range(count)]
    waited: dict[bool, list[float]] = {True: [], False: []}
    database = plan.open()

    def run(*, is_noisy: bool) -> float:
        with _opened(plan, database) as prefix:
            catalog = _catalog(database, prefix)
            _fill(catalog, names, lambda _: range(OF_EACH))
            if is_noisy:
                catalog.queue("user-noisy").push_many(range(count * OF_EACH))
            users = catalog.several(["user-*"])
            begun = time.monotonic()

            def work(_: int) -> list[float]:
                found = []
                while (item := users.pop()) is not None:
                    if item.queue != "user-noisy":
                        found.append(time.monotonic() - begun)
                return found

            with ThreadPoolExecutor(THREADS) as pool:
                seconds = [one for own in pool.map(work, range(THREADS)) for one in own]
        if len(seconds) != count * OF_EACH:
            raise ItemsWentWrong("not all items of the tenants were taken")
        waited[is_noisy] += seconds
        return Latency.of(seconds).p99

    pairs = [
        in_turn(number, lambda: run(is_noisy=True), lambda: run(is_noisy=False))
        for number in range(plan.rounds(3))
    ]
    yield line_of(
        f"p99 of {count:,} tenants, 1 x {THREADS}",
        pairs,
        peer_name="without the one with half",
        unit="ms",
        bar="at most 1.5",
        our_latency=Latency.of(waited[True]),
        peer_latency=Latency.of(waited[False]),
    )


BENCHMARKS = (
    Benchmark("families", among_members),
    Benchmark("families-million", among_a_million, is_long=True),
    Benchmark("families-many", by_many),
    Benchmark("tenants", tenants),
)
