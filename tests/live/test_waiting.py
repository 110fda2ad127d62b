"""Long polls: each holds its own thread, and none when its client has gone."""

from __future__ import annotations

import select
import socket

import pytest

from tests.concurrency.clients import together
from tests.engines.children import wait_until
from tests.live.server import THREADS, WORKERS
from tests.live.setting import MAX_WAIT_SECONDS

needs_signs = pytest.mark.skipif(
    not hasattr(select, "POLLRDHUP"), reason="only Linux tells that the other end has closed"
)


@needs_signs
@pytest.mark.parametrize("verb", ["pop", "lease"])
def test_a_client_that_has_gone_takes_nothing(server, client, name, verb):
    """Its long poll ends long before its time, and the next item is still there."""
    client.send(f"{name}/{verb}/", {"wait": MAX_WAIT_SECONDS}).close()
    wait_until(lambda: server.answered(f"{name}/{verb}/"))
    pushed = client.post(f"{name}/push/", {"value": "late"})
    assert client.get(f"{name}/peek/") == {"items": [pushed]}


@needs_signs
def test_a_client_that_half_closes_is_taken_for_gone(server, client, name):
    """One that says it will send no more does not wait for an answer here."""
    with client.send(f"{name}/pop/", {"wait": MAX_WAIT_SECONDS}) as connection:
        connection.shutdown(socket.SHUT_WR)
        wait_until(lambda: server.answered(f"{name}/pop/"))


def test_as_many_wait_as_there_are_threads(server, client_of, queue, name):
    """A poll in each thread: pushes from elsewhere serve all of them, one after the other."""
    count = WORKERS * THREADS
    clients = [client_of() for _ in range(count)]

    def push():
        for number in range(count):
            queue.push(number)
            wait_until(lambda number=number: len(server.answered(f"{name}/pop/")) > number)

    def poll_or_push(number):
        if number == count:
            return push()
        return clients[number].post(f"{name}/pop/", {"wait": 50})["items"]

    *found, _ = together(count + 1, poll_or_push)
    assert sorted(item["value"] for items in found for item in items) == list(range(count))


def test_others_are_served_while_one_waits(client_of, name):
    """A push over HTTP comes to a client that waits, over HTTP, for it."""
    waiting, pushing = client_of(), client_of()
    found, pushed = together(
        2,
        lambda n: (
            waiting.post(f"{name}/pop/", {"wait": 50})
            if n == 0
            else pushing.post(f"{name}/push/", {"value": 1})
        ),
    )
    assert found == {"items": [pushed]}
