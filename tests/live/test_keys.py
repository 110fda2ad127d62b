"""Idempotency keys: over two connections at once, and after a lost answer."""

from __future__ import annotations

import secrets

import pytest

from tests.concurrency.clients import together
from tests.engines.children import wait_until

ROUNDS = 100
REPLAYED = "Idempotent-Replayed"


@pytest.fixture
def rivals(client_of):
    """Two clients, each connected to another worker."""
    clients, workers = [], []

    def both_are_met():
        clients.append(client_of())
        workers.append(clients[-1].worker())
        return len(set(workers)) > 1

    wait_until(both_are_met)
    return clients[0], clients[-1]


def race(rivals, path, body):
    """Let both make a request under one key, and return the one answer of both."""
    key = secrets.token_hex(8)
    first, second = together(2, lambda n: rivals[n].ask(path, body, key))
    assert first.ok, first.text
    assert first.json() == second.json()
    assert first.status_code == second.status_code
    assert first.headers["X-Worker"] != second.headers["X-Worker"]
    assert [REPLAYED in first.headers, REPLAYED in second.headers].count(True) == 1
    return first.json()


@pytest.mark.parametrize("verb", ["pop", "lease"])
def test_one_item_for_two_with_one_key(rivals, client, name, verb):
    """Two that race take one item between them, in every round."""
    items = [{"value": number} for number in range(2 * ROUNDS)]
    client.post(f"{name}/push/", {"items": items})
    found = [race(rivals, f"{name}/{verb}/", {})["items"] for _ in range(ROUNDS)]
    assert [[item["value"] for item in each] for each in found] == [[n] for n in range(ROUNDS)]
    assert client.get(f"{name}/")["counts"]["ready"] == ROUNDS


def test_the_key_recovers_a_lost_answer(server, client, name):
    """The item that was popped for a client that left without it is there for its second try."""
    pushed = client.post(f"{name}/push/", {"value": "kept"})
    with client.send(f"{name}/pop/", {}, key="mine"):  # one that never reads the answer
        wait_until(lambda: server.answered(f"{name}/pop/"))
    assert client.post(f"{name}/pop/", {}) == {"items": []}
    again = client.ask(f"{name}/pop/", {}, key="mine")
    assert again.headers[REPLAYED] == "true"
    assert again.json() == {"items": [pushed]}
