"""What each target of the Makefile runs, and in which order: one table.

| target | runs |
|---|---|
| ``make test`` | each promise once: all tests that are not *nightly* |
| ``make nightly`` | all tests but those of ``tests/soak`` |
| ``make soak`` | ``tests/soak``, and sizes in full that the others have in part (``thorough``) |

A test is nightly if it

- is marked ``@pytest.mark.nightly``: it starts many processes, repeats what another test shows in
  less, or waits for seconds,
- is in a file of ``NIGHTLY``, or
- is one test for many kinds of queue, and this kind is not among the first three of ``KINDS``
  that the test has; or runs a page of the documentation other than ``PAGES``, which the working
  tree has not changed.

``durations.json`` has how long each test takes that takes a tenth of a second or more, from one
run at rest (``make durations``). The longest begin first, so that no worker has one left when
the others have ended. Tests that share a server, a browser or a project are one worker's.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.concurrency.kinds import Kind

ROOT = Path(__file__).resolve().parents[1]
DURATIONS = ROOT / "tests/durations.json"
#: Files and folders of which each test is nightly.
NIGHTLY: tuple[str, ...] = ()
#: Which kinds of queue ``make test`` prefers: a test over many kinds has the first three it knows.
KINDS = ("fifo", "ints-commit-bytes", "ints-shards", "floats")
MOST_KINDS = 3
#: The pages of the documentation whose blocks ``make test`` always runs.
PAGES = frozenset({"README.md", "docs/quickstart.md"})
#: Fixtures of a whole session that cost next to nothing, so that tests need not share a worker.
CHEAP = frozenset({"embedded_path", "token"})
#: What a test takes that is not in the table.
SHORT_SECONDS = 0.02


def mark(items: list[pytest.Item]) -> None:
    """Mark what is nightly, and give tests that share something the name of their group."""
    chosen = _chosen_kinds(items)
    for item in items:
        if _is_nightly(item, chosen):
            item.add_marker(pytest.mark.nightly)
        if group := _group(item):
            item.add_marker(pytest.mark.xdist_group(group))


def order(items: list[pytest.Item]) -> None:
    """Let the longest begin first; a group is as long as its tests together."""
    seconds: dict[str, float] = defaultdict(float)
    for item in items:
        seconds[_unit(item)] += duration(item)
    items.sort(key=lambda item: (-seconds[_unit(item)], _unit(item)))


def duration(item: pytest.Item) -> float:
    """Return how many seconds a test took when the table was written."""
    return _durations().get(name_of(item.nodeid), SHORT_SECONDS)


def name_of(nodeid: str) -> str:
    """Return the name under which the table has a test: without parameters and group."""
    return nodeid.partition("[")[0].partition("@")[0]


@cache
def _durations() -> dict[str, float]:
    found: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8"))
    return found


def _unit(item: pytest.Item) -> str:
    marker = item.get_closest_marker("xdist_group")
    return marker.args[0] if marker else item.nodeid


def _is_nightly(item: pytest.Item, chosen: dict[str, set[str]]) -> bool:
    if item.nodeid.startswith(NIGHTLY):
        return True
    kind, page = _parameter(item, Kind), _page(item)
    return (kind is not None and kind.name not in chosen[name_of(item.nodeid)]) or (
        page is not None and page not in PAGES | _changed()
    )


def _parameter(item: pytest.Item, kind: type) -> Any:
    """Return the parameter of a test that is of a class."""
    callspec = getattr(item, "callspec", None)
    values = callspec.params.values() if callspec else ()
    return next((value for value in values if isinstance(value, kind)), None)


def _page(item: pytest.Item) -> str | None:
    """Return the path of the page whose blocks a test runs."""
    if "runner_of" not in getattr(item, "fixturenames", ()):
        return None
    page = item.callspec.params.get("page") if hasattr(item, "callspec") else None
    return page.path if page else None


def _chosen_kinds(items: list[pytest.Item]) -> dict[str, set[str]]:
    """Return the kinds that ``make test`` has of each test over kinds of queue."""
    has: dict[str, set[str]] = defaultdict(set)
    for item in items:
        if kind := _parameter(item, Kind):
            has[name_of(item.nodeid)].add(kind.name)
    chosen = {}
    for test, names in has.items():
        known = [name for name in KINDS if name in names]
        chosen[test] = set((known or sorted(names))[:MOST_KINDS])
    return chosen


@cache
def _changed() -> frozenset[str]:
    """Return the files that the working tree has changed; none if git does not say."""
    command = ["git", "status", "--porcelain", "--no-renames"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return frozenset()
    return frozenset(line[3:] for line in done.stdout.splitlines())


def _group(item: pytest.Item) -> str | None:
    """Return who must run a test: tests that share a costly fixture, or None for any worker."""
    scopes = {}
    for name, definitions in getattr(item, "_fixtureinfo").name2fixturedefs.items():  # noqa: B009
        if definitions[-1].baseid.startswith("tests") and name not in CHEAP:
            scopes[definitions[-1].scope] = definitions[-1].baseid
    for scope in ("session", "package", "module", "class"):
        if scope in scopes:
            return item.nodeid.partition("::")[0] if scope == "module" else scopes[scope]
    return None
