"""The commands that move many items, as processes: their rates, at two sizes, and their memory.

Records of the size of the sample data's earthquakes. What starting
Python and Django takes is measured by a command that does nothing, and left out.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import fdb.tuple

from benchmarks.catalog import Benchmark
from benchmarks.measure import Line, line_of
from benchmarks.plan import Plan, clear

ROOT = Path(__file__).resolve().parent.parent
EARTHQUAKES = ROOT / "project" / "sample_data" / "earthquakes.ndjson"
_STARTER = Path(__file__).with_name("starter.py")
FEW, MANY, MILLION = 10_000, 100_000, 1_000_000
ROUNDS = 3
RATE_BAR = 20_000
MEMORY_BAR_MB = 150
#: What starting a process takes varies by more.
_LEAST_SECONDS = 0.001


class Moved(NamedTuple):
    """How fast a command moved items, and its most memory."""

    items_a_second: float
    megabytes: float


class Commands:
    """Run ``manage.py`` on a queue of its own.

    Args:
        folder: Where the engine's file is, and the others.
        prefix: Where the queue is in the engine.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self.folder = folder
        self._environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "benchmarks.command_settings",
            "FDBQUEUE_PATH": str(folder / "queues.sqlite3"),
            "FDBQUEUE_BENCHMARKS_PREFIX": prefix,
        }

    def run(self, *arguments: str) -> tuple[float, float]:
        """Return the seconds a command took, and its most memory in megabytes.

        Raises:
            CalledProcessError: It failed.
        """
        command = [sys.executable, "manage.py", *arguments, "--verbosity=0"]
        return measured(command, self._environment)

    def idle_seconds(self) -> float:
        """Return how long a command takes that does nothing."""
        return self.run("queue_push", "mail", os.devnull)[0]

    def rates(self, file: Path, items: int, idle: float) -> dict[str, Moved]:
        """Push a file of so many earthquakes into a queue, and drain that to another file."""
        output = str(self.folder / "drained.ndjson")
        verbs = {
            "push": ("queue_push", "quakes", str(file), "--priority-field", "magnitude"),
            "drain": ("queue_drain", "quakes", "--output", output, "--force"),
        }
        found = {}
        for verb, arguments in verbs.items():
            seconds, megabytes = self.run(*arguments)
            found[verb] = Moved(items / max(seconds - idle, _LEAST_SECONDS), megabytes)
        return found


def measured(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Return the seconds a command took, and its most memory in megabytes.

    Raises:
        CalledProcessError: It failed.
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_STARTER), *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            figures, _ = process.communicate()
        except BaseException:
            process.terminate()  # it ends the command
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    seconds, megabytes = map(float, figures.split())
    return seconds, megabytes


def commands(plan: Plan) -> Iterator[Line]:
    """Push and drain ten thousand records and a hundred thousand, and the memory that takes."""
    yield from _measured(plan, *plan.sized((FEW, MANY), (FEW // 2, MANY // 5), (10, 20)))


def million(plan: Plan) -> Iterator[Line]:
    """Push and drain ten thousand records and a million, and the memory that takes."""
    yield from _measured(plan, *plan.sized((FEW, MILLION), (FEW, MILLION), (10, 30)))


def _measured(plan: Plan, few_items: int, many_items: int) -> Iterator[Line]:
    prefix = os.urandom(8).hex()
    try:
        yield from _lines(plan, Commands(plan.folder, prefix), few_items, many_items)
    finally:
        if plan.cluster_file:  # a file's folder is removed with it
            clear(plan.open(), fdb.tuple.pack(("fdbqueue-benchmarks", prefix)))


def _lines(plan: Plan, runner: Commands, few_items: int, many_items: int) -> Iterator[Line]:
    """Push and drain both files again and again; a drain empties what a push has filled."""
    few = _file(plan.folder / "few.ndjson", few_items)
    many = _file(plan.folder / "many.ndjson", many_items)
    rates: dict[str, list[tuple[float, float]]] = {"push": [], "drain": []}
    memory = dict.fromkeys(rates, 0.0)
    times = plan.sized(3, 2, 1)
    for _ in range(plan.rounds(ROUNDS)):
        idle = statistics.median(runner.idle_seconds() for _ in range(times))
        small = [runner.rates(few, few_items, idle) for _ in range(times)]
        large = runner.rates(many, many_items, idle)
        for verb, moved in large.items():
            fews = statistics.median(one[verb].items_a_second for one in small)
            rates[verb].append((moved.items_a_second, fews))
            memory[verb] = max(memory[verb], moved.megabytes)
    for verb, pairs in rates.items():
        title = f"queue_{verb}, {many_items:,} records"
        described = {"unit": "/s", "at": many_items}
        yield line_of(
            title, pairs, peer_name=f"{few_items:,} records", bar="at least 0.8", **described
        )
        against_bar = [(rate, RATE_BAR) for rate, _ in pairs]
        yield line_of(title, against_bar, peer_name="bar", bar="at least 1.0", **described)
        used = [(memory[verb], MEMORY_BAR_MB)]
        yield line_of(f"{title}, memory", used, peer_name="bar", unit="MB", bar="at most 1.0")


def _file(path: Path, count: int) -> Path:
    """Write so many earthquakes, again and again, each with a number of its own."""
    records = [json.loads(line) for line in EARTHQUAKES.read_text(encoding="utf-8").splitlines()]
    with path.open("w", encoding="utf-8") as stream:
        for number, record in enumerate(itertools.islice(itertools.cycle(records), count)):
            line = json.dumps({**record, "id": f"{record['id']}-{number}"}, separators=(",", ":"))
            stream.write(line + "\n")
    return path


BENCHMARKS = (
    Benchmark("commands", commands),
    Benchmark("commands-million", million, is_long=True),
)
