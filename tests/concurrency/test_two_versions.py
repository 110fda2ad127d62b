"""The last release beside this code, as when it is deployed: nothing is lost, nobody starves."""

from __future__ import annotations

import io
import itertools
import json
import os
import random
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.concurrency.clients import together
from tests.concurrency.kinds import KINDS
from tests.concurrency.test_killed import check_reported

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("beside.py")
THREADS = 2
#: No call takes so long, whichever version makes it: five times as long as a request for help.
STARVED_SECONDS = 5
KINDS_HERE = [kind for kind in KINDS if kind.name in {"fifo", "ints"}]

pytestmark = pytest.mark.nightly


def git(*arguments):
    """Return what git says, in bytes."""
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """The folder of the other version: ``FDBQUEUE_TEST_OTHER``, or the last release from 2.0 on.

    Before there is one, it is the last commit, which this code may differ from.
    """
    if not (ROOT / ".git").exists():
        pytest.skip("no history: this is no clone")
    tags = git("tag", "--list", "v[2-9]*", "--merged", "HEAD", "--sort=-v:refname").decode().split()
    name = os.environ.get("FDBQUEUE_TEST_OTHER") or [*tags, "HEAD"][0]
    folder = tmp_path_factory.mktemp("other")
    with tarfile.open(fileobj=io.BytesIO(git("archive", name, "fdbqueue"))) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def start(engine, subspace):
    """Start a process of a version; it is killed at the end."""
    processes = []

    def start(version, name, kind):
        place = getattr(engine.database, "path", None) or os.environ["FDB_CLUSTER_FILE"]
        arguments = [engine.name, place, subspace.key().hex(), name, THREADS]
        processes.append(
            subprocess.Popen(
                [sys.executable, SCRIPT, *map(str, arguments), json.dumps(kind.priorities)],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": str(version)},
            )
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def read_and_kill(process, lines):
    """Kill a process once it has said so much, and return all that it said."""
    said = list(itertools.islice(iter(process.stdout.readline, ""), lines))
    process.kill()
    return [json.loads(line) for line in said + process.communicate()[0].splitlines()]


@pytest.mark.parametrize("kind", KINDS_HERE, ids=str)
def test_beside_the_last_release(engine, subspace, start, other, kind, record_property):
    """Five processes of each are killed one after another, and no call of any has starved."""
    versions = [("old", other), ("new", ROOT)] * 5
    processes = [start(version, f"{name}{n}-", kind) for n, (name, version) in enumerate(versions)]
    lines = [random.randrange(200, 800) for _ in processes]
    said = together(len(processes), lambda n: read_and_kill(processes[n], lines[n]))
    assert all(len(each) >= count for each, count in zip(said, lines, strict=True))
    check_reported(engine, subspace, kind, [fact for each in said for fact in each])
    for name in ("old", "new"):
        longest = max(
            (fact["seconds"], fact["doing"])
            for each in said
            for fact in each
            if fact["done"] and fact["who"].startswith(name)
        )
        record_property(f"longest call of the {name} version", longest)
        assert longest[0] < STARVED_SECONDS, (name, longest)
