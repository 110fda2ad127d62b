"""A plugin that writes ``durations.json``: how long each test takes, in seconds.

``make durations`` runs all tests with it, on a machine at rest. The table has the mean of a test's
parameters if that is half a second or more: the rest are alike, and would change each time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from statistics import mean

import pytest

from tests.targets import DURATIONS, name_of

LEAST_SECONDS = 0.5
_seconds: dict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the time of a test's setup, call or teardown."""
    _seconds[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the table, in the process that hears of all tests."""
    if hasattr(session.config, "workerinput"):
        return
    of_test: dict[str, list[float]] = defaultdict(list)
    for nodeid, seconds in _seconds.items():
        of_test[name_of(nodeid)].append(seconds)
    table = {name: round(mean(found), 1) for name, found in sorted(of_test.items())}
    kept = {name: seconds for name, seconds in table.items() if seconds >= LEAST_SECONDS}
    DURATIONS.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")
