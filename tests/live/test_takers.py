"""Many clients at once: each item comes once, whoever dies and whoever asks again."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import signal
import threading

import pytest

from tests.concurrency.clients import together
from tests.engines.children import wait_until
from tests.live.client import persistent_post
from tests.live.server import ROOT

EARTHQUAKES = (ROOT / "project/sample_data/earthquakes.ndjson").read_text().splitlines()
CLIENTS = 16


@pytest.fixture
def earthquakes(client):
    """A queue of 1,707 earthquakes, pushed over HTTP."""
    name = f"quakes-{secrets.token_hex(8)}"
    records = [json.loads(line) for line in EARTHQUAKES]
    entries = [{"value": record, "priority": record["magnitude"]} for record in records]
    for start in range(0, len(entries), 1_000):
        client.post(f"{name}/push/", {"items": entries[start : start + 1_000]})
    return name


def popped(client, name):
    """Pop until nothing is left, and return the ids of the earthquakes."""
    found = []
    while items := client.post(f"{name}/pop/", {"end": "max"})["items"]:
        found += [item["value"]["id"] for item in items]
    return found


def leased(client, name):
    """Lease and acknowledge until nothing is left, and return the ids of the earthquakes."""
    found = []
    while items := client.post(f"{name}/lease/", {"limit": 3, "seconds": 600})["items"]:
        leases = [item["lease"] for item in items]
        assert client.post(f"{name}/ack/", {"leases": leases}) == {
            "acked": len(items),
            "lost": 0,
            "lost_leases": [],
        }
        found += [item["value"]["id"] for item in items]
    return found


@pytest.mark.parametrize(
    "take", [pytest.param(popped, marks=pytest.mark.nightly), leased], ids=["popped", "leased"]
)
def test_16_clients_take_each_earthquake_once(client_of, client, earthquakes, take):
    """1,707 are pushed, 1,707 different ones are taken, and the queue is empty."""
    clients = [client_of() for _ in range(CLIENTS)]
    found = together(CLIENTS, lambda n: take(clients[n], earthquakes))
    expected = sorted(json.loads(line)["id"] for line in EARTHQUAKES)
    assert sorted(itertools.chain.from_iterable(found)) == expected
    counts = client.get(f"{earthquakes}/")["counts"]
    assert counts == {"ready": 0, "leased": 0, "delayed": 0, "dead": 0}


def test_the_death_of_workers_loses_nothing(server, client_of, client):
    """Clients whose worker is killed ask again under their keys, and each item comes once."""
    name, count = f"killed-{secrets.token_hex(8)}", 800
    client.post(f"{name}/push/", {"items": [{"value": number} for number in range(count)]})
    workers = server.workers[-2:]
    clients = [client_of() for _ in range(8)]
    taken, broken, lock = [], [], threading.Lock()

    def pop_all(client):
        while len(taken) < count:
            answer, breaks = persistent_post(client, f"{name}/pop/", {"wait": 1})
            with lock:
                taken.extend(item["value"] for item in answer["items"])
                broken.append(breaks)

    def kill():
        for number, worker in enumerate(workers, 1):
            wait_until(lambda number=number: len(taken) > number * count // 4)
            os.kill(worker, signal.SIGKILL)

    together(len(clients) + 1, lambda n: kill() if n == len(clients) else pop_all(clients[n]))
    assert sorted(taken) == list(range(count))
    assert sum(broken) > 0
    assert len(set(server.workers) - set(workers)) >= len(workers)
