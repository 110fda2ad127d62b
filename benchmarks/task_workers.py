"""Django Tasks: our backend and its worker beside django-tasks-db.

Each commit waits for an fsync on both sides. Tasks are enqueued by one thread, and done by the
backends' own worker commands in processes of their own. How long that takes is what the results
say: from the start of the first task to the end of the last, without the start of the processes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple

import fdb.tuple

from benchmarks import peers
from benchmarks.measure import Latency, Line, in_turn, line_of
from benchmarks.plan import Benchmark, Plan, clear
from benchmarks.task_processes import (
    Backend,
    Process,
    enqueue,
    latencies,
    migrate,
    pragmas,
    span,
    work,
)

WORKERS = 4
#: More than there are processors, by far.
MANY_WORKERS = 16
TASKS = 1_000
#: At least this many tasks for each worker of ours: with fewer, most of the time is its start.
OF_EACH = 250
ROUNDS = 5
#: How many tasks are enqueued for an idle worker, and for one that looks but once a second.
STARTS, SLOW_STARTS = 40, 12
#: The longest an idle worker of ours may take to start a task, on our two engines.
START_BARS_MS = 5, 15
#: How often an idle worker of the peer looks: what it does by default, and much oftener.
INTERVALS = (1.0, 0.05)
#: Moments at which tasks are enqueued are spread over this time where a worker has no interval.
_PAUSE_SECONDS = 0.2
_WORKER = {"batch": True}
_FULL = 2
_NO_BAR = "no bar"


class Peer(NamedTuple):
    """A peer's database, what it is called, and the bars beside it on our two engines.

    ``starts`` says that idle workers are measured too, and ``many`` that many are.
    """

    name: str
    database: dict[str, Any]
    journal: str | None
    note: str
    enqueue: tuple[str, str] = (_NO_BAR, _NO_BAR)
    one: tuple[str, str] = (_NO_BAR, _NO_BAR)
    four: tuple[str, str] = (_NO_BAR, _NO_BAR)
    threads: tuple[str, str] = (_NO_BAR, _NO_BAR)
    starts: bool = False
    many: bool = False


def tasks(plan: Plan) -> Iterator[Line]:
    """Tasks enqueued, done by 1, 4 and 16 workers, and started, beside django-tasks-db."""
    prefix = "fdbqueue-benchmarks", os.urandom(8).hex()
    try:
        for peer in _sqlite_peers(plan):
            yield from _Measured(plan, prefix, peer).lines()
        programs = peers.programs()
        if programs is not None and plan.scale != "tiny":
            with peers.server(plan.folder, programs) as database:
                yield from _Measured(plan, prefix, _postgres_peer(database)).lines()
    finally:
        if plan.cluster_file:  # a file's folder is removed with it
            clear(plan.open(), fdb.tuple.pack(prefix))


def _sqlite_peers(plan: Plan) -> Iterator[Peer]:
    database = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(plan.folder / "tasks.sqlite3"),
        "CONN_MAX_AGE": None,
    }
    options = {"transaction_mode": "IMMEDIATE", "timeout": 60}
    logged = {"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"}
    yield Peer(
        "django-tasks-db",
        {**database, "OPTIONS": {**options, **logged}},
        "wal",
        "WAL, synchronous=FULL: one fsync a commit on both sides. CONN_MAX_AGE is None.",
        enqueue=("at least 1", _NO_BAR),
        one=("at least 3", _NO_BAR),
        four=("at least 4", _NO_BAR),
        threads=("at least 5", _NO_BAR),
        starts=True,
        many=True,
    )
    if plan.scale != "tiny" and not plan.cluster_file:
        name = str(plan.folder / "journal.sqlite3")
        yield Peer(
            "django-tasks-db, rollback journal",
            {**database, "NAME": name, "OPTIONS": options},
            "delete",
            "Django's default for SQLite: a rollback journal and synchronous=FULL.",
        )


def _postgres_peer(database: dict[str, Any]) -> Peer:
    return Peer(
        "django-tasks-db, PostgreSQL",
        database,
        None,
        "PostgreSQL's own settings, over a Unix socket: one fsync a commit. CONN_MAX_AGE is None.",
        enqueue=(_NO_BAR, "at least 1"),
        one=(_NO_BAR, "at least 2"),
        four=(_NO_BAR, "at least 3"),
    )


def our_backend(plan: Plan, prefix: tuple[str, ...]) -> Backend:
    """Return our backend on the plan's engine."""
    cluster, path = plan.cluster_file, str(plan.folder / "queues.sqlite3")
    settings = {
        "INSTALLED_APPS": [
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "fdbqueue",
            "fdbqueue.tasks",
        ],
        "FDBQUEUE": {
            "ENGINE": f"fdbqueue.engines.{'foundationdb' if cluster else 'embedded'}",
            "OPTIONS": {"cluster_file": cluster} if cluster else {"path": path},
            "PREFIX": prefix,
        },
        "TASKS": {"default": {"BACKEND": "fdbqueue.tasks.FdbQueueBackend"}},
        "USE_TZ": True,
    }
    words = {"batch": "until_empty", "worker_id": "worker"}
    return Backend("fdbqueue", settings, "tasks_worker", {}, words)


