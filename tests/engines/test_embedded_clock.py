"""Versions count real time: whichever process commits, and wherever the clocks are set."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from fdbqueue.engines.embedded import version_clock
from fdbqueue.engines.embedded.version_clock import Anchor, next_version
from tests.engines.alone import alone
from tests.engines.children import run

_HOUR = 3_600_000_000
#: The clock of versions and that of the test are read in whole microseconds, each at its own rate.
_ROUNDED = 100

#: Commits once for each line told, its wall clock being so many seconds off.
_COMMIT = """
from fdbqueue.engines.embedded import version_clock

wall = version_clock.unix_microseconds
version_clock.unix_microseconds = lambda: wall() + int(sys.argv[2]) * 1_000_000
for line in sys.stdin:
    say(run(database, lambda tr: tr.set(b"a", b"")).get_committed_version())
"""


def _elapsed(commit):
    """Return by how much versions went up from one commit to another, and in what time.

    That is the least time that may be between them, and the most, in microseconds.
    """
    began = time.monotonic_ns()
    first = commit()
    ended = time.monotonic_ns()
    for _ in range(49):
        commit()
    least = time.monotonic_ns() - ended
    last = commit()
    return last - first, least // 1000, (time.monotonic_ns() - began) // 1000


@pytest.mark.parametrize("seconds", [-31_536_000, -3600, 3600, 31_536_000])
def test_processes_whose_wall_clock_was_set(database, start, seconds):
    """Several processes that commit in turn make versions go on by real time, not faster."""
    children = [start(_COMMIT, seconds) for _ in range(3)]

    def commit():
        versions = [run(database, lambda tr: tr.set(b"a", b"")).get_committed_version()]
        for child in children:
            child.tell()
            versions.append(int(child.line()))
        assert versions == sorted(set(versions))
        return versions[-1]

    commit()
    versions, least, most = _elapsed(commit)
    assert least - _ROUNDED <= versions <= most + _ROUNDED


def test_a_transaction_of_a_second_beside_other_processes(database, start):
    """With the clock set back since the file was made, commits of others make none too old."""
    alone(database)[b"a"] = b""
    children = [start(_COMMIT, -3600) for _ in range(4)]
    for child in children:  # one after the other: each looked back to when it had started
        child.tell()
        child.line()
    transaction = database.create_transaction()
    transaction[b"mine"].wait()
    transaction[b"mine"] = b"1"
    until = time.monotonic() + 2
    while time.monotonic() < until:
        for child in children:
            child.tell()
            child.line()
    assert transaction.commit().exception() is None


def test_the_rule(monkeypatch):
    """As ``next_version`` says: by the same counter; else by the wall clock; never back."""
    monkeypatch.setattr(version_clock, "counter", lambda: "now")
    monkeypatch.setattr(version_clock, "reading", lambda: 5_000)
    monkeypatch.setattr(version_clock, "unix_microseconds", lambda: 9 * _HOUR)
    same = Anchor("now", 1_000, 70_000, 2 * _HOUR)
    assert next_version(same, 70_001) == (74_000, same)
    assert next_version(same, 74_000) == (74_001, Anchor("now", 5_000, 74_001, 9 * _HOUR))
    rebooted = same._replace(counter="before")
    due = 70_000 + 7 * _HOUR
    assert next_version(rebooted, 71_000) == (due, Anchor("now", 5_000, due, 9 * _HOUR))
    ahead = rebooted._replace(unix_microseconds=10 * _HOUR)
    assert next_version(ahead, 71_000) == (71_001, Anchor("now", 5_000, 71_001, 9 * _HOUR))


@pytest.mark.skipif(not os.path.exists("/proc/self/ns/time"), reason="no time namespaces")
def test_a_machine_started_anew(database, path):
    """Where the counter is another one, and reads less or more, versions go on by real time."""
    if subprocess.run(["unshare", "-T", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to make a time namespace")
    here = run(database, lambda tr: tr.set(b"a", b"")).get_committed_version()
    script = """
import sys
from fdbqueue.engines import embedded
from tests.engines.children import run
database = embedded.open(sys.argv[1])
print(run(database, lambda tr: tr.set(b"a", b"")).get_committed_version())
"""
    for offset in ("-60", "1000000"):
        unshare = ["unshare", "-T", "--fork", "--boottime", offset, sys.executable, "-c", script]
        began = time.monotonic()
        there = subprocess.run(
            [*unshare, str(path)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.curdir},
            check=False,
        )
        assert there.returncode == 0, there.stderr
        elsewhere = int(there.stdout)
        again = run(database, lambda tr: tr.set(b"a", b"")).get_committed_version()
        assert here < elsewhere < again
        assert again - here < 5_000_000 + (time.monotonic() - began) * 1_000_000
        here = again
