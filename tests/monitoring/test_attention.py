"""All that say why a queue does not move say it in the same words, with the same remedy."""

from __future__ import annotations

import html
import json
import re

import pytest
from django.test import Client

from tests.called import called
from tests.injection import time_ahead
from tests.pages.addresses import LIST, of, text
from tests.pages.conftest import person
from tests.presences import write_rows

TOKEN = "a-token-of-some-length"
ANNA = {"name": "anna", "kind": "items", "serves": "mail"}
SAID = {
    "lost": (
        (
            "No worker: lost (anna, 1 min): Items can be taken, and every worker of the queue is "
            "lost: it was killed, hangs, or does not reach the engine. Start one."
        ),
        "manage.py queue_work mail --handler PATH",
    ),
    "lost_leases": (
        (
            "Leases of a lost worker (anna, 1): A worker that is lost holds items until its leases "
            "end. Give them back."
        ),
        "manage.py queue_give_back mail --worker anna",
    ),
}


@pytest.fixture
def monitor(settings):
    """A client with the token of the metrics."""
    settings.FDBQUEUE_METRICS_TOKEN = TOKEN
    return Client(headers={"Authorization": f"Bearer {TOKEN}"})


@pytest.fixture
def killed(queues):
    """A queue whose only worker was killed while it held one of two items."""
    with time_ahead(-80):
        queues.queue("mail").push_many("ab")
        queues.queue("mail").lease(seconds=1_800, worker="anna")
    write_rows(queues.presences, ANNA, silent_seconds=60)


@pytest.mark.django_db
def test_a_queue_whose_worker_was_killed(killed, monitor):
    """The doctor, the health check, the metrics, the list and the page of the queue."""
    lines = [json.loads(one) for one in called("queue_doctor", "mail", "--json").splitlines()]
    found = [(one["detail"], one["remedy"]) for one in lines if one["check"] == "attention"]
    assert [(text, f"manage.py {remedy}") for text, remedy in found] == [*SAID.values()]

    answer = monitor.get("/health/queues/")
    assert (answer.status_code, answer.json()["status"]) == (503, "stands still")
    told = answer.json()["attention"]["mail"]
    assert {one["reason"]: (one["says"], one["remedy"]) for one in told} == SAID

    metrics = monitor.get("/metrics/").content.decode()
    assert re.findall(r'fdbqueue_attention\{queue="mail",reason="(\w+)"\} 1.0', metrics) == [*SAID]

    viewer = person("viewer", "view_queue")
    shown = html.unescape(text(viewer.get(LIST)))
    page = html.unescape(text(viewer.get(of("mail"))))
    for name, (words, remedy) in SAID.items():
        label, figure, meaning = re.fullmatch(r"(.*?) \((.*?)\): (.*)", words).groups()
        group = shown.partition(f'"fdbqueue-concern-{name}"')[2].partition("</div>")[0]
        assert f'title="{meaning}">{label}<' in group
        assert f">{figure}<" in group
        banner = page.partition(f'id="concern-{name}"')[2].partition("</div>")[0]
        assert f"{meaning}</p>" in banner
        assert f">python {remedy}</code>" in banner
    assert "no worker: lost, leases of a lost worker" in called("queue_list", "mail")


def test_a_queue_that_moves(queues, monitor):
    """No sample, and 200."""
    queues.queue("mail").push("a")
    assert monitor.get("/health/queues/").json()["attention"] == {}
    assert 'fdbqueue_attention{queue="mail"' not in monitor.get("/metrics/").content.decode()
