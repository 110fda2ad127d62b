"""The pages: that of a queue of a million items beside a thousand's, the list of 500 queues,
and the pages across 100 queues.

Each round is a request through Django's test client, by somebody who is logged in, up to
the last byte of the page.
"""

from __future__ import annotations

import contextlib
import functools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import fdb.tuple

from benchmarks.catalog import Benchmark
from benchmarks.measure import Line, compare
from benchmarks.plan import Plan, clear
from benchmarks.queues import SMALL

LIST = "/admin/fdbqueue/queuename/"
MANY, FEW = 1_000_000, 1_000
QUEUES = 500
ROUNDS = 9
TURNS = 10
#: How long a page across queues may take.
ACROSS_BAR_MS = 150

#: What is asked of a queue's page.
PAGES = {
    "queue page": "",
    "queue page, from the other end": "?end=max&limit=200",
    "queue page, a range": "?min_priority=50&max_priority=60",
    "queue page, a day": "?span=day",
    "queue page, a text not there": "?q=nowhere",
}
#: The pages across queues.
ACROSS = ("-/workers/", "-/failures/")
OF_TASKS = ("-/functions/", "-/schedules/")
#: What is asked of the list.
LISTS = ("", "?sort=-ready", "?sort=-oldest", "?sort=-pushes")


