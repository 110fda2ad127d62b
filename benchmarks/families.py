"""Families of queues: what a take costs among many members, and how long the items of each wait."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import fdb.tuple

from benchmarks.clients import ItemsWentWrong
from benchmarks.measure import Latency, Line, compare_by_turns, in_turn, line_of
from benchmarks.peers import transact
from benchmarks.plan import Benchmark, Plan
from fdbqueue.service import Catalog, Item, QueueSpec, SeveralQueues
from fdbqueue.service.tools.examination import Examiner

ROUNDS, TURNS = 5, 100
MEMBERS, MILLION, WITH_ITEMS = 100_000, 1_000_000, 10
#: How many queues are filled in one transaction.
_FILLED_AT_ONCE = 200
PROCESSES, THREADS = 4, 16
FULL_MEMBERS = 10_000
#: Tenants beside one that has as many items as all of them, and how many items each has.
TENANTS, OF_EACH = 10_000, 2
_NOISY = "user-noisy"
#: How many members are copied in one transaction, and how many of them are examined.
_COPIED_AT_ONCE, _EXAMINED = 1_000, 5
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


def _multiply(catalog: Catalog, names: Sequence[str]) -> None:
    """Make members that have had an item and are empty now, by copies of the keys of one.

    A million pushes and pops would take hours.

    Raises:
        ItemsWentWrong: A copy is not what pushes and pops would have left.
    """
    if not names:
        return
    model = catalog.queue(names[0])
    model.push(0)
    model.pop()
    begin = model.subspace.key()
    base = begin.removesuffix(fdb.tuple.pack((names[0],)))
    rows: list[tuple[bytes, bytes]] = []

    def read(tr: Any) -> None:
        found = tr.get_range(begin, begin + b"\xff\xff")
        rows[:] = [(bytes(row.key)[len(begin) :], bytes(row.value)) for row in found]

    transact(catalog.database, read)
    rest = iter(names[1:])
    while some := list(itertools.islice(rest, _COPIED_AT_ONCE)):

        def copy(tr: Any, some: list[str] = some) -> None:
            for name in some:
                prefix = base + fdb.tuple.pack((name,))
                for key, value in rows:
                    tr[prefix + key] = value

        transact(catalog.database, copy)
    for name in names[:: max(1, len(names) // _EXAMINED)]:
        _examine(catalog, name)


def _examine(catalog: Catalog, name: str) -> None:
    """Check a member as ``queue_doctor`` does."""
    queue = catalog.queue(name)
    examiner = Examiner(queue)
    census = examiner.census(time.monotonic() + _START_TIMEOUT_SECONDS)
    is_sound = (
        sum(minute.pops for minute in queue.history(60)) == 1
        and examiner.stored_format() is not None
        and examiner.is_indexed()
        and not examiner.strays()
        and census.is_exact
        and census.counts == queue.counts()
    )
    if not is_sound:
        raise ItemsWentWrong(f"{name} is not what a push and a pop leave")


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
            _multiply(catalog, [f"user-{number}" for number in range(WITH_ITEMS, count)])
            users = catalog.several(["user-*"])
            if users.pop() is not None:
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
        bar=plan.bar("at least 0.9", "at least 0.8"),
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
    """How long items of 10,000 tenants wait, with one that has as many as all, and without it.

    And which share of the takes that one has while the others have items.
    """
    count = plan.sized(TENANTS, TENANTS // 4, 20)
    processes, threads = plan.sized((PROCESSES, THREADS), (PROCESSES, THREADS), (2, 2))
    names = [f"user-{number}" for number in range(count)]
    waited: dict[bool, list[float]] = {True: [], False: []}
    shares: list[tuple[float, float]] = []
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes)
    database = plan.open()
    with ProcessPoolExecutor(processes, context, initializer=_keep, initargs=(barrier,)) as pool:

        def run(*, is_noisy: bool) -> float:
            with _opened(plan, database) as prefix:
                catalog = _catalog(database, prefix)
                _fill(catalog, names, lambda _: range(OF_EACH))
                if is_noisy:
                    catalog.queue(_NOISY).push_many(range(count * OF_EACH))
                tasks = [pool.submit(_empty, plan, prefix, threads) for _ in range(processes)]
                found = [one for task in tasks for one in task.result()]
            seconds = [at for name, at in found if name != _NOISY]
            if len(seconds) != count * OF_EACH:
                raise ItemsWentWrong("not all items of the tenants were taken")
            waited[is_noisy] += seconds
            if is_noisy:
                last = max(seconds)
                until = [name for name, at in found if at <= last]
                own = max(until.count(_NOISY), 0.1) / len(until)
                shares.append((10_000 * own, 10_000 / (count + 1)))
            return Latency.of(seconds).p99

        pairs = [
            in_turn(number, lambda: run(is_noisy=True), lambda: run(is_noisy=False))
            for number in range(plan.rounds(3))
        ]
    yield line_of(
        f"p99 of {count:,} tenants, {processes} x {threads}",
        pairs,
        peer_name="without the one with half",
        unit="ms",
        bar="at most 1.5",
        our_latency=Latency.of(waited[True]),
        peer_latency=Latency.of(waited[False]),
    )
    yield line_of(
        f"takes of the one with half, {processes} x {threads}",
        shares,
        peer_name="an equal share",
        unit="of 10,000",
        bar="no bar",
        note=f"while the {count:,} others have items",
    )


def _empty(plan: Plan, prefix: bytes, threads: int) -> list[tuple[str, float]]:
    """Take in some threads until there is nothing; return of which member each item was, and when.

    In seconds since all processes began.
    """
    users = _catalog(plan.open(), prefix).several(["user-*"])
    _barrier.wait(_START_TIMEOUT_SECONDS)
    begun = time.monotonic()

    def work(_: int) -> list[tuple[str, float]]:
        found = []
        while (item := users.pop()) is not None:
            found.append((item.queue, time.monotonic() - begun))
        return found

    with ThreadPoolExecutor(threads) as pool:
        return [one for own in pool.map(work, range(threads)) for one in own]


BENCHMARKS = (
    Benchmark("families", among_members),
    Benchmark("families-million", among_a_million, is_long=True),
    Benchmark("families-many", by_many),
    Benchmark("tenants", tenants),
)
