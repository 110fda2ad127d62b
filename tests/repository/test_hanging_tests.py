"""A test that hangs ends: by itself, soon, and with what it hung on."""

from __future__ import annotations

import re
import subprocess
import sys

import tomllib

from tests.repository.compose import ROOT, text
from tests.repository.test_github import loaded

HANGING = """
import threading

def wait_for_ever():
    threading.Event().wait()

def test_hanging():
    threading.Thread(target=wait_for_ever, daemon=True).start()
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def test_before():
    pass

def test_behind():
    pass
"""


def limit():
    """Return how many seconds a test may take that says nothing else."""
    return tomllib.loads(text("pyproject.toml"))["tool"]["pytest"]["ini_options"]["timeout"]


def test_a_test_that_hangs_ends_alone(tmp_path):
    """It fails by its name, with the stacks of all threads; the others go on."""
    (tmp_path / "test_hanging.py").write_text(HANGING)
    soon = ["-o", "timeout=6", "-o", "faulthandler_timeout=3"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "-c", "pyproject.toml", *soon, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=limit() / 2,
        check=False,
    )
    assert re.search(r"^FAILED .*::test_hanging - ", done.stdout, re.MULTILINE)
    assert "1 failed, 2 passed" in done.stdout
    assert "in wait_for_ever" in done.stderr
    assert "in test_hanging" in done.stderr


def test_a_run_of_tests_that_hang_leaves_time_to_say_so():
    """Each ends a process, and those that replace it are so few that CI does not stop them."""
    (replaced,) = re.findall(r"--max-worker-restart (\d+)", text("Makefile"))
    longest = (int(replaced) + 1) * limit() / 60
    for name, job in (("ci", "all"), ("cluster", "cluster"), ("nightly", "nightly")):
        minutes = loaded(f".github/workflows/{name}.yml")["jobs"][job]["timeout-minutes"]
        assert longest < minutes / 2, name
