"""What the commands print: escapes, clipping, ages and tables."""

from __future__ import annotations

import json
import uuid

from hypothesis import given
from hypothesis import strategies as st

from fdbqueue.columns.text import cell_duration, printable
from fdbqueue.management import formats
from tests.cases import cases

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=10,
)


@given(st.text(st.characters()))
def test_visible(text):
    """Whatever the text, only printing characters are left, and those it had are unchanged."""
    shown = printable(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()


@given(JSON | st.binary())
def test_previews(value):
    """A preview prints on one line of at most 60 characters."""
    shown = formats.preview(value)
    assert shown.isprintable()
    assert len(shown) <= 60


@given(JSON)
def test_json_lines(value):
    """A JSON value comes back from its line exactly; the line is printing ASCII."""
    line = formats.json_line({"value": value})
    assert line.isascii()
    assert line.isprintable()
    back = json.loads(line)["value"]
    finite = "Infinity" not in json.dumps(value)
    assert not finite or back == value


def test_json_lines_of_other_types():
    """What JSON does not know becomes text rather than an error."""
    number = uuid.UUID(int=7)
    line = formats.json_line({"a": number, "b": b"\xff", "c": [float("inf")], "d": "NaN"})
    assert json.loads(line) == {"a": str(number), "b": "/w==", "c": ["Infinity"], "d": "NaN"}


@cases(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0.9, "0s"),
        (59, "59s"),
        (60, "1m"),
        (3599, "59m"),
        (7200, "2h"),
        (172_799, "47h"),
        (2e6, "23d"),
    ],
)
def test_ages(seconds, text):
    """An age is given in its largest unit; a clock that is ahead makes none."""
    assert cell_duration(seconds) == text
