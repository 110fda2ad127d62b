"""The table of what is nightly names tests that there are."""

from __future__ import annotations

import ast

from tests.targets import NIGHTLY, PAGES, ROOT


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
    return path.exists() and test.split("::")[-1] in names_in(path)


def test_what_is_nightly_is_there():
    """A test that was renamed or removed leaves the table."""
    entries = [one for entries in NIGHTLY.values() for one in entries]
    assert [one for one in entries if not is_there(one)] == []
    assert len(entries) == len(set(entries))


def test_the_pages_that_always_run_are_there():
    """They are what a newcomer reads first."""
    assert [page for page in PAGES if not (ROOT / page).exists()] == []
