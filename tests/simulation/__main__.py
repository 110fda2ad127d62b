"""``make simulate``: run new seeds, or one again."""

# ruff: noqa: T201  # a command prints
from __future__ import annotations

import argparse
import os
import secrets
import sys
import time

import django
from coverage import Coverage

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.project_settings")
django.setup()

from tests.simulation.runner import History, run_line, run_seed, shrink  # noqa: E402  # after Django
from tests.simulation.world import program  # noqa: E402  # after Django


def main() -> int:
    """Run what the arguments say, and return 1 if something is found."""
    parser = argparse.ArgumentParser(prog="tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed again")
    parser.add_argument("--line", help="run this history again")
    parser.add_argument("--only", help="run these seeds, with commas between them")
    parser.add_argument("--seeds", type=int, default=300, help="how many new seeds to run")
    parser.add_argument("--first", type=int, help="the first of them")
    parser.add_argument("--seconds", type=float, help="stop after these, of processor time")
    parser.add_argument("--whole", action="store_true", help="do not cut what is found")
    parser.add_argument("--until-found", action="store_true", help="stop at what is found first")
    given = parser.parse_args()
    if given.line is not None or given.seed is not None:
        history = run_seed(given.seed) if given.line is None else run_line(given.line)
        _tell(history, is_whole=given.whole or given.line is not None)
        return int(history.found is not None)
    first = secrets.randbelow(10**9) if given.first is None else given.first
    seeds = range(first, first + given.seeds)
    if given.only:
        seeds = [*map(int, given.only.split(","))]
    print(f"seeds {seeds[0]} to {seeds[-1]}", flush=True)
    measured = Coverage.current()
    for name in ("p0", "p1", "p2", "doctor") if measured is not None else ():
        program(name)  # which is of no seed
    began, steps, found, unclear, number = time.process_time(), 0, 0, 0, 0
    for seed in seeds:
        number += 1
        if measured is not None:
            measured.switch_context(str(seed))
        history = run_seed(seed)
        steps += history.steps
        unclear += history.unclear is not None
        if history.found is not None:
            found += 1
            print(f"\nmake simulate SEED={seed}: {history.found}", flush=True)
            _tell(history, is_whole=given.whole)
            if given.until_found:
                break
        if given.seconds is not None and time.process_time() - began > given.seconds:
            break
    print(f"{number} seeds, {found} found, {unclear} unclear, {steps} steps")
    return int(found > 0)


def _tell(history: History, *, is_whole: bool) -> None:
    if history.found is not None and not is_whole:
        history = shrink(history)
    for line in history.lines():
        print(line)
    if history.found is not None and not is_whole:
        print(f"again: make simulate HISTORY='{history.line()}'")
    print(history.found or history.unclear or "nothing was found", flush=True)


if __name__ == "__main__":
    sys.exit(main())
