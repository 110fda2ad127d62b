"""The health checks: alive, and ready to serve; quick, silent, and never kept."""

from __future__ import annotations

import logging
import os

import pytest
from django.test import Client, override_settings
from django.urls import path

from fdbqueue import conf
from fdbqueue.health.views import ReadyView
from tests.api import silent_engine

LIVE, READY = "/health/live/", "/health/ready/"
urlpatterns = [path("quick/", ReadyView.as_view(timeout_seconds=0.25))]


@pytest.fixture
def anybody():
    """A client that is nobody, and checks what it may do as a browser does."""
    return Client(enforce_csrf_checks=True)


@pytest.fixture
def away(settings):
    """The engine's cluster does not answer."""
    settings.FDBQUEUE = {"ENGINE": "tests.api.silent_engine", "QUEUES": {"mail": {"kind": "fifo"}}}
    silent_engine.timeouts_ms.clear()


@pytest.fixture
def failing(settings):
    """Make the engine fail in a way."""

    def fail(**options):
        settings.FDBQUEUE = {"ENGINE": "tests.api.failing_engine", "OPTIONS": options}

    return fail


@pytest.mark.parametrize("address", [LIVE, READY])
def test_all_is_well(queues, anybody, address):
    """Whoever asks is told so, and nothing else."""
    queues.reach()  # the first time a file is made, which may take long
    answer = anybody.get(address)
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert anybody.head(address).status_code == 200


def test_a_process_is_alive_without_its_engine(away, anybody):
    """A restart would not help: 200, and the engine is not asked."""
    assert anybody.get(LIVE).status_code == 200
    assert silent_engine.timeouts_ms == []


def test_a_process_is_not_ready_without_its_engine(away, anybody, caplog):
    """503 without a reason; the log has it."""
    answer = anybody.get(READY)
    assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
    (record,) = [one for one in caplog.records if one.name == "fdbqueue.health.views"]
    assert (record.msg, record.reason, record.levelno) == (
        "the engine is not ready",
        1031,
        logging.WARNING,
    )


def test_the_engine_is_given_a_bounded_time(away, anybody):
    """Two seconds, or what the project says."""
    anybody.get(READY)
    with override_settings(ROOT_URLCONF="tests.monitoring.test_health"):
        anybody.get("/quick/")
    usual, quick = silent_engine.timeouts_ms
    assert 0 < quick <= 250 < usual <= 2_000


@pytest.mark.parametrize("code", [1500, 1510, 2104])
def test_whatever_the_engine_fails_with(failing, anybody, code):
    """Its own errors make the process not ready."""
    failing(code=code)
    assert anybody.get(READY).status_code == 503


def test_a_wrong_setting_is_not_ready_and_says_nothing(settings, anybody):
    """Neither the setting nor a path is in the answer."""
    settings.FDBQUEUE = {"OPTIONS": {"path": "/nowhere/secret/queues.sqlite3"}, "X": 1}
    answer = anybody.get(READY)
    assert (answer.status_code, answer.content) == (503, b'{"status": "unavailable"}')


def test_a_bug_is_not_taken_for_an_engine_that_is_away(failing, anybody):
    """What is no engine's error is raised."""
    failing(error=ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        anybody.get(READY)


@pytest.mark.parametrize("address", [LIVE, READY])
@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_nothing_can_be_done_with_it(queues, address, method):
    """Only GET, HEAD and OPTIONS are answered."""
    assert getattr(Client(), method)(address).status_code == 405


@pytest.mark.parametrize("address", [LIVE, READY])
def test_no_answer_is_kept(queues, anybody, address):
    """Not by browsers and not by proxies; neither is a refusal."""
    for answer in [anybody.get(address), Client().post(address)]:
        assert "no-store" in answer["Cache-Control"]


@pytest.mark.parametrize("address", [LIVE, READY])
def test_nobody_has_to_log_in(queues, settings, anybody, address):
    """Also where the project wants everybody to."""
    queues.reach()
    login = "django.contrib.auth.middleware.LoginRequiredMiddleware"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, login]
    assert anybody.get(address).status_code == 200


def test_nothing_is_written_and_one_key_is_read(settings, tmp_path, anybody):
    """A check costs one read of one key."""
    from tests.pages import watched_engine

    settings.FDBQUEUE = {
        "ENGINE": "tests.pages.watched_engine",
        "OPTIONS": {"path": tmp_path / "queues.sqlite3", "durability": "normal"},
    }
    conf.catalog().reach()
    watched_engine.reads.clear()
    watched_engine.writes.clear()
    assert anybody.get(READY).status_code == 200
    assert (watched_engine.reads, watched_engine.writes) == (["get"], [])


def test_a_disk_without_room(queues, anybody, monkeypatch):
    """The process is not ready: pushes would fail."""
    if "FDB_CLUSTER_FILE" in os.environ:
        pytest.skip("a cluster's disks are its own")
    queues.reach()
    monkeypatch.setattr("fdbqueue.engines.embedded.files.FULL_BYTES", 10**18)
    answer = anybody.get(READY)
    assert (answer.status_code, answer.json()) == (503, {"status": "disk full"})
    assert anybody.get(LIVE).status_code == 200