def queue_page(plan: Plan) -> Iterator[Line]:
    """The page of a queue with a million items, beside the same with a thousand."""
    many, few = plan.sized((MANY, FEW), (MANY // 20, FEW), (60, 20))
    turns = plan.turns(TURNS)
    with _project() as client, _queues(plan, ["many", "few"]):
        import fdbqueue

        for name, count in (("many", many), ("few", few)):
            pairs = ((SMALL, number % 997 / 10) for number in range(count))
            fdbqueue.queue(name).push_many(pairs)
        for name, query in PAGES.items():
            yield compare(
                f"{name}, {many:,} items",
                _timed(client, f"{LIST}many/{query}", turns),
                _timed(client, f"{LIST}few/{query}", turns),
                peer_name=f"{few:,} items",
                unit="ms",
                bar="at most 1.3" if "text" not in name else "no bar",
                rounds=plan.rounds(ROUNDS),
            )


def queue_list(plan: Plan) -> Iterator[Line]:
    """The list of 500 queues, beside that of ten; named in the setting, and of a pattern."""
    many, few = plan.sized((QUEUES, 10), (QUEUES, 10), (6, 2))
    for kind in ("named", "of a pattern"):
        with (
            _project() as client,
            _listed(plan, kind, many) as of_many,
            _listed(plan, kind, few) as of_few,
        ):
            for query in LISTS:
                timed = _timed(client, f"{LIST}{query}", plan.turns(TURNS))
                yield compare(
                    f"{many} queues {kind}, {query or 'by name'}",
                    functools.partial(_with, of_many, timed),
                    functools.partial(_with, of_few, timed),
                    peer_name=f"{few} queues",
                    unit="ms",
                    bar="no bar",
                    rounds=plan.rounds(5),
                )


def across(plan: Plan) -> Iterator[Line]:
    """The pages across 100 queues with 10,000 leases and as many dead letters, beside a tenth."""
    many, few = plan.sized((100, 10), (100, 10), (6, 2))
    names = [f"q{number:03}" for number in range(100)]
    with _project() as client:
        yield from _of_items(plan, client, names, few, many)
        yield from _workers(plan, client, names[:many])
        yield from _of_tasks(plan, client)


def _workers(plan: Plan, client: Any, names: list[str]) -> Iterator[Line]:
    """The page of workers, with a row for each of a thousand workers, and 10,000 leases."""
    from fdbqueue import conf
    from fdbqueue.service import WorkerCounts, run, worker_here

    count = plan.sized(1_000, 1_000, 10)
    with _queues(plan, names):
        _lease_and_bury(names)
        presences = conf.catalog().presences
        rows = [
            presences.of(
                worker_here(f"worker-{number}", "items", names[0], threads=4, serves=names[:9]),
                lambda: WorkerCounts(1, 2, 3),
            )
            for number in range(count)
        ]
        run(conf.database(), lambda tr: [row._write(tr, [row._key]) for row in rows])  # noqa: SLF001  # a thread's
        yield compare(
            f"{ACROSS[0]}, {count:,} workers, {100 * len(names):,} leases",
            _timed(client, f"{LIST}{ACROSS[0]}", plan.turns(TURNS)),
            lambda: float(ACROSS_BAR_MS),
            peer_name="bar",
            unit="ms",
            bar="at most 1.0",
            rounds=plan.rounds(5),
        )


def _of_items(plan: Plan, client: Any, names: list[str], few: int, many: int) -> Iterator[Line]:
    with _queues(plan, names):
        for first, last in ((0, few), (few, many)):
            _lease_and_bury(names[first:last])
            if last == few:
                baselines = {
                    page: _timed(client, f"{LIST}{page}", plan.turns(TURNS))() for page in ACROSS
                }
        for page in ACROSS:
            baseline = baselines[page]
            yield compare(
                f"{page}, {many} queues, {100 * many:,} leases",
                _timed(client, f"{LIST}{page}", plan.turns(TURNS)),
                lambda baseline=baseline: baseline,
                peer_name=f"{few} queues, {100 * few:,} leases",
                unit="ms",
                bar="no bar",
                rounds=plan.rounds(5),
            )


def _of_tasks(plan: Plan, client: Any) -> Iterator[Line]:
    queues, count, of_each = plan.sized((100, 10, 10_000), (100, 10, 10_000), (10, 2, 100))
    names = [f"q{number:03}" for number in range(queues)]

    def lines(pages: tuple[str, ...], what: str) -> Iterator[Line]:
        for page in pages:
            yield compare(
                f"{page}, {what}",
                _timed(client, f"{LIST}{page}", plan.turns(TURNS)),
                lambda: float(ACROSS_BAR_MS),
                peer_name="bar",
                unit="ms",
                bar="at most 1.0",
                rounds=plan.rounds(5),
            )

    with _ran_and_scheduled(plan, names, count):
        yield from lines(OF_TASKS, f"{queues} queues, {queues * count:,} functions, 500 schedules")
    with _ran_and_scheduled(plan, names[:2], of_each, hours=5):
        yield from lines(OF_TASKS[:1], f"2 queues of {of_each:,} functions each")


@contextlib.contextmanager
def _ran_and_scheduled(
    plan: Plan, names: list[str], count: int, *, hours: int = 25
) -> Iterator[None]:
    """Let so many functions of each queue have run in each slot of some hours; and schedules."""
    from django.test import utils

    from fdbqueue.service import now_us, run
    from fdbqueue.tasks.compat import task_backends

    call = {"task": "fdbqueue.nothing", "every": 60, "queue_name": names[0]}
    options = {"schedules": {f"schedule {number}": call for number in range(500)}}
    backend = {"BACKEND": "fdbqueue.tasks.FdbQueueBackend", "QUEUES": names, "OPTIONS": options}
    with utils.override_settings(TASKS={"default": backend}), _queues(plan, ["q"]):
        ours: Any = task_backends["default"]
        counters, now = ours.records.functions, now_us()
        for name in names:
            queue = ours.queue(name)
            queue.push({})  # a queue of tasks is listed once it has had one
            for back in range(hours):
                ended = now - back * 3_600_000_000
                moments = [ended - minutes * 60_000_000 for minutes in (0, 20, 40)]
                for begin in range(0, count, 1_000):
                    numbers = range(begin, min(count, begin + 1_000))
                    run(
                        ours.catalog.database,
                        functools.partial(
                            _count, counters, queue.name, numbers, moments[: 3 if back < 2 else 1]
                        ),
                    )
        yield


def _count(counters: Any, queue: str, numbers: range, moments: list[int], tr: Any) -> None:
    """Count an attempt of each of some functions at each of some moments."""
    for number in numbers:
        path = f"project.{queue}.module{number % 40}.function{number}"
        for ended in moments:
            counters.count(tr, queue, path, ended, ended - number, failed=False)


def _lease_and_bury(names: list[str]) -> None:
    """Let each queue have 100 leased items, of ten workers, and 100 dead letters of ten reasons."""
    import fdbqueue

    for name in names:
        queue = fdbqueue.queue(name)
        queue.push_many((SMALL, 1) for _ in range(200))
        for number in range(10):
            queue.lease_many(10, seconds=3_600, worker=f"worker-{number}")
        for number, item in enumerate(queue.page(limit=100).items):
            queue.bury(item.id, reason=f"reason {number % 10}")


@contextlib.contextmanager
def _listed(plan: Plan, kind: str, count: int) -> Iterator[dict[str, Any]]:
    """Fill so many queues, and give the setting that has them."""
    names = [f"q{number:03}" for number in range(count)]
    with _queues(plan, names if kind == "named" else ["q*"]) as setting:
        import fdbqueue

        for number, name in enumerate(names):
            fdbqueue.queue(name).push_many(((SMALL, 1),) * (number % 7 + 1))
        yield setting


def _with(setting: dict[str, Any], measure: Callable[[], float]) -> float:
    """Measure with a setting; opening its engine is not timed."""
    from django.test import utils

    from fdbqueue import conf

    with utils.override_settings(FDBQUEUE=setting):
        conf.database()
        return measure()


@contextlib.contextmanager
def _project() -> Iterator[Any]:
    """Set up the demo project, and give a logged-in client."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
    import django

    django.setup()
    from django.contrib.auth.models import User
    from django.test import Client, utils

    utils.setup_test_environment(debug=False)
    databases = utils.setup_databases(verbosity=0, interactive=False)
    try:
        client = Client()
        client.force_login(User.objects.create_superuser("bench"))
        yield client
    finally:
        utils.teardown_databases(databases, verbosity=0)
        utils.teardown_test_environment()


@contextlib.contextmanager
def _queues(plan: Plan, names: list[str]) -> Iterator[dict[str, Any]]:
    """Give the setting of some queues of the plan's own, which holds inside."""
    from django.test import utils

    from fdbqueue import conf

    place = {"path": plan.folder / f"pages-{os.urandom(4).hex()}.sqlite3", "durability": "normal"}
    prefix = ("fdbqueue-benchmarks", os.urandom(8).hex())
    options = {"kind": "priority", "priority_type": "float"}
    setting = {
        "ENGINE": "fdbqueue.engines." + ("foundationdb" if plan.cluster_file else "embedded"),
        "OPTIONS": {"cluster_file": plan.cluster_file} if plan.cluster_file else place,
        "PREFIX": prefix,
        "QUEUES": dict.fromkeys(names, options),
    }
    with utils.override_settings(FDBQUEUE=setting):
        try:
            yield setting
        finally:
            clear(conf.database(), fdb.tuple.pack(prefix))


def _timed(client: Any, address: str, turns: int) -> Callable[[], float]:
    """Return what measures the median time of a page in milliseconds."""

    def measure() -> float:
        times = []
        for _ in range(turns):
            start = time.perf_counter()
            response = client.get(address)
            times.append(time.perf_counter() - start)
            assert response.status_code == 200
        return statistics.median(times) * 1000

    return measure


BENCHMARKS = (
    Benchmark("pages", queue_page),
    Benchmark("list", queue_list),
    Benchmark("across", across),
)
