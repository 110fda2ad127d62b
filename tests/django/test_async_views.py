"""Queues in async views, through ASGI; and clients who go away meanwhile."""

from __future__ import annotations

import asyncio
import contextvars

import pytest
from asgiref.testing import ApplicationCommunicator
from django.core.asgi import get_asgi_application
from django.test import AsyncClient

import fdbqueue
from fdbqueue import testing
from tests.django import async_views

LONG_SECONDS = 240
VALUES = [{"a": 1}, {"b": 1}]
QUEUES = {"mail": {"kind": "fifo"}, "orders": {"kind": "fifo"}}

pytestmark = pytest.mark.urls("tests.django.async_views")


@pytest.fixture(autouse=True)
def queues():
    """Queues of the test's own."""
    async_views.left_by.clear()
    with testing.empty_queues(QUEUES) as catalog:
        yield catalog


def run(coroutine):
    """Run a coroutine that must not take too long, in a context of its own.

    At each step between threads asgiref hands on all that a context holds, and that of the tests
    holds what thousands of others have left in it.
    """

    async def bounded():
        return await asyncio.wait_for(coroutine, LONG_SECONDS)

    return contextvars.Context().run(asyncio.run, bounded())


async def until(condition):
    """Return once a condition holds that no event tells of; fail after half a minute."""
    for _ in range(30_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    pytest.fail("it did not happen in time")


def waits(name):
    """Return how many calls wait for the items of a queue."""
    return fdbqueue.queue(name).parts.group.watch.waiting


def request_of(path, query=b""):
    """Return what ASGI tells of a request."""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "query_string": query,
        "headers": [(b"host", b"testserver")],
    }


def test_views_push_pop_and_look():
    """Through the test client for ASGI."""

    async def work():
        client = AsyncClient()
        for value in VALUES:
            response = await client.post("/push/", data=value, content_type="application/json")
            assert response.status_code == 201
            assert response.json()["id"]
        assert (await client.get("/everything/")).json() == {"values": VALUES, "size": 2}
        assert (await client.get("/pop/?wait=0")).json() == {"value": {"a": 1}}
        assert (await client.get("/pop/?wait=0")).json() == {"value": {"b": 1}}
        assert (await client.get("/pop/?wait=0.01")).json() == {"value": None}

    run(work())


def test_a_client_that_goes_away_takes_nothing():
    """Django cancels its view; the next item is for somebody else."""

    async def work():
        connection = ApplicationCommunicator(
            get_asgi_application(), request_of("/pop/", b"wait=200")
        )
        await connection.send_input({"type": "http.request", "body": b""})
        await until(lambda: waits("mail"))
        await connection.send_input({"type": "http.disconnect"})
        await connection.wait(LONG_SECONDS)
        assert not waits("mail")
        await fdbqueue.queue("mail").apush("x")

    run(work())
    assert testing.values("mail") == ["x"]


def test_a_client_that_goes_away_gives_its_lease_up():
    """The block is left by the cancellation, and the item is back."""

    async def work():
        await fdbqueue.queue("mail").apush("x")
        connection = ApplicationCommunicator(get_asgi_application(), request_of("/toil/"))
        await connection.send_input({"type": "http.request", "body": b""})
        await until(lambda: waits("orders"))
        await connection.send_input({"type": "http.disconnect"})
        await connection.wait(LONG_SECONDS)

    run(work())
    assert async_views.left_by == ["CancelledError"]
    (item,) = fdbqueue.queue("mail")
    assert (item.value, item.attempts) == ("x", 1)
