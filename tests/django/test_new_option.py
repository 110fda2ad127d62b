"""A queue option is written in one file: whatever shows or checks options reads it there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fdbqueue.service import options

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What a process shows whose ``options.py`` has two more options."""
    file = tmp_path_factory.mktemp("options") / "q.sqlite3"
    command = [sys.executable, "-m", "tests.django.more_options", str(file)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout)


def test_its_wrong_values_are_found(shown):
    """The system checks know what it may be."""
    assert shown["checks"] == ["fdbqueue.E010", "fdbqueue.E013"]


def test_rest_shows_it(shown):
    """The details of a queue have it, beside all others that there are."""
    assert (shown["rest"]["colour"], shown["rest"]["tries"]) == ("blue", None)
    assert shown["rest"].keys() > options.ALLOWED.keys()


def test_the_schema_describes_it(shown):
    """A choice has its texts, and a number that may be None is nullable."""
    assert shown["schema"]["tries"] == {"type": "integer", "nullable": True}
    assert "ColourEnum" in str(shown["schema"]["colour"])


def test_the_page_of_a_queue_shows_it(shown):
    """Under its label; a FIFO queue does not show what it does not have."""
    assert ["Colour of the queue", "blue"] in shown["page"]
    assert ["Tries", "no limit"] in shown["page"]
    assert "Priority type" not in dict(shown["page"])


def test_each_option_has_its_label_and_its_keyword():
    """Pages have a name for it, and type checkers know the arguments of queues."""
    assert all(allowed.label for allowed in options.ALLOWED.values())
    keywords = options.QueueKeywords.__annotations__.keys()
    assert keywords == options.names_for("fifo") == options.ALLOWED.keys() - {"priority_type"}
