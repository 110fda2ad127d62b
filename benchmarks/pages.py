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
        yield from _of_tasks(plan, client)


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
    count = plan.sized(1_000, 1_000, 20)
    with _ran_and_scheduled(plan, count):
        for page in OF_TASKS:
            yield compare(
                f"{page}, {count:,} functions, 500 schedules",
                _timed(client, f"{LIST}{page}", plan.turns(TURNS)),
                lambda: float(ACROSS_BAR_MS),
                peer_name="bar",
                unit="ms",
                bar="at most 1.0",
                rounds=plan.rounds(5),
            )


@contextlib.contextmanager
def _ran_and_scheduled(plan: Plan, count: int) -> Iterator[None]:
    """Let so many functions have run in each slot of the last hour and day; and 500 schedules."""
    from django.test import utils

    from fdbqueue.service import now_us, run
    from fdbqueue.tasks.compat import task_backends

    call = {"task": "fdbqueue.nothing", "every": 60, "queue_name": "default"}
    options = {"schedules": {f"schedule {number}": call for number in range(500)}}
    backend = {"BACKEND": "fdbqueue.tasks.FdbQueueBackend", "OPTIONS": options}
    with utils.override_settings(TASKS={"default": backend}), _queues(plan, ["q"]):
        ours: Any = task_backends["default"]
        ours.queue("default").push({})  # a queue of tasks is listed once it has had one
        counters, now = ours.records.functions, now_us()
        for hours in range(25):
            ended = now - hours * 3_600_000_000

            def add(tr: Any, ended: int = ended) -> None:
                for number in range(count):
                    path = f"project.module{number % 40}.function{number}"
                    for minutes in (0, 20, 40):
                        at = ended - minutes * 60_000_000
                        counters.count(tr, "tasks-default", path, at, at - number, failed=False)

            run(ours.catalog.database, add)
        yield


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
