"""Clients that leave before their request has its turn."""

from __future__ import annotations

import contextlib
import select

import pytest
import requests

from tests.concurrency.clients import together
from tests.engines.children import wait_until
from tests.live import gate
from tests.live.client import Client
from tests.live.server import DEADLINE_SECONDS, THREADS, Server

pytestmark = pytest.mark.skipif(
    not hasattr(select, "POLLRDHUP"), reason="only Linux tells that the other end has closed"
)


@pytest.fixture
def gated(tmp_path, prepared):
    """A server of one worker whose threads the test may hold."""
    with Server(
        tmp_path,
        settings="tests.live.gated_settings",
        environment={gate.FOLDER: str(tmp_path)},
        config="tests.live.one_worker_conf",
        tables=prepared.tables,
    ) as running:
        yield running


@pytest.mark.parametrize("verb", ["pop", "lease"])
@pytest.mark.parametrize("body", [{}, {"limit": 3, "wait": 20}])
def test_nothing_is_taken_for_clients_that_left_before_their_turn(
    gated, tmp_path, token, name, verb, body
):
    """Twenty ask while all threads are busy, and go: their items are all still there."""

    def hold():
        requests.get(gated.api, headers={gate.HEADER: "1"}, timeout=DEADLINE_SECONDS)

    def ask_and_go():
        with contextlib.ExitStack() as opened:
            opened.callback((tmp_path / gate.OPEN).touch)
            wait_until(lambda: len(list(tmp_path.glob("held-*"))) == THREADS)
            for _ in range(20):
                client.send(f"{name}/{verb}/", body, key="key").close()

    with Client(gated.api, token) as client:
        client.post(f"{name}/push/", {"items": [{"value": number} for number in range(60)]})
        together(THREADS + 1, lambda n: ask_and_go() if n == THREADS else hold())
        wait_until(lambda: len(gated.answered(f"{name}/{verb}/")) == 20)
        counts = client.get(f"{name}/")["counts"]
        assert counts == {"ready": 60, "leased": 0, "delayed": 0, "dead": 0}
        taken = client.post(f"{name}/{verb}/", body, key="key")["items"]
        assert [item["value"] for item in taken] == list(range(body.get("limit", 1)))
