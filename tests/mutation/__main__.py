"""``make mutate``: draw mutants of the package, and count what finds them."""

# ruff: noqa: T201  # a command prints
from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import tempfile
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

from tests.mutation.runs import Copy, Drawn, Outcome

_SEEDS = 300
_KINDS = ("simulator", "tests", "nobody")


def main() -> None:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(prog="tests.mutation", description=__doc__)
    parser.add_argument("--seed", default=str(secrets.randbelow(10**6)), help="of the draw")
    parser.add_argument("--count", type=int, default=100, help="how many to draw")
    parser.add_argument("--seeds", type=int, default=_SEEDS, help="of the simulator, for each")
    parser.add_argument("--workers", type=int, default=2, help="processes of the tests")
    parser.add_argument("--no-tests", action="store_true", help="let the simulator look alone")
    parser.add_argument("--log", type=Path, help="keep outcomes there, and go on with those it has")
    given = parser.parse_args()
    known = {}
    if given.log is not None and given.log.exists():
        known = {one["name"]: one for one in map(json.loads, given.log.read_text().splitlines())}
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        first = random.Random(given.seed).randrange(10**9)
        copy = Copy(Path(folder), first, given.seeds)
        print(f"seed {given.seed}: {given.count} mutants, seeds from {first}", flush=True)
        print(f"the sound package: {copy.measure().splitlines()[-1]}", flush=True)
        rows = []
        for one in islice(copy.draw(given.seed), given.count):
            row = known.get(one.name(), {"name": one.name()})
            rows.append((one, _look(copy, one, row, None if given.no_tests else given.workers)))
            if given.log is not None:
                with given.log.open("a") as log:
                    log.write(json.dumps(row) + "\n")
    _report(rows)


def _look(copy: Copy, one: Drawn, row: dict[str, Any], workers: int | None) -> dict[str, Any]:
    """Let the simulator look for a mutant, then the tests; add what was not known before."""
    if "simulator" not in row:
        outcome = copy.simulate(one)
        row |= {"simulator": outcome.is_found, "said": _last(outcome)}
        row["reached"] = copy.is_reached(one)
        print(f"{_found_by(row)}: {one.name()}\n    {row['said']}", flush=True)
    if workers is not None and not row["simulator"] and "tests" not in row:
        outcome = copy.test(one, workers)
        row |= {"tests": outcome.is_found, "tests_said": _last(outcome)}
        print(f"{_found_by(row)}: {one.name()}\n    {row['tests_said']}", flush=True)
    return row


def _last(outcome: Outcome) -> str:
    """Return what a command said of what it found."""
    lines = [line for line in outcome.said.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("make simulate", "FAILED", "ERROR"))]
    return (told or lines or ["nothing"])[-1][:200]


def _found_by(row: dict[str, Any]) -> str:
    return _KINDS[0] if row["simulator"] else _KINDS[1] if row.get("tests") else _KINDS[2]


def _report(rows: list[tuple[Drawn, dict[str, Any]]]) -> None:
    """Print each mutant that nobody has found, and the tables."""
    for one, row in rows:
        if _found_by(row) == "nobody":
            reached = "" if row["reached"] else ", in a line that the simulator does not reach"
            print(f"\n{one.mutant.operator}{reached}\n{one.diff()}")
    tables = {"operator": lambda one: one.mutant.operator, "module": lambda one: one.path}
    for title, key in tables.items():
        print(f"\n{title:48} {'all':>5} " + " ".join(f"{kind:>9}" for kind in _KINDS))
        all_of = Counter(key(one) for one, _ in rows)
        by_kind = Counter((key(one), _found_by(row)) for one, row in rows)
        for name in sorted(all_of):
            counts = " ".join(f"{by_kind[name, kind]:9}" for kind in _KINDS)
            print(f"{name:48} {all_of[name]:5} {counts}")
    found, reached = (
        Counter(_found_by(row) for _, row in rows),
        [row for _, row in rows if row["reached"]],
    )
    print(f"\n{len(rows)} mutants, {len(reached)} of them in lines that the simulator reaches")
    print(json.dumps({kind: found[kind] for kind in _KINDS}))


if __name__ == "__main__":
    os.nice(5)
    main()
