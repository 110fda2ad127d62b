"""The kit itself: a right backend passes it, and each wrong one fails the tests that it should."""

from __future__ import annotations

import inspect
import subprocess
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

import pytest
from django.test import SimpleTestCase

from tests.task_backends import kit
from tests.task_backends.kit import CLAIMS, BackendConformance, ConformanceCase
from tests.task_backends.memory import MemoryBackend
from tests.task_backends.wrong import WRONG

ROOT = Path(__file__).resolve().parents[2]
#: The one test that waits for a second.
SLOW = "test_a_task_runs_after_its_time"


class MemoryConformance(BackendConformance):
    """The kit over a backend in memory."""

    backend = f"{MemoryBackend.__module__}.MemoryBackend"
    claims = frozenset({"order-of-enqueueing", "retries", "results-outlive-code"})

    def setUp(self):
        super().setUp()
        MemoryBackend.results.clear()

    def run_worker(self, count=None):
        self.task_backend.work(count)


class TestMemoryBackend(MemoryConformance, SimpleTestCase):
    """A backend that does everything right passes."""


def path_of(backend):
    return f"{backend.__module__}.{backend.__qualname__}"


def run(case, names):
    """Run tests of a test case as unittest does, and return what came of it.

    They have a thread of their own, in which no exception is being handled: its traceback would be
    part of that of each exception that a task raises, and grow with each call of an event loop.
    """
    result = unittest.TestResult()
    with ThreadPoolExecutor(1) as executor:
        executor.submit(unittest.TestSuite(map(case, names)).run, result).result()
    return result


def names_in(outcomes):
    return {test._testMethodName for test, _ in outcomes}


def names_of(case):
    return set(unittest.defaultTestLoader.getTestCaseNames(case))


@pytest.mark.parametrize("backend", WRONG, ids=lambda backend: backend.__name__)
def test_a_wrong_backend_fails_the_tests_of_its_defect(backend):
    """It fails these, and passes the others of the same concerns."""
    expected = WRONG[backend]
    waits = SLOW in expected
    attributes = {"backend": path_of(backend), "deadline_seconds": 1.5 if waits else 0.3}
    case = type("WrongBackend", (MemoryConformance, SimpleTestCase), attributes)
    concerns = [vars(one) for one in BackendConformance.__bases__ if expected & vars(one).keys()]
    names = {name for concern in concerns for name in concern if name.startswith("test_")}
    assert expected
    assert expected <= names
    result = run(case, sorted(names - ({SLOW} - expected)))
    assert names_in(result.failures + result.errors) == expected


def test_an_expected_failure_is_reported_as_one():
    """What known_failures names may fail, what it names and passes is an error."""

    class Case(MemoryConformance, SimpleTestCase):
        backend = f"{MemoryBackend.__module__}.MemoryBackend"
        known_failures = MappingProxyType({"test_ids": "none, in fact", "test_checks": "the same"})

        def test_other(self):
            """Be a test of the author's own."""

    class Failing(Case):
        known_failures = MappingProxyType({"test_other": "it does"})

        def test_other(self):
            """Fail."""
            raise AssertionError

    result = run(Case, ["test_ids", "test_checks", "test_other"])
    assert names_in((test, "") for test in result.unexpectedSuccesses) == {
        "test_ids",
        "test_checks",
    }
    assert not result.wasSuccessful()
    result = run(Failing, ["test_other"])
    assert names_in(result.expectedFailures) == {"test_other"}
    assert result.wasSuccessful()


def test_a_known_failure_that_is_not_a_test_is_refused():
    """A misspelt name does not go unnoticed."""
    with pytest.raises(TypeError, match="test_idz"):
        type("Case", (BackendConformance, SimpleTestCase), {"known_failures": {"test_idz": "x"}})


def test_a_claim_that_is_not_one_is_refused():
    """A misspelt claim does not leave its tests out."""
    with pytest.raises(TypeError, match="worker-deaths"):
        type("Case", (BackendConformance, SimpleTestCase), {"claims": {"worker-deaths"}})


def test_a_claim_without_a_worker_process_fails():
    """Who claims to handle killed workers has workers to kill."""
    case = type("Case", (MemoryConformance, SimpleTestCase), {"claims": set(CLAIMS)})
    names = {name for name in names_of(case) if hasattr(kit.WorkerDeath, name)}
    assert names_in(run(case, names).failures) == names


def test_what_does_not_apply_says_why():
    """Each test that is left out has a reason."""
    case = type("Case", (BackendConformance, SimpleTestCase), {"execution": "never"})
    case.backend = path_of(MemoryBackend)
    skipped = run(case, sorted(names_of(case))).skipped
    assert len(skipped) > 20
    assert all(reason.startswith("does not apply: ") for _, reason in skipped)


def test_every_test_says_what_must_hold():
    """The author of a backend reads a sentence where a test fails."""
    for name in names_of(TestMemoryBackend):
        assert inspect.getdoc(getattr(BackendConformance, name)), name


def test_every_concern_is_in_the_kit():
    """A mix-in that exists is one that BackendConformance has, and no test hides another."""
    concerns = [
        one
        for one in vars(kit).values()
        if inspect.isclass(one) and issubclass(one, ConformanceCase) and one is not ConformanceCase
    ]
    tests = [name for one in concerns for name in vars(one) if name.startswith("test_")]
    assert len(tests) == len(set(tests))
    assert set(concerns) - {BackendConformance} == set(BackendConformance.__bases__)


def test_the_kit_needs_no_backend_of_ours():
    """Importing it loads nothing of fdbqueue's queues, and needs no TASKS."""
    code = (
        "import sys, django; from django.conf import settings; settings.configure(TASKS={});"
        "django.setup(); import tests.task_backends.kit;"
        "print(*sorted(m for m in sys.modules if m.startswith('fdbqueue')))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    outside = [
        name
        for name in answer.stdout.split()
        if not name.startswith("tests.task_backends.kit")
        and name
        not in {"fdbqueue", "fdbqueue.exceptions", "fdbqueue.tasks", "fdbqueue.tasks.compat"}
    ]
    assert outside == []
