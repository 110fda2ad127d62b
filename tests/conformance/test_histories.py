"""The recorded transaction histories replay with the cluster's answers."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path

import pytest

from tests.conformance.replay import Replay

_RECORDED = Path(__file__).with_name("recorded")
_PARTS = 10


def _histories(recording, part=0, parts=1):
    with gzip.open(_RECORDED / recording, "rt") as lines:
        return [json.loads(line) for line in islice(lines, part, None, parts)]


@pytest.mark.parametrize(
    ("recording", "histories", "steps"),
    [
        ("histories.jsonl.gz", 1500, 40420),
        ("histories-2.jsonl.gz", 2750, 141407),
        ("histories-3.jsonl.gz", 1500, 36006),
    ],
)
def test_the_recording_is_whole(recording, histories, steps):
    """All histories, with all their steps, are there to be replayed."""
    recorded = _histories(recording)
    assert len(recorded) == histories
    assert sum(len(history["steps"]) for history in recorded) == steps


@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize(
    "recording", ["histories.jsonl.gz", "histories-2.jsonl.gz", "histories-3.jsonl.gz"]
)
def test_every_answer_is_the_clusters(engine, prefix, recording, part):
    """Reads, errors, conflicts and what is left at the end are as recorded."""
    differences = []
    for history in _histories(recording, part, _PARTS):
        under = prefix + b"%07d/" % history["seed"]
        differences += Replay(engine.database, under, engine.key_selector).differences(history)
    assert differences == []
