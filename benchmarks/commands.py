"""The commands that move many items, as processes: their rates, at two sizes, and their memory.

On the embedded engine, records of the size of the sample data's earthquakes. What starting
Python and Django takes is measured by a command that does nothing, and left out.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import Line, line_of
from benchmarks.plan import Plan

ROOT = Path(__file__).resolve().parent.parent
EARTHQUAKES = ROOT / "project" / "sample_data" / "earthquakes.ndjson"
FEW, MANY = 10_000, 1_000_000
ROUNDS = 3
RATE_BAR = 20_000
MEMORY_BAR_MB = 150
#: Pushed again and again, for a rate that starting the process does not blur.
_ROUNDS_OF_FEW = 5


class Commands:
    """Run ``manage.py`` on a queue of its own.

    Args:
        folder: Where the engine's file is, and the others.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "FDBQUEUE_PATH": str(folder / "queues.sqlite3"),
        }
        self._environment.pop("FDB_CLUSTER_FILE", None)

    def run(self, *arguments: str) -> tuple[float, float]:
        """Return the seconds a command took, and the most memory of any so far, in megabytes."""
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "manage.py", *arguments, "--verbosity=0"],
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        seconds = time.perf_counter() - began
        return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1_024

    def idle_seconds(self) -> float:
        """Return how long a command takes that does nothing."""
        return statistics.median(self.run("queue_push", "mail", os.devnull)[0] for _ in range(3))

    def push(self, file: Path) -> tuple[float, float]:
        """Push a file into the queue of earthquakes."""
        return self.run("queue_push", "quakes", str(file), "--priority-field", "magnitude")

    def drain(self) -> tuple[float, float]:
        """Drain that queue to a file."""
        output = self.folder / "drained.ndjson"
        return self.run("queue_drain", "quakes", "--output", str(output), "--force")


def commands(plan: Plan) -> Iterator[Line]:
    """Push and drain ten thousand records and a million, and how much memory that takes."""
    runner = Commands(plan.folder)
    few = _file(plan.folder / "few.ndjson", FEW)
    many_items = FEW * 10 if plan.quick else MANY
    many = _file(plan.folder / "many.ndjson", many_items)
    for verb, prepare, measured in (
        ("push", _nothing, runner.push),
        ("drain", runner.push, lambda _: runner.drain()),
    ):
        rounds: list[tuple[float, float]] = []
        memory = 0.0
        for _ in range(plan.rounds(ROUNDS)):
            idle = runner.idle_seconds()
            small = _rate_of_few(runner, few, prepare, measured, idle)
            prepare(many)
            seconds, memory = measured(many)
            rounds.append((many_items / (seconds - idle), small))
            runner.run("queue_purge", "quakes", "--no-input")
        yield line_of(
            f"queue_{verb}, {many_items:,} records",
            rounds,
            peer_name=f"{FEW:,} records",
            unit="/s",
            bar="at least 0.8",
        )
        yield line_of(
            f"queue_{verb}, items a second",
            [(rate, RATE_BAR) for rate, _ in rounds],
            peer_name="bar",
            unit="/s",
            bar="at least 1.0",
        )
        yield line_of(
            f"queue_{verb}, memory",
            [(memory, MEMORY_BAR_MB)],
            peer_name="bar",
            unit="MB",
            bar="at most 1.0",
        )


def _rate_of_few(
    runner: Commands,
    file: Path,
    prepare: Callable[[Path], object],
    measured: Callable[[Path], tuple[float, float]],
    idle: float,
) -> float:
    rates = []
    for _ in range(_ROUNDS_OF_FEW):
        prepare(file)
        rates.append(FEW / (measured(file)[0] - idle))
        runner.run("queue_purge", "quakes", "--no-input")
    return statistics.median(rates)


def _nothing(_: Path) -> None:
    """Prepare nothing."""


def _file(path: Path, count: int) -> Path:
    """Write so many earthquakes, again and again, each with a number of its own."""
    records = [json.loads(line) for line in EARTHQUAKES.read_text(encoding="utf-8").splitlines()]
    with path.open("w", encoding="utf-8") as stream:
        for number, record in enumerate(itertools.islice(itertools.cycle(records), count)):
            line = json.dumps({**record, "id": f"{record['id']}-{number}"}, separators=(",", ":"))
            stream.write(line + "\n")
    return path


BENCHMARKS = {"commands": commands}
