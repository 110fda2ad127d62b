"""The tables of what is nightly, and of how long tests take, name tests that there are."""

from __future__ import annotations

import ast
import functools
import json

from tests.targets import DURATIONS, NIGHTLY, PAGES, ROOT


@functools.cache
def names_in(path):
    """Return the functions and classes of a file of tests."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if hasattr(node, "name")}


def is_there(entry):
    """Tell whether a folder, file or test exists."""
    file, _, test = entry.partition("::")
    path = ROOT / file
    if not test:
        return path.exists()
    *classes, name = test.split("::")
    if not path.exists() or not names_in(path).issuperset(classes):
        return False
    # a class may have its tests from one of another file
    files = path.parent.rglob("*.py") if classes else [path]
    return any(name in names_in(file) for file in files)


def test_what_is_nightly_is_there():
    """A test that was renamed or removed leaves the table."""
    entries = [one for entries in NIGHTLY.values() for one in entries]
    assert [one for one in entries if not is_there(one)] == []
    assert len(entries) == len(set(entries))


def test_the_durations_are_of_tests_that_are_there():
    """A test that was renamed or removed leaves the table."""
    table = json.loads(DURATIONS.read_text(encoding="utf-8"))
    assert [one for one in table if not is_there(one)] == []


def test_the_pages_that_always_run_are_there():
    """They are what a newcomer reads first."""
    assert [page for page in PAGES if not (ROOT / page).exists()] == []
