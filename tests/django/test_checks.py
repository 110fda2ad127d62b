"""What is wrong with the setting: each system check has an id and a hint."""

from __future__ import annotations

import itertools
import math

import pytest
from django.core.checks import run_checks
from django.test import override_settings

import fdbqueue
from fdbqueue.exceptions import ConfigurationError


def test_a_valid_setting_has_no_problems(setting):
    """Nothing is reported, and the engine's file is not even created."""
    with override_settings(FDBQUEUE=setting, DEBUG=True):
        assert [m for m in run_checks() if (m.id or "").startswith("fdbqueue")] == []
    assert not setting["OPTIONS"]["path"].exists()


WRONG_OPTIONS = [
    ("E010", "order", ["commits", None, 1]),
    ("E010", "contention", ["loose", None, ["strict"]]),
    ("E013", "claim_timeout_seconds", [0, 0.09, 86_401, -1, math.nan, math.inf, "30", None, True]),
    ("E013", "max_attempts", [0, 1_000_001, -1, 5.0, "5", True]),
    ("E013", "max_value_bytes", [0, 5_000_001, -1, 1e5, "100000", None, True]),
]
PROBLEMS = [
    ("E001", None, ["not", "a", "dictionary"]),
    ("E002", "EXTRA", 1),
    ("E003", "ENGINE", "fdbqueue.engines.nowhere"),
    ("E003", "ENGINE", "fdbqueue.exceptions"),
    ("E004", "OPTIONS", {}),
    ("E004", "OPTIONS", {"path": ":memory:"}),
    ("E004", "OPTIONS", {"path": "q", "durability": "none"}),
    ("E005", "QUEUES", ["mail"]),
    ("E006", "PREFIX", "fdbqueue"),
    ("E006", "PREFIX", (object(),)),
    ("E007", "QUEUES", {"no spaces": {"kind": "fifo"}}),
    ("E007", "QUEUES", {"-x": {"kind": "fifo"}}),
    ("E007", "QUEUES", {7: {"kind": "fifo"}}),
    ("E008", "QUEUES", {"mail": {}}),
    ("E008", "QUEUES", {"mail": {"kind": "lifo"}}),
    ("E008", "QUEUES", {"mail": "fifo"}),
    ("E009", "QUEUES", {"mail": {"kind": "fifo", "priority_type": "int"}}),
    ("E009", "QUEUES", {"mail": {"kind": "fifo", "colour": "red"}}),
    ("E010", "QUEUES", {"mail": {"kind": "fifo", "codec": "pickle"}}),
    ("E010", "QUEUES", {"mail": {"kind": "priority", "priority_type": "decimal"}}),
    ("E011", "QUEUES", {"mail": {"kind": "fifo", "subspace": "P"}}),
    ("E011", "QUEUES", {"mail": {"kind": "fifo", "subspace": ()}}),
    ("E011", "QUEUES", {"mail-*": {"kind": "fifo", "subspace": ("P",)}}),
    (
        "E012",
        "QUEUES",
        {"a": {"kind": "fifo", "subspace": ("P",)}, "b": {"kind": "fifo", "subspace": ("P", 1)}},
    ),
    ("E012", "QUEUES", {"a": {"kind": "fifo", "subspace": ("fdbqueue",)}}),
    ("E012", "QUEUES", {"a": {"kind": "fifo", "subspace": ("fdbqueue", "receipt")}}),
    ("E012", "QUEUES", {"a": {"kind": "fifo", "subspace": ("fdbqueue", "receipt", 1)}}),
    *(
        (number, "QUEUES", {"mail": {"kind": kind, option: value}})
        for kind, (number, option, values) in itertools.product(["fifo", "priority"], WRONG_OPTIONS)
        for value in values
    ),
]


@pytest.mark.parametrize(("number", "key", "value"), PROBLEMS, ids=lambda value: str(value)[:40])
def test_each_problem_has_an_id_and_a_hint(setting, number, key, value):
    """The system check reports it, and no queue opens."""
    wrong = value if key is None else {**setting, key: value}
    with override_settings(FDBQUEUE=wrong, DEBUG=True):
        found = [m for m in run_checks() if (m.id or "").startswith("fdbqueue")]
        assert [message.id for message in found] == [f"fdbqueue.{number}"]
        assert all(message.hint for message in found)
        with pytest.raises(ConfigurationError) as caught:
            fdbqueue.queue("mail")
    assert caught.value.context["id"] == f"fdbqueue.{number}"


def test_the_embedded_engine_without_debug_is_warned_of(setting):
    """W001 shows with DEBUG off and the embedded engine, and only then."""

    def warned():
        return "fdbqueue.W001" in [message.id for message in run_checks()]

    with override_settings(FDBQUEUE=setting, DEBUG=False):
        assert warned()
    with override_settings(FDBQUEUE=setting, DEBUG=True):
        assert not warned()
    cluster = {**setting, "ENGINE": "fdbqueue.engines.foundationdb", "OPTIONS": {}}
    with override_settings(FDBQUEUE=cluster, DEBUG=False):
        assert not warned()
