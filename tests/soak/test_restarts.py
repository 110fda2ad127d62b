"""A cluster whose server is killed and started again while everything is at work.

``FDBQUEUE_CLUSTER_KILL`` and ``FDBQUEUE_CLUSTER_START`` are the commands that do it; the
second returns when the cluster answers.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
import time

import pytest

import fdbqueue
from tests.commands.conftest import ndjson, place, processes, queues, sigint
from tests.concurrency.clients import together
from tests.concurrency.kinds import KINDS
from tests.concurrency.test_killed import PROCESSES, THREADS, check_reported
from tests.engines.children import wait_until
from tests.live.client import Client
from tests.live.server import Server

__all__ = ["ndjson", "place", "processes", "queues", "sigint"]

KILL, START = (
    shlex.split(os.environ.get(f"FDBQUEUE_CLUSTER_{what}", "")) for what in ("KILL", "START")
)
pytestmark = pytest.mark.skipif(
    not (KILL and START and os.environ.get("FDB_CLUSTER_FILE")),
    reason="FDBQUEUE_CLUSTER_KILL and FDBQUEUE_CLUSTER_START are not set, or no cluster is",
)

RESTARTS = 3
ITEMS = 20_000
DEADLINE_SECONDS = 90


def kill():
    """Kill the server."""
    subprocess.run(KILL, check=True, timeout=DEADLINE_SECONDS, stdout=subprocess.DEVNULL)


def start_again():
    """Start it, and wait until it answers."""
    subprocess.run(START, check=True, timeout=DEADLINE_SECONDS, stdout=subprocess.DEVNULL)


@pytest.fixture(autouse=True)
def running():
    """Leave the cluster running."""
    yield
    start_again()


def read_until(child, is_over):
    """Return all that a process says until something is over, and kill it."""
    said = []
    for line in iter(child.line, ""):
        said.append(line)
        if is_over.is_set():
            break
    else:
        raise AssertionError("it ended by itself")
    return [json.loads(line) for line in [*said, *child.kill()]]


@pytest.mark.parametrize("engine", ["foundationdb"], indirect=True)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name != "fifo-bytes"], ids=str)
def test_processes_go_on(engine, subspace, start, kind):
    """Nobody sees an error, nothing acknowledged is lost, and nothing comes twice."""
    children = [start(kind, "toil", name=f"{n}-", threads=THREADS) for n in range(PROCESSES)]
    is_over = threading.Event()

    def restart():
        try:
            for _ in range(RESTARTS):
                time.sleep(1)  # of work
                kill()
                start_again()
            time.sleep(1)
        finally:
            is_over.set()

    def part(number):
        return restart() if number == PROCESSES else read_until(children[number], is_over)

    said = together(PROCESSES + 1, part)[:-1]
    check_reported(engine, subspace, kind, [fact for each in said for fact in each])


def records(file):
    """Return what a drain has written."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_push_is_resumed(processes, ndjson):
    """It ends with 4 in time, and --resume pushes the rest: each line once."""
    file = ndjson("".join(f"{number}\n" for number in range(ITEMS)))
    queue = fdbqueue.queue("mail")
    pushing = processes.start("queue_push", "mail", file, "--resume", "--engine-timeout=5")
    wait_until(lambda: queue.size() > 0)
    kill()
    begun = time.monotonic()
    done = processes.finish(pushing)
    assert time.monotonic() - begun < DEADLINE_SECONDS
    assert done.returncode == 4, done.stderr
    start_again()
    done = processes.run("queue_push", "mail", file, "--resume")
    assert done.returncode == 0, done.stderr
    assert [item.value for item in queue] == list(range(ITEMS))


@pytest.mark.parametrize("target", ["file", "queue"])
def test_a_drain_is_resumed(processes, tmp_path, target):
    """It ends with 4 in time, and the next one takes the rest: each item once."""
    queue, file = fdbqueue.queue("mail"), tmp_path / "drained.ndjson"
    for first in range(0, ITEMS, 1_000):
        queue.push_many(range(first, first + 1_000))
    arguments, lease = ["queue_move", "mail", "user-1", "--no-input", "--batch=100"], []
    if target == "file":
        arguments = ["queue_drain", "mail", "--output", str(file), "--batch=100"]
        lease = ["--lease-seconds=5"]
    draining = processes.start(*arguments, *lease, "--engine-timeout=5")
    wait_until(lambda: queue.size() < ITEMS)
    kill()
    done = processes.finish(draining)
    assert done.returncode == 4, done.stderr
    start_again()
    done = processes.run(*arguments, *(["--resume"] if target == "file" else []))
    assert done.returncode == 0, done.stderr
    if target == "file":
        values = [record["value"] for record in records(file)]
    else:
        values = [item.value for item in fdbqueue.queue("user-1")]
    assert sorted(values) == list(range(ITEMS))
    assert queue.size() == 0


@pytest.mark.parametrize(
    "command",
    [
        ["queue_push", "mail"],
        ["queue_pop", "mail"],
        ["queue_list"],
        ["queue_drain", "mail"],
        ["queue_doctor", "--timeout=10"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_while_it_is_away(processes, command):
    """It ends with 4 in a bounded time, and says that the engine does not answer."""
    kill()
    begun = time.monotonic()
    done = processes.run(*command, stdin=b"1\n")
    assert time.monotonic() - begun < DEADLINE_SECONDS
    assert done.returncode == 4
    assert "engine does not answer" in done.stderr
    assert "Traceback" not in done.stderr


def test_requests_while_it_is_away(tmp_path):
    """They are 503 in time, and served again when it is back; each push is there once."""
    with (
        Server(tmp_path) as server,
        Client(server.api, server.manage("demo", "--token").strip()) as client,
    ):
        assert client.ask("user-1/push/", {"value": 1}, key="first").status_code == 201
        kill()
        begun = time.monotonic()
        refused = [
            client.ask("user-1/push/", {"value": 2}, key="second"),
            client.ask("user-1/pop/", {}, key="third"),
            client.ask("user-1/peek/"),
            client.ask("user-1/"),
        ]
        assert time.monotonic() - begun < DEADLINE_SECONDS
        assert [response.status_code for response in refused] == [503] * 4
        assert all("Retry-After" in response.headers for response in refused)
        start_again()
        assert client.ask("user-1/push/", {"value": 2}, key="second").status_code == 201
        popped = client.post("user-1/pop/", {"limit": 10}, key="fourth")["items"]
        assert [item["value"] for item in popped] == [1, 2]