def _theirs(peer: Peer) -> Backend:
    settings = {
        "INSTALLED_APPS": ["django_tasks", "django_tasks_db"],
        "DATABASES": {"default": peer.database},
        "TASKS": {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}},
        "USE_TZ": True,
    }
    options = {"startup_delay": False, "reload": False}
    return Backend(peer.name, settings, "db_worker", options)


class Worked(NamedTuple):
    """How many tasks workers did a second, and what the one did that did least, beside the mean."""

    rate: float
    least_share: float


class _Side(contextlib.AbstractContextManager["_Side"]):
    """The processes of one backend; the first enqueues, and works too unless it is timed."""

    def __init__(self, backend: Backend, count: int) -> None:
        self._stack = contextlib.ExitStack()
        self._processes = [self._stack.enter_context(Process(backend)) for _ in range(count)]
        self.call = self._processes[0].call

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def done(self, ids: list[str], workers: int, **options: Any) -> Worked:
        """Have workers do all tasks; return how long those with the ids took, and the shares."""
        working = self._processes[:workers]
        for number, process in enumerate(working):
            process.begin(work, f"worker-{number}", {**_WORKER, **options})
        for process in working:
            process.result()
        done, counts = self.call(span, ids)
        least = min(counts) if len(counts) == workers else 0
        return Worked(done.rate, least * workers / len(ids))

    def starts(self, count: int, pause: float, **options: Any) -> list[float]:
        """Return the seconds from enqueueing tasks to their start by a worker that waits."""
        self._processes[1].begin(work, "idle", {"max_tasks": count, **options})
        found: list[float] = self.call(latencies, count, pause)
        self._processes[1].result()
        return found


