"""The REST API beside a bare view, batches beside single items; pages of few items beside many.

The API's client is one thread over kept connections: it sends the same bytes again and again, and
looks at no more of an answer than its length and its status.

Of a page each round is a request through Django's test client, by somebody who is logged in, up to
the last byte of the page.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import secrets
import selectors
import socket
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import fdb.tuple

from benchmarks.measure import Line, compare
from benchmarks.plan import Benchmark, Plan, clear
from benchmarks.queues import SMALL
from tests.live.server import THREADS, WORKERS, Server

BATCH, FILL = 100, 500
REQUESTS = 200
ROUNDS = 15
_ANSWER_TIMEOUT_SECONDS = 60
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_WORKER = re.compile(rb"\r\nx-worker: (\d+)", re.IGNORECASE)
_NOTHING = b'{"items":[]}'
_MAKE_TOKEN = "from benchmarks.http_urls import make_token; print(make_token())"


class Connection:
    """A kept connection, and the answer that is coming over it."""

    def __init__(self, address: str) -> None:
        server = urlsplit(address)
        place = server.hostname, server.port
        self.socket = socket.create_connection(place, _ANSWER_TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answer = b""

    def fileno(self) -> int:
        """Return its number, for a selector."""
        return self.socket.fileno()

    def receive(self) -> tuple[bytes, bytes] | None:
        """Return the head and the body once all of the answer is there."""
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the server has closed the connection")
        self._answer += data
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not end:
            return None
        length = _LENGTH.search(head + b"\r\n")
        if length is None or not head.startswith(b"HTTP/1.1 2"):
            raise ValueError(self._answer[:1_000])
        if len(body) < int(length[1]):
            return None
        self._answer = b""
        return head, body


class Client:
    """A client of one server, with a connection to each thread of each worker.

    Args:
        address: The server's.
        token: Its user's.
    """

    def __init__(self, address: str, token: str) -> None:
        self._address, self._token = address, token
        self._connections = list(self._connect())

    def _connect(self) -> Iterator[Connection]:
        request, met = self.request("/bare/"), Counter[bytes]()
        while met.total() < WORKERS * THREADS:
            connection = Connection(self._address)
            connection.socket.sendall(request)
            answer = None
            while answer is None:
                answer = connection.receive()
            found = _WORKER.search(answer[0])
            if found is not None and met[found[1]] < THREADS:
                met[found[1]] += 1
                yield connection
            else:
                connection.socket.close()

    def request(self, path: str, body: Any = None) -> bytes:
        """Return the bytes of a GET, or of a POST where there is a body."""
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\n"
            f"Host: {urlsplit(self._address).netloc}\r\n"
            f"Authorization: Token {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        return head.encode() + content

    def rate(self, request: bytes, count: int) -> float:
        """Return how many of ``count`` requests are answered a second, over all connections.

        Raises:
            ValueError: There was an error, or nothing to take.
            TimeoutError: No answer came for a minute.
        """
        with selectors.DefaultSelector() as selector:
            start = time.perf_counter()
            for connection in self._connections:
                selector.register(connection, selectors.EVENT_READ)
                connection.socket.sendall(request)
            sent, answered = len(self._connections), 0
            while answered < count:
                ready = selector.select(_ANSWER_TIMEOUT_SECONDS)
                if not ready:
                    raise TimeoutError("the server has stopped answering")
                for key, _ in ready:
                    connection = key.fileobj
                    answer = connection.receive()
                    if answer is None:
                        continue
                    if answer[1] == _NOTHING:
                        raise ValueError("there was nothing to take")
                    answered += 1
                    if sent < count:
                        connection.socket.sendall(request)
                        sent += 1
            return count / (time.perf_counter() - start)

    def fill(self, queue: str, count: int) -> None:
        """Push at least so many items."""
        items = {"items": [{"value": SMALL}] * FILL}
        request = self.request(f"/api/queues/{queue}/push/", items)
        self.rate(request, max(len(self._connections), -(-count // FILL)))

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            connection.socket.close()


@contextlib.contextmanager
def _client(plan: Plan) -> Iterator[Client]:
    """Give a client of a server of its own, as in production."""
    environment = {
        "DJANGO_ALLOWED_HOSTS": "127.0.0.1",
        "DJANGO_DEBUG": "0",
        "DJANGO_HTTPS": "0",
        "DJANGO_SECRET_KEY": secrets.token_urlsafe(50),
        "PYTHONWARNINGS": "default",
    }
    with Server(plan.folder, "benchmarks.http_settings", environment) as server:
        token = server.manage("shell", "--no-imports", "--command", _MAKE_TOKEN).strip()
        client = Client(server.address, token)
        try:
            yield client
        finally:
            client.close()


def requests(plan: Plan) -> Iterator[Line]:
    """Requests a second, beside a bare view with the same users."""
    rounds, count = plan.rounds(ROUNDS), plan.sized(REQUESTS, REQUESTS, 8)
    with _client(plan) as client:
        client.fill("quakes", 1_000)
        client.fill("mail", rounds * count)
        bare, peek = client.request("/bare/"), client.request("/api/queues/quakes/peek/?end=max")
        bodies = {
            "peek": peek,
            "pop": client.request("/api/queues/mail/pop/", {}),
            "push": client.request("/api/queues/mail/push/", {"value": SMALL}),
        }
        for verb, request in bodies.items():
            yield compare(
                f"HTTP {verb}",
                lambda request=request: client.rate(request, count),
                lambda: client.rate(bare, count),
                peer_name="bare DRF view",
                unit="/s",
                bar="at least 0.6" if verb == "peek" else "no bar",
                rounds=rounds,
            )
        without_users = client.request("/open/")
        yield compare(
            "HTTP peek",
            lambda: client.rate(peek, count),
            lambda: client.rate(without_users, count),
            peer_name="bare view without users",
            unit="/s",
            bar="no bar",
            rounds=rounds,
        )


def batches(plan: Plan) -> Iterator[Line]:
    """Items a second in batches of 100, beside one by one."""
    rounds, count = plan.rounds(ROUNDS), plan.sized(REQUESTS, REQUESTS, 8)
    times = plan.sized(REQUESTS // 10, REQUESTS // 10, 8)
    with _client(plan) as client:
        client.fill("mail", rounds * (count + times * BATCH))
        path, items = "/api/queues/mail", [{"value": SMALL}] * BATCH
        for verb, many, one in (
            ("pop", {"limit": BATCH}, {}),
            ("push", {"items": items}, {"value": SMALL}),
        ):
            batch, single = (client.request(f"{path}/{verb}/", body) for body in (many, one))
            yield compare(
                f"HTTP {verb} by {BATCH}",
                lambda batch=batch: client.rate(batch, times) * BATCH,
                lambda single=single: client.rate(single, count),
                peer_name="one by one",
                unit="items/s",
                bar="at least 10",
                rounds=rounds,
            )


LIST = "/admin/fdbqueue/queuename/"
MANY, FEW = 1_000_000, 1_000
QUEUES = 500
PAGES_ROUNDS = 9
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
                rounds=plan.rounds(PAGES_ROUNDS),
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
        what = f"{count:,} workers, {100 * len(names):,} leases"
        yield _beside_bar(plan, client, ACROSS[0], what)


def _beside_bar(plan: Plan, client: Any, page: str, what: str) -> Line:
    """Measure a page across queues beside how long it may take."""
    return compare(
        f"{page}, {what}",
        _timed(client, f"{LIST}{page}", plan.turns(TURNS)),
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
            yield _beside_bar(plan, client, page, what)

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
    Benchmark("http", requests),
    Benchmark("http-batches", batches),
    Benchmark("pages", queue_page),
    Benchmark("list", queue_list),
    Benchmark("across", across),
)
