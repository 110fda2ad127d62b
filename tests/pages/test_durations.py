"""Ages and settings in the unit in which people read them."""

from __future__ import annotations

import datetime
import re

import pytest

from fdbqueue.columns.text import duration, short_age
from tests.cases import cases
from tests.pages.addresses import of, text


@cases(
    ("seconds", "words"),
    [
        (-5, "0 s"),  # the clock of the client that pushed it is ahead
        (0.9, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3_599, "59 min"),
        (3_600, "1 h"),
        (172_799, "47 h"),
        (172_800, "2 d"),
        (86_400 * 1_234, "1,234 d"),
    ],
)
def test_a_duration_is_in_one_unit(seconds, words):
    """The largest that says something."""
    assert duration(seconds) == words


def test_an_age_is_up_to_now():
    """Of a moment in whatever time zone."""
    now = datetime.datetime.now(datetime.timezone(datetime.timedelta(hours=5)))
    assert short_age(now - datetime.timedelta(minutes=7, seconds=3)) == "7 min"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.5, "0.5 s"), (30, "30 s"), (90, "90 s"), (600, "10 min")]
)
def test_a_setting_is_exact(viewer, settings, seconds, words):
    """Its unit is larger where nothing is lost."""
    mail = {"kind": "fifo", "handoff_timeout_seconds": seconds, "max_value_bytes": 100_000}
    settings.FDBQUEUE = {**settings.FDBQUEUE, "QUEUES": {"mail": mail}}
    facts = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", text(viewer.get(of("mail")))))
    assert facts["Handoff timeout"] == words
    assert facts["Maximum value size"] == "100 kB"