class _Measured:
    """The lines beside one peer."""

    def __init__(self, plan: Plan, prefix: tuple[str, ...], peer: Peer) -> None:
        self._plan = plan
        self._prefix = prefix
        self._peer = peer
        self._workers = plan.sized(WORKERS, WORKERS, 2)
        self._many = plan.sized(MANY_WORKERS, MANY_WORKERS, 3) if peer.many else 0
        self._tasks = plan.sized(TASKS, TASKS // 2, 5)
        self._of_each = plan.sized(OF_EACH, OF_EACH // 2, 1)

    def lines(self) -> Iterator[Line]:
        """Enqueue and work by turns, then let workers wait."""
        backends = our_backend(self._plan, self._prefix), _theirs(self._peer)
        with contextlib.ExitStack() as stack:
            ours, theirs = (
                stack.enter_context(_Side(backend, max(self._workers, self._many)))
                for backend in backends
            )
            theirs.call(migrate)
            self._check_durable(theirs)
            for side in (ours, theirs):  # what is done once only, in each process
                for _ in range(self._workers):
                    side.done(side.call(enqueue, 5 * self._workers)[1], self._workers)
            yield from self._throughput(ours, theirs)
            if self._peer.starts:
                yield from self._starts(ours, theirs)

    def _check_durable(self, theirs: _Side) -> None:
        if self._peer.journal is not None:
            found = theirs.call(pragmas)
            if found != (self._peer.journal, _FULL):
                raise ValueError(f"django-tasks-db's journal_mode and synchronous are {found}")

    def _throughput(self, ours: _Side, theirs: _Side) -> Iterator[Line]:
        workers = self._workers
        counts = [1, workers, *([self._many] if self._many else [])]
        enqueued: list[tuple[float, float]] = []
        done: dict[int, list[tuple[Worked, Worked]]] = {count: [] for count in counts}
        threads: list[float] = []
        for number in range(self._plan.rounds(ROUNDS)):
            for count in counts:
                added = self._enqueued(number, ours, theirs, count)
                enqueued.append((added[0][0].rate, added[1][0].rate))
                ends = in_turn(
                    number,
                    lambda added=added, count=count: ours.done(added[0][1], count),
                    lambda added=added, count=count: theirs.done(added[1][1], count),
                )
                done[count].append(ends)
            ids = ours.call(enqueue, self._tasks)[1]
            threads.append(ours.done(ids, 1, threads=workers).rate)
        rates = {
            count: [(one.rate, other.rate) for one, other in pairs] for count, pairs in done.items()
        }
        beside = [(mine, other) for mine, (_, other) in zip(threads, rates[workers], strict=True)]
        peer = self._peer
        yield self._line("task enqueued, 1 thread", enqueued, peer.enqueue)
        yield self._line("tasks done, 1 worker", rates[1], peer.one)
        yield self._line(f"tasks done, {WORKERS} workers", rates[workers], peer.four)
        # One process of ours with threads, beside the peer's processes, which have none.
        yield self._line(
            f"tasks done, 1 worker of {WORKERS} threads",
            beside,
            peer.threads,
            peer_name=f"{peer.name}, {WORKERS} workers",
        )
        if self._many:
            yield self._line(f"tasks done, {MANY_WORKERS} workers", rates[self._many])
            yield from self._among_ours(done, rates)

    def _among_ours(
        self,
        done: dict[int, list[tuple[Worked, Worked]]],
        rates: dict[int, list[tuple[float, float]]],
    ) -> Iterator[Line]:
        """Yield the lines of several workers of ours beside one, and of the least share."""
        for name, count, bars in (
            (WORKERS, self._workers, ("at least 1.6", "at least 1.6")),
            (MANY_WORKERS, self._many, (_NO_BAR, _NO_BAR)),
        ):
            yield self._line(
                f"tasks done, {name} workers",
                [(more, one) for (more, _), (one, _) in zip(rates[count], rates[1], strict=True)],
                bars,
                peer_name="1 worker of ours",
            )
            yield self._line(
                f"tasks done, {name} workers, the one that did least",
                # In a run of very few tasks one may do none, which has no ratio to anything.
                [(max(ours.least_share, 0.001), 1.0) for ours, _ in done[count]],
                peer_name="the mean",
                unit="share",
            )

    def _enqueued(self, number: int, ours: _Side, theirs: _Side, workers: int) -> tuple[Any, Any]:
        return in_turn(
            number,
            lambda: ours.call(enqueue, max(self._tasks, workers * self._of_each)),
            lambda: theirs.call(enqueue, self._tasks),
        )

    def _line(
        self,
        name: str,
        pairs: list[tuple[float, float]],
        bars: tuple[str, str] = (_NO_BAR, _NO_BAR),
        **changes: Any,
    ) -> Line:
        described = {
            "peer_name": self._peer.name,
            "unit": "/s",
            "bar": self._plan.bar(*bars),
            "note": self._peer.note,
        }
        return line_of(name, pairs, **{**described, **changes})

    def _starts(self, ours: _Side, theirs: _Side) -> Iterator[Line]:
        found: list[list[float]] = []
        intervals = self._plan.sized(INTERVALS, INTERVALS, INTERVALS[1:])
        beside: dict[float, list[list[float]]] = {interval: [] for interval in intervals}
        count = self._plan.sized(STARTS, STARTS // 2, 2)
        pause = self._plan.sized(_PAUSE_SECONDS, _PAUSE_SECONDS, 0.01)
        for _ in range(self._plan.rounds(3)):
            found.append(ours.starts(count, pause))
            for interval, times in beside.items():
                is_slow = interval > _PAUSE_SECONDS
                slow = SLOW_STARTS if is_slow else count
                times.append(theirs.starts(slow, max(interval, pause), interval=interval))
        medians = [_ms(times, 50) for times in found]
        name = "enqueue to start, idle worker"
        barred = [(one, float(START_BARS_MS[bool(self._plan.cluster_file)])) for one in medians]
        bar = {"peer_name": "bar", "unit": "ms", "bar": "at most 1.0"}
        yield line_of(f"{name}, p50", barred, **bar)
        for interval, times in beside.items():
            note = f"The peer's worker looks every {interval:g} s; ours waits for a watch."
            both = [list(itertools.chain.from_iterable(one)) for one in (found, times)]
            for percent in (50, 95):
                yield line_of(
                    f"{name}, p{percent}",
                    [
                        (_ms(ours_in, percent), _ms(theirs_in, percent))
                        for ours_in, theirs_in in zip(found, times, strict=True)
                    ],
                    peer_name=f"{self._peer.name}, every {interval:g} s",
                    unit="ms",
                    bar="at most 1.0",
                    our_latency=Latency.of(both[0]),
                    peer_latency=Latency.of(both[1]),
                    note=note,
                )


def _ms(seconds: list[float], percent: int) -> float:
    """Return a percentile of some durations, in milliseconds."""
    if len(seconds) == 1:
        return seconds[0] * 1_000
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return cuts[percent - 1] * 1_000


BENCHMARKS = (Benchmark("tasks", tasks),)
