"""``make simulate``: run new seeds, or one again."""

# ruff: noqa: T201  # a command prints
from __future__ import annotations

import argparse
import os
import secrets
import sys
import time

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.project_settings")
django.setup()

from tests.simulation.runner import History, free_runner, run_line, run_seed, shrink  # noqa: E402  # after Django


def main() -> int:
    """Run what the arguments say, and return 1 if something is found."""
    parser = argparse.ArgumentParser(prog="tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed again")
    parser.add_argument("--line", help="run this history again")
    parser.add_argument("--seeds", type=int, default=300, help="how many new seeds to run")
    parser.add_argument("--first", type=int, help="the first of them")
    parser.add_argument(
        "--seconds",
        type=float,
        help="stop after so many seconds of processor time, or of a clock on a real engine",
    )
    parser.add_argument("--whole", action="store_true", help="do not cut what is found")
    parser.add_argument("--until-found", action="store_true", help="stop at what is found first")
    parser.add_argument(
        "--free", action="store_true", help="run on a real engine, with real threads"
    )
    given = parser.parse_args()
    run_one = free_runner() if given.free else run_seed
    if given.line is not None or given.seed is not None:
        history = run_one(given.seed) if given.line is None else run_line(given.line)
        _tell(history, is_whole=given.whole or given.line is not None)
        return int(history.found is not None)
    first = secrets.randbelow(10**9) if given.first is None else given.first
    print(f"seeds {first} to {first + given.seeds - 1}", flush=True)
    clock = time.monotonic if given.free else time.process_time
    began, steps, found, number = clock(), 0, 0, 0
    for number in range(1, given.seeds + 1):
        history = run_one(first + number - 1)
        steps += history.steps
        if history.found is not None:
            found += 1
            print(f"\nmake simulate SEED={first + number - 1}: {history.found}", flush=True)
            _tell(history, is_whole=given.whole or given.free)
            if given.until_found:
                break
        if given.seconds is not None and clock() - began > given.seconds:
            break
    print(f"{number} seeds, {found} found, {steps} steps")
    return int(found > 0)


def _tell(history: History, *, is_whole: bool) -> None:
    if history.found is not None and not is_whole:
        history = shrink(history)
    for line in history.lines():
        print(line)
    if history.found is not None and not is_whole:
        print(f"again: make simulate HISTORY='{history.line()}'")
    print(history.found or "nothing was found", flush=True)


if __name__ == "__main__":
    sys.exit(main())
