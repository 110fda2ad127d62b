"""Deadlines: a request is answered in its time, whatever the engine does."""

from __future__ import annotations

import fcntl
import os

import pytest

from fdbqueue import conf, deadlines
from fdbqueue.exceptions import DeadlineExceeded
from tests.api import silent_engine
from tests.api.test_errors import MAIL, check_shape, each_request
from tests.concurrency.clients import together

SILENT = "tests.api.silent_engine"
KEYED = {"Idempotency-Key": "key"}


@pytest.fixture
def silent(settings):
    """An engine that never answers; the timeouts of its transactions, in milliseconds."""
    api = {"TIMEOUT_SECONDS": 0.25}
    settings.FDBQUEUE = {"ENGINE": SILENT, "QUEUES": MAIL, "API": api}
    silent_engine.timeouts_ms.clear()
    yield silent_engine.timeouts_ms
    silent_engine.timeouts_ms.clear()


@each_request
def test_an_engine_that_never_answers(root, silent, method, path, body):
    """Every endpoint gives up in time, and says when to try again."""
    response = getattr(root(), method)(path, body)
    check_shape(response, 503, "deadline_exceeded")
    assert response.json().keys() == {"code", "message"}
    assert int(response["Retry-After"]) > 0
    assert silent
    assert all(0 < timeout_ms <= 250 for timeout_ms in silent)


@pytest.mark.parametrize("verb", ["push", "pop", "lease"])
def test_a_keyed_request_to_an_engine_that_never_answers(root, silent, verb):
    """A key changes nothing about it."""
    body = {"value": 1} if verb == "push" else {"wait": 1}
    response = root().post(f"/api/queues/mail/{verb}/", body, headers=KEYED)
    check_shape(response, 503, "deadline_exceeded")
    assert all(0 < timeout_ms <= 250 for timeout_ms in silent)


class Stopwatch:
    """Takes the place of the clock for the deadlines."""

    def __init__(self):
        self.seconds = 1_000.0

    def __call__(self):
        """Return the seconds."""
        return self.seconds


def test_the_time_is_that_of_the_whole_request(silent, monkeypatch):
    """Transactions may begin within it, each with all of the timeout; after it, none may."""
    watch = Stopwatch()
    monkeypatch.setattr("fdbqueue.deadlines.monotonic", watch)
    for _ in range(2):  # the second request begins anew
        database = deadlines.limited_catalog(2).database
        for _ in range(3):
            database.create_transaction()
            watch.seconds += 0.75
        with pytest.raises(DeadlineExceeded):
            database.create_transaction()
    assert silent == [2_000] * 6


def test_waiting_comes_on_top_of_the_time(silent, monkeypatch):
    """After a wait the engine has all of its time, and each transaction no more than that."""
    watch = Stopwatch()
    monkeypatch.setattr("fdbqueue.deadlines.monotonic", watch)
    database = deadlines.limited_catalog(2, 20).database
    for waited in (0, 20, 1.5):
        watch.seconds += waited
        database.create_transaction()
    watch.seconds += 1
    with pytest.raises(DeadlineExceeded):
        database.create_transaction()
    assert silent == [2_000] * 3


def test_threads_have_their_own_time(silent):
    """What one request has used up, and what it may, is no matter to another."""
    deadlines.limited_catalog(1, -60)

    def begin(number):
        deadlines.limited_catalog(60 + 60 * number).database.create_transaction()

    together(2, begin)
    assert sorted(silent) == [pytest.approx(each, rel=0.1) for each in (60_000, 120_000)]


def test_the_time_is_five_seconds_by_default(root, settings, silent):
    """Without TIMEOUT_SECONDS an engine has five."""
    settings.FDBQUEUE = {"ENGINE": SILENT, "QUEUES": MAIL}
    root().get("/api/queues/mail/")
    assert 4_000 < silent[0] <= 5_000


class Turn:
    """The turn to write to an embedded engine's file, as another process may have it."""

    def __init__(self, path):
        self._descriptor = os.open(f"{path}-sync/turn", os.O_RDWR)

    def take(self):
        """Keep all others from writing."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def leave(self):
        """Let the others write."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self):
        """Leave it for good."""
        os.close(self._descriptor)


@pytest.fixture
def turn(settings, tmp_path):
    """A queue with an item on an embedded engine that others write to."""
    path = tmp_path / "queues.sqlite3"
    options = {"path": path, "durability": "normal"}
    settings.FDBQUEUE = {"OPTIONS": options, "QUEUES": MAIL, "API": {"TIMEOUT_SECONDS": 0.3}}
    conf.catalog().queue("mail").push("there")
    turn = Turn(path)
    yield turn
    turn.close()
    conf.catalog().database.close()


def test_a_writer_that_does_not_end(root, turn):
    """While another process writes and writes, changes are given up; reads are answered."""
    client = root()
    turn.take()
    for verb, body in (("push", {"value": 1}), ("pop", {}), ("lease", {})):
        response = client.post(f"/api/queues/mail/{verb}/", body)
        check_shape(response, 503, "outcome_unknown")
        assert int(response["Retry-After"]) > 0
    for path in ("", "mail/", "mail/peek/", "mail/items/"):
        assert client.get(f"/api/queues/{path}").status_code == 200


def test_what_was_given_up_does_not_happen_later(root, turn):
    """When the other writer is done, only what is asked for again comes true."""
    client = root()
    turn.take()
    assert client.post("/api/queues/mail/push/", {"value": 1}, headers=KEYED).status_code == 503
    assert client.post("/api/queues/mail/pop/", {}).status_code == 503
    turn.leave()
    again = client.post("/api/queues/mail/push/", {"value": 1}, headers=KEYED)
    assert again.status_code == 201
    assert "Idempotent-Replayed" not in again
    items = client.get("/api/queues/mail/items/").json()["items"]
    assert [item["value"] for item in items] == ["there", 1]
