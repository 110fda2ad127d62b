"""The FDBQUEUE setting: what it makes, and when it is read."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks
from django.test import override_settings

import fdbqueue
from fdbqueue import conf
from fdbqueue.exceptions import ConfigurationError, ValueTooLarge
from fdbqueue.service import FifoQueue, PriorityQueue
from fdbqueue.service.storage.counts import Counts
from tests.api import rules


def test_a_queue_is_as_the_setting_says(setting):
    """Kind, codec, priority type and place come from the setting."""
    with override_settings(FDBQUEUE=setting):
        quakes, legacy = fdbqueue.queue("quakes"), fdbqueue.queue("legacy")
        assert isinstance(quakes, PriorityQueue)
        assert (quakes.priority_type, quakes.codec.name, quakes.name) == ("float", "json", "quakes")
        assert isinstance(fdbqueue.queue("mail"), FifoQueue)
        assert legacy.codec.name == "bytes"
        assert legacy.subspace.key() == b"\x02P\x00"


@pytest.mark.parametrize("kind", ["fifo", "priority"])
def test_a_queue_has_the_options_of_the_setting(setting, kind):
    """Both kinds take them, plain names and patterns, at either end of their ranges."""
    least = {
        "order": "commit",
        "shards": 2,
        "choices": 1,
        "handoff_timeout_seconds": 0.1,
        "max_attempts": 1,
        "max_value_bytes": 1,
    }
    most = {
        "order": "count",
        "shards": 100,
        "choices": 100,
        "handoff_timeout_seconds": 86_400,
        "max_attempts": 1_000_000,
        "max_value_bytes": 1_000_000,
    }
    standard = {
        "order": "count",
        "shards": None,
        "choices": None,
        "handoff_timeout_seconds": 30,
        "max_attempts": 20,
        "max_value_bytes": 100_000,
    }
    queues = {
        "least": {"kind": kind, **least},
        "most-*": {"kind": kind, **most},
        "standard": {"kind": kind},
        "unlimited": {"kind": kind, "max_attempts": None},
    }
    with override_settings(FDBQUEUE={**setting, "QUEUES": queues}, DEBUG=True):
        assert list(conf.problems()) == []
        for name, options in (
            ("least", least),
            ("most-7", most),
            ("standard", standard),
            ("unlimited", {**standard, "max_attempts": None}),
        ):
            queue = fdbqueue.queue(name)
            assert {option: getattr(queue.options, option) for option in options} == options


def test_the_options_take_effect(setting):
    """An item that fails too often is dead, and a value that is too long is refused."""
    mail = {"kind": "fifo", "max_attempts": 1, "max_value_bytes": 30}
    with override_settings(FDBQUEUE={**setting, "QUEUES": {"mail": mail}}):
        queue = fdbqueue.queue("mail")
        queue.push("x")
        queue.nack(queue.lease())
        assert queue.counts() == Counts(ready=0, leased=0, delayed=0, dead=1)
        with pytest.raises(ValueTooLarge):
            queue.push("x" * 31)


def test_the_api_has_the_options_of_the_setting(setting):
    """All of them have defaults, and are taken at either end of their ranges."""
    least = {
        "IDEMPOTENCY_SECONDS": 1,
        "MAX_BODY_BYTES": 1_000,
        "MAX_LIMIT": 1,
        "MAX_WAITING": 0,
        "MAX_WAITING_PER_USER": 0,
        "MAX_WAIT_SECONDS": 0,
        "TIMEOUT_SECONDS": 0.1,
    }
    most = {
        "IDEMPOTENCY_SECONDS": 31_536_000,
        "MAX_BODY_BYTES": 100_000_000,
        "MAX_LIMIT": 1_000,
        "MAX_WAITING": 100_000,
        "MAX_WAITING_PER_USER": 100_000,
        "MAX_WAIT_SECONDS": 3_600,
        "TIMEOUT_SECONDS": 3_600,
    }
    standard = {
        "IDEMPOTENCY_SECONDS": 86_400,
        "MAX_BODY_BYTES": 5_000_000,
        "MAX_LIMIT": 1_000,
        "MAX_WAITING": 16,
        "MAX_WAITING_PER_USER": None,
        "MAX_WAIT_SECONDS": 20,
        "TIMEOUT_SECONDS": 5,
    }
    for given, expected in ((least, least), (most, most), ({}, standard)):
        with override_settings(FDBQUEUE={**setting, "API": given}, DEBUG=True):
            assert list(conf.problems()) == []
            options = conf.api()
            assert {key: getattr(options, key.lower()) for key in expected} == expected
            assert options.authorizer is None
    with override_settings(FDBQUEUE=setting):
        assert conf.api() == conf.ApiOptions()


def test_the_authorizer_is_the_function_that_is_named(setting):
    """Named by its path; None is as good as no word about it."""
    path = "tests.api.rules.may_everything"
    with override_settings(FDBQUEUE={**setting, "API": {"AUTHORIZER": path}}, DEBUG=True):
        assert list(conf.problems()) == []
        assert conf.api().authorizer is rules.may_everything
    with override_settings(FDBQUEUE={**setting, "API": {"AUTHORIZER": None}}):
        assert list(conf.problems()) == []
        assert conf.api().authorizer is None


def test_a_missing_setting_has_no_queues(settings):
    """Without FDBQUEUE the engine's path is asked for."""
    settings.FDBQUEUE = {}  # what was read of it is forgotten; taking it away tells nobody
    del settings.FDBQUEUE
    with pytest.raises(ConfigurationError):
        fdbqueue.queue("mail")


def test_an_engine_may_be_a_projects_own(setting, tmp_path):
    """ENGINE is a path to any module with open(); its OPTIONS are its own."""
    own = {**setting, "ENGINE": "tests.django.own_engine", "OPTIONS": {"folder": tmp_path}}
    with override_settings(FDBQUEUE=own, DEBUG=True):
        assert [m for m in run_checks() if (m.id or "").startswith("fdbqueue")] == []
        fdbqueue.queue("mail").push("x")
        assert fdbqueue.queue("mail").pop().value == "x"
    assert (tmp_path / "own.sqlite3").exists()
