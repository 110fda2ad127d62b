"""The health check of the queues: which are blocked, told to monitors alone."""

from __future__ import annotations

import logging

import pytest
from django.test import Client

from fdbqueue import access
from fdbqueue.exceptions import CorruptItem
from tests.api import silent_engine
from tests.commands.spoiling import spoil

ADDRESS, READY = "/health/queues/", "/health/ready/"
TOKEN = "a-token-of-some-length"
PAUSED = {
    "reason": "paused",
    "says": "Paused (0 s): Pops and leases find nothing until the queue is resumed.",
    "remedy": "manage.py queue_resume quakes",
}


@pytest.fixture
def monitor(settings):
    """A client with the token of the metrics."""
    settings.FDBQUEUE_METRICS_TOKEN = TOKEN
    return Client(headers={"Authorization": f"Bearer {TOKEN}"})


def test_no_queue_is_blocked(queues, monitor):
    """200, whether queues are empty, paused or full."""
    queues.queue("mail").push("x")
    queues.queue("quakes").pause()
    answer = monitor.get(ADDRESS)
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ok",
        "attention": {"quakes": [PAUSED]},
        "blocked": {},
        "complete": True,
    }


def test_blocked_queues(queues, monitor):
    """503 with their names and ends; the process is ready all the same."""
    mail, ranked = queues.queue("mail"), queues.queue("quakes")
    spoil(mail, mail.push("x"))
    ranked.push("low", 1)
    spoil(ranked, ranked.push("high", 2))
    answer = monitor.get(ADDRESS)
    assert answer.status_code == 503
    blocked = {"mail": ["min", "max"], "quakes": ["max"]}
    told = answer.json()
    reasons = {name: [one["reason"] for one in some] for name, some in told["attention"].items()}
    assert reasons == {"mail": ["blocked"], "quakes": ["blocked"]}
    assert (told["status"], told["blocked"], told["complete"]) == ("blocked", blocked, True)
    assert Client().get(READY).json() == {"status": "ok"}


def test_a_queue_that_is_mended_is_not_blocked(queues, monitor):
    """Once its bad item is buried, as queue_doctor --repair does."""
    mail = queues.queue("mail")
    item = mail.push("x")
    spoil(mail, item)
    with pytest.raises(CorruptItem):
        mail.pop()
    assert monitor.get(ADDRESS).status_code == 503
    mail.bury(item.id)
    assert monitor.get(ADDRESS).status_code == 200


def test_too_many_queues_of_patterns(queues, monitor, monkeypatch):
    """It says that it has not read all of them; those that have something come first."""
    monkeypatch.setattr(access, "MAX_PATTERNED", 2)
    monkeypatch.setattr("fdbqueue.columns.queue_rows.QUEUES_AT_ONCE", 2)
    for number in range(4):
        queues.queue(f"user-{number}").push("x")
    while queues.several(["user-*"]).pop():
        pass
    answer = monitor.get(ADDRESS).json()
    assert (answer["blocked"], answer["complete"]) == ({}, False)
    for number in (3, 2):
        queue = queues.queue(f"user-{number}")
        spoil(queue, queue.push("x"))
    answer = monitor.get(ADDRESS).json()
    assert list(answer["blocked"]) == ["user-2", "user-3"]
    assert answer["complete"] is False


def test_an_engine_that_is_away(settings, monitor, caplog):
    """503 without a reason; the log has it."""
    settings.FDBQUEUE = {"ENGINE": "tests.api.silent_engine", "QUEUES": {"mail": {"kind": "fifo"}}}
    silent_engine.timeouts_ms.clear()
    answer = monitor.get(ADDRESS)
    assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
    assert 0 < silent_engine.timeouts_ms[0] <= 5_000
    (record,) = [one for one in caplog.records if one.name == "fdbqueue.health.views"]
    assert (record.msg, record.levelno) == ("the engine is not ready", logging.WARNING)


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer wrong-token-of-some-length", TOKEN])
def test_nobody_reads_it_without_the_token(settings, queues, header):
    """401 and no body; nothing is read, and the answer is not kept."""
    settings.FDBQUEUE_METRICS_TOKEN = TOKEN
    answer = Client(headers={"Authorization": header} if header else {}).get(ADDRESS)
    assert (answer.status_code, answer.content) == (401, b"")
    assert answer["WWW-Authenticate"] == "Bearer"
    assert "no-store" in answer["Cache-Control"]
