"""Gunicorn's workers, forked before or after the project is loaded: each opens for itself."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.live.client import Client
from tests.live.server import DEADLINE_SECONDS, WORKERS, Server
from tests.live.worker import HEADER

PRELOAD = {"GUNICORN_CMD_ARGS": "--preload"}
#: Who opens it in the master: a queue, or the project with the binding, past fdbqueue.
OPENERS = pytest.mark.parametrize("opener", ["queue", "binding"])
METRICS_TOKEN = "a-token-of-some-length"
needs_cluster = pytest.mark.skipif(
    not os.environ.get("FDB_CLUSTER_FILE"), reason="no cluster: FDB_CLUSTER_FILE is not set"
)


@pytest.fixture
def serve(tmp_path, prepared):
    """Start a server: ``serve(settings, **environment)``."""
    with ExitStack() as stack:

        def start(settings="tests.live.server_settings", **environment):
            given = {"FDBQUEUE_TEST_OPENED": str(tmp_path / "opened"), **environment}
            server = Server(tmp_path, settings, given, tables=prepared.tables)
            return stack.enter_context(server)

        yield start


def clients_of_each_worker(stack, server, token):
    """Connect until there is a client of each worker, and return them by its number."""
    found = {}
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(found) < WORKERS:
        assert time.monotonic() < deadline, "only one worker answers"
        client = stack.enter_context(Client(server.api, token))
        found.setdefault(client.worker(), client)
    return found


def push_and_pop_in_turn(server, token):
    """Let each worker push, and pop what another has pushed; return the workers."""
    with ExitStack() as stack:
        clients = clients_of_each_worker(stack, server, token)
        for number, client in enumerate(clients.values()):
            client.post("mail/push/", {"value": number})
        popped = [
            client.post("mail/pop/", {})["items"][0]["value"]
            for client in reversed(clients.values())
        ]
    assert sorted(popped) == list(range(WORKERS))
    return set(clients)


@pytest.mark.parametrize("arguments", [{}, PRELOAD], ids=["loaded-late", "preload"])
def test_each_worker_answers(serve, token, arguments):
    """On the engine of the settings, with the project loaded before the fork and after it."""
    server = serve(**arguments)
    assert push_and_pop_in_turn(server, token) <= set(server.workers)
    assert "Traceback" not in server.errors


def test_the_embedded_engine_may_be_opened_before_the_fork(serve, token):
    """It is closed for the fork, and opened again in each worker."""
    if os.environ.get("FDB_CLUSTER_FILE"):
        pytest.skip("the settings name a cluster")
    server = serve("tests.live.opening_settings", **PRELOAD)
    assert push_and_pop_in_turn(server, token) <= set(server.workers)
    assert "Traceback" not in server.errors


@pytest.mark.parametrize("arguments", [{}, PRELOAD], ids=["loaded-late", "preload"])
def test_the_cluster_is_opened_by_the_workers_alone(serve, token, tmp_path, arguments):
    """Once in each, and never in the master: over a stand-in for the binding."""
    server = serve("tests.live.binding_settings", **arguments)
    workers = push_and_pop_in_turn(server, token)
    opened = [int(line) for line in (tmp_path / "opened").read_text().split()]
    assert sorted(opened) == sorted(workers)


def refusals(server, token):
    """Ask each worker once, and return the codes of its answers."""
    found = {}
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(found) < WORKERS:
        assert time.monotonic() < deadline, "only one worker answers"
        answer = requests.get(
            f"{server.api}/mail/peek/",
            headers={"Authorization": f"Token {token}"},
            timeout=DEADLINE_SECONDS,
        )
        found[answer.headers[HEADER]] = (answer.status_code, answer.json()["code"])
    return set(found.values())


@OPENERS
def test_a_cluster_opened_before_the_fork_is_a_clear_error(serve, token, opener):
    """Each worker answers 503 with its code, says why in the log, and does not hang."""
    server = serve("tests.live.binding_settings", FDBQUEUE_TEST_OPENS=opener, **PRELOAD)
    assert refusals(server, token) == {(503, "forked_engine")}
    assert "the cluster was opened before a fork" in server.errors
    assert requests.get(f"{server.address}/health/ready/", timeout=60).status_code == 503
    assert requests.get(f"{server.address}/health/live/", timeout=60).status_code == 200


@needs_cluster
@OPENERS
def test_a_real_cluster_opened_before_the_fork_is_a_clear_error(serve, token, opener):
    """The same with FoundationDB's own binding, whose network thread is the master's."""
    server = serve("tests.live.opening_settings", FDBQUEUE_TEST_OPENS=opener, **PRELOAD)
    assert refusals(server, token) == {(503, "forked_engine")}


def scrape(server):
    """Return who answered, how many pushes there were, and whether the engine is up."""
    answer = requests.get(
        f"{server.address}/metrics/",
        headers={"Authorization": f"Bearer {METRICS_TOKEN}"},
        timeout=DEADLINE_SECONDS,
    )
    found = {
        (sample.name, sample.labels.get("queue"), sample.labels.get("operation")): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    pushes = found["fdbqueue_operation_seconds_count", "mail", "push"]
    return answer.headers[HEADER], pushes, found["fdbqueue_engine_up", None, None]


@pytest.mark.parametrize("arguments", [{}, PRELOAD], ids=["loaded-late", "preload"])
def test_metrics_are_of_all_workers_whoever_answers(serve, token, tmp_path, arguments):
    """With a folder that they share, each scrape counts what every worker has done."""
    folder = tmp_path / "metrics"
    folder.mkdir()
    server = serve(
        PROMETHEUS_MULTIPROC_DIR=str(folder), FDBQUEUE_METRICS_TOKEN=METRICS_TOKEN, **arguments
    )
    push_and_pop_in_turn(server, token)
    seen = {}
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(seen) < WORKERS:
        assert time.monotonic() < deadline, f"only {sorted(seen)} could answer"
        worker, pushes, up = scrape(server)
        if up:  # else the engine was too busy to answer in a scrape's time
            seen[worker] = pushes
    assert set(seen.values()) == {WORKERS}
