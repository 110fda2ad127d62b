"""Seeds of the simulator find nothing, and a seed is one history."""

from __future__ import annotations

import ast
import gzip
import json
from itertools import islice
from pathlib import Path

import pytest
from django.db import connection

import fdbqueue
from tests.conformance.replay import Replay
from tests.simulation import model, world
from tests.simulation import schedule as simulated
from tests.simulation.cluster import Cluster, Database, Faults, KeySelector
from tests.simulation.programs import SIMULATED, Program
from tests.simulation.runner import run, run_seed, shrink
from tests.simulation.surface import recorded, unused

_SEEDS, _PARTS = 300, 10
#: Histories that have broken a promise, by what holds since.
_HISTORIES = json.loads(Path(__file__).with_name("histories.json").read_text())
_RECORDED = Path(__file__).parents[1] / "conformance" / "recorded"


@pytest.mark.parametrize("part", range(_PARTS))
def test_seeds_find_nothing(part):
    """Some hundred seeds run to their ends, none of them unclear, and no promise is broken."""
    histories = {seed: run_seed(seed) for seed in range(part, _SEEDS, _PARTS)}
    found = {seed: one.found or one.unclear for seed, one in histories.items()}
    assert {seed: one for seed, one in found.items() if one} == {}


def test_a_run_that_nobody_can_judge_ends():
    """A seed in which items may be ever more things ends, and is not taken for sound."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "_MOST_THINGS", 1)
        history = next(one for seed in range(50) if (one := run_seed(seed)).unclear)
    assert history.found is None
    assert history.unclear.endswith("2 things")


@pytest.mark.parametrize("name", _HISTORIES)
def test_what_was_found_is_mended(name):
    """No history in which a promise was broken breaks it again, in some orders of its turns."""
    plan = {**_HISTORIES[name]}
    order = plan.pop("order")
    assert [run(plan, one).found for one in (order, *"0123456789")] == [None] * 11


def test_a_seed_is_one_history(django_db_setup, django_db_blocker):
    """A seed gives the same history to the letter, whatever ran before it and has left open."""
    first = {seed: run_seed(seed) for seed in range(12)}
    assert not any(one.found for one in first.values())
    with django_db_blocker.unblock():
        connection.ensure_connection()
    again = {seed: run_seed(seed) for seed in reversed(range(12))}
    assert first == again


@pytest.mark.parametrize("recording", ["histories.jsonl.gz", "histories-2.jsonl.gz"])
def test_the_cluster_answers_as_a_real_one(recording):
    """Reads, errors, conflicts and what is left at the end are as a real cluster's were."""
    differences, simulated.running = [], simulated.Schedule("", 0.0, 10**9)
    with gzip.open(_RECORDED / recording, "rt") as lines:
        for line in islice(lines, 0, None, 20):
            history = json.loads(line)
            database = Database(Cluster("", Faults()), Program("recorded"))
            prefix = b"%07d/" % history["seed"]
            differences += Replay(database, prefix, KeySelector).differences(history)
    assert differences == []


def test_a_broken_promise_is_found_and_cut():
    """If members of families note no news, some seed finds it, with few operations left."""
    member = world.program("p0")["service.storage.family_index"].Member
    announce, member.announce = member.announce, lambda *_: None
    try:
        seeds = (run_seed(seed) for seed in range(200))
        found = next(one for one in seeds if one.found and one.plan["clients"])
        small = shrink(found, 20)
    finally:
        member.announce = announce
    assert small.found is not None
    assert sum(len(client["ops"]) for client in small.plan["clients"]) <= 6


@pytest.mark.nightly
def test_each_verb_and_option_is_used_or_left_out_for_a_reason():
    """Clients of some hundred seeds use each public verb and option, but those that a list has."""
    programs = [world.program(f"p{at}", has_lines=one) for at in range(3) for one in (False, True)]
    with recorded(programs) as seen:
        for seed in range(_SEEDS):
            queues = run_seed(seed).plan["queues"].values()
            seen |= {f"option {name}" for options in queues for name in options}
    assert unused(programs[0], seen) == ([], [])


def test_the_service_waits_by_modules_that_can_be_simulated():
    """No name is imported from ``time``, ``threading`` and the like, only the modules."""
    rooms = [Path(fdbqueue.__file__).with_name(room) for room in ("service", "tasks")]
    wrong = [
        f"{path}:{node.lineno}"
        for path in [*rooms[0].rglob("*.py"), *rooms[1].glob("*.py")]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module in SIMULATED
    ]
    assert wrong == []
