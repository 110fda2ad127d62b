"""The recorded transaction histories replay with the cluster's answers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.replay import Replay

_RECORDED = Path(__file__).with_name("recorded") / "histories.jsonl.gz"
_PARTS = 10


def _histories() -> list[dict[str, Any]]:
    with gzip.open(_RECORDED, "rt") as lines:
        return [json.loads(line) for line in lines]


def test_the_recording_is_whole():
    """All 1,500 histories, 40,420 steps, are there to be replayed."""
    histories = _histories()
    assert len(histories) == 1500
    assert sum(len(history["steps"]) for history in histories) == 40420


@pytest.mark.parametrize("part", range(_PARTS))
def test_every_answer_is_the_clusters(engine, prefix, part):
    """Reads, errors, conflicts and what is left at the end are as recorded."""
    differences = []
    for history in _histories()[part::_PARTS]:
        under = prefix + b"%05d/" % history["seed"]
        differences += Replay(engine.database, under, engine.key_selector).differences(history)
    assert differences == []
