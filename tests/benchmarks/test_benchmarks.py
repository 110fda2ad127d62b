"""Every benchmark still runs, at a scale that measures nothing."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS, _parser

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 180
#: What ending in good order may take.
END_SECONDS = 60
#: Of what waits for the disk and for processes to start, some can run at once.
AT_ONCE = 3
ENGINES = ["embedded", *(["cluster"] if os.environ.get("FDB_CLUSTER_FILE") else [])]
TEXTS = {"name", "peer_name", "our_name", "unit", "bar", "note"}
NUMBERS = {"ours", "peer", "ratio", "lowest_ratio", "highest_ratio", "rounds"}
CASES = [
    (engine, benchmark)
    for engine in ENGINES
    for benchmark in BENCHMARKS.values()
    if engine in benchmark.engines
]

#: That of the tests as they began: a process that starts in a thread of its own would read the
#: real one while a test in another changes it, and may fail with "Bad address".
ENVIRONMENT = dict(os.environ)

Runs = dict[tuple[str, str], "Future[subprocess.CompletedProcess[str]]"]


def run(*arguments):
    """Run ``python -m benchmarks``, and end it with all that it started if it takes too long."""
    with start(*arguments) as process:
        output, errors = process.communicate(timeout=DEADLINE_SECONDS)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


@contextlib.contextmanager
def start(*arguments):
    """Start ``python -m benchmarks`` in a group of its own; nothing of that group stays."""
    command = [sys.executable, "-m", "benchmarks", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        except BaseException:
            process.terminate()  # so that it clears its keys
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            raise
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def runs(request):
    """A run of each benchmark that was selected."""
    cases = [
        (item.callspec.params["engine"], item.callspec.params["benchmark_"].name)
        for item in request.session.items
        if getattr(item, "function", None) is test_prints_well_formed_lines
    ]
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        yield {
            (engine, name): pool.submit(run, "--json", "--scale", "tiny", "--engine", engine, name)
            for engine, name in cases
        }
    finally:
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize(("engine", "benchmark_"), CASES, ids=lambda one: getattr(one, "name", one))
def test_prints_well_formed_lines(runs, engine, benchmark_):
    """A benchmark ends well and prints the machine, then JSON lines with finite figures."""
    done = runs[engine, benchmark_.name].result()
    assert done.returncode == 0, done.stderr
    machine, *lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert machine["machine"]["engine"] == engine
    assert lines
    for line in lines:
        check_line(line)
        assert (line["benchmark"], line["engine"]) == (benchmark_.name, engine)
    named = {(line["name"], line["peer_name"], line["our_name"]) for line in lines}
    assert len(named) == len(lines)


def check_line(line):
    """Check the fields of a line, and that its ratio lies where its rounds' do."""
    assert all(isinstance(line[name], str) for name in TEXTS)
    assert all(math.isfinite(line[name]) and line[name] > 0 for name in NUMBERS)
    assert line["lowest_ratio"] <= line["ratio"] <= line["highest_ratio"]
    assert line["is_met"] in (None, True, False)
    assert (line["is_met"] is None) == (line["bar"] == "no bar")
    for name in ("our_latency", "peer_latency"):
        if line[name] is not None:
            found = line[name]
            assert 0 < found["p50"] <= found["p90"] <= found["p99"] <= found["max"]


@pytest.mark.parametrize("engine", ENGINES)
def test_ends_in_good_order_when_asked_to(tmp_path, engine):
    """Ended while its processes work, it ends them, removes its files, and says by what."""
    arguments = ("--scale", "tiny", "--engine", engine, "--folder", str(tmp_path), "contention")
    with start(*arguments) as process:
        assert process.stdout
        for _ in range(2):  # the machine; then a line, so that its processes are at work
            assert process.stdout.readline()
        assert list(tmp_path.iterdir())
        process.terminate()
        # The output has its end only when nobody is left who could write to it.
        _, errors = process.communicate(timeout=END_SECONDS)
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert not list(tmp_path.iterdir())


def test_lists_its_names():
    """``--list`` names every benchmark once, each with what it measures."""
    done = run("--list")
    assert done.returncode == 0, done.stderr
    rows = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert [name for name, _ in rows] == list(BENCHMARKS)
    assert all(title for _, title in rows)


def test_prints_and_saves_the_same(tmp_path):
    """Without ``--json`` a line is for people; ``--save`` adds to a file what JSON says of it."""
    file = tmp_path / "results.ndjson"
    done = run("--scale", "tiny", "--save", str(file), "recipe")
    assert done.returncode == 0, done.stderr
    _, *saved = [json.loads(line) for line in file.read_text().splitlines()]
    printed = done.stdout.splitlines()[1:]
    assert [line.startswith(record["name"]) for line, record in zip(printed, saved, strict=True)]
    assert all("ratio" in line for line in printed)


def test_refuses_unknown_names():
    """A name that there is not ends it with usage's status, and nothing is measured."""
    done = run("nothing-such")
    assert done.returncode == 2
    assert "no such benchmark: nothing-such" in done.stderr
    assert not done.stdout


def test_a_cluster_needs_its_file():
    """``--engine cluster`` without a cluster's file is refused, and measures nothing else."""
    environment = {name: text for name, text in os.environ.items() if name != "FDB_CLUSTER_FILE"}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--engine", "cluster", "recipe"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 2
    assert "FDB_CLUSTER_FILE" in done.stderr
    assert not done.stdout


@pytest.mark.parametrize(
    ("arguments", "scale"), [([], "full"), (["--quick"], "quick"), (["--scale=tiny"], "tiny")]
)
def test_all_is_measured_unless_less_is_asked_for(arguments, scale):
    """Without an option the benchmarks run at their full length."""
    assert _parser().parse_args(arguments).scale == scale
