"""Each statement of docs/guarantees.md names a test of it."""

from __future__ import annotations

import functools
import re

from tests.docs.blocks import ROOT, Page

PAGE = Page("docs/guarantees.md")
#: What says that something is not promised.
NOT_TRIED = "## What has not been tried"
_NAMED = re.compile(r"<!-- ([\w/]+::\w+(?:, [\w/]+::\w+)*) -->")


def statements():
    """Yield the rows of tables and the items of lists, each as it is written."""
    text = PAGE.text.partition(NOT_TRIED)[0]
    for paragraph in text.strip().split("\n\n"):
        lines = paragraph.splitlines()
        if lines[0].startswith("|"):
            yield from lines[2:]
        elif lines[0].startswith("- "):
            yield from re.split(r"\n(?=- )", paragraph)


@functools.cache
def names_of(file):
    """Return the names of the tests of a file; none if it is gone."""
    path = ROOT / "tests" / f"{file}.py"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return frozenset(re.findall(r"def test_(\w+)\(", text))


def test_each_statement_names_a_test():
    """A row or an item that names none promises what no test keeps."""
    assert [one for one in statements() if not _NAMED.search(one)] == []


def test_the_named_tests_are_there():
    """A test that was renamed is named by its new name."""
    named = [one for names in _NAMED.findall(PAGE.text) for one in names.split(", ")]
    assert len(named) > 50
    missing = [
        one for one in named if one.partition("::")[2] not in names_of(one.partition("::")[0])
    ]
    assert missing == []


def test_the_recorded_steps_are_as_many_as_are_replayed():
    """The number of steps of a real cluster is the one that the replay's test counts."""
    replay = (ROOT / "tests" / "conformance" / "test_histories.py").read_text(encoding="utf-8")
    steps = sum(int(number) for number in re.findall(r'gz", \d+, (\d+)\)', replay))
    assert f"{steps:,} recorded steps" in PAGE.text
