"""The order of queues: both ends of one order, whatever was pushed."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

from hypothesis import strategies as st

EARTHQUAKES = Path(__file__).resolve().parents[2] / "project" / "sample_data" / "earthquakes.ndjson"
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SMALL = st.integers(-3, 3)
#: Each step pushes with a priority, or pops from an end.
STEPS = st.lists(st.one_of(SMALL, FINITE, st.sampled_from(["min", "max"])), max_size=30)


def test_a_fifo_queue_gives_back_in_order_of_push(fifo):
    """What was pushed first is popped first; the max end gives what was pushed last."""
    for value in "abcde":
        fifo.push(value)
    assert [fifo.pop().value, fifo.pop_min().value, fifo.pop_max().value] == ["a", "b", "e"]
    assert [item.value for item in fifo.pop_many(10)] == ["c", "d"]
    assert fifo.pop() is None


def test_equals_come_in_order_of_push_from_the_min_end(ints):
    """Among equal priorities pop_min takes the earliest, pop_max the latest."""
    ints.push_many([("a", 1), ("b", 1), ("c", 1)])
    ints.push("d", 1)
    assert [ints.pop_min().value, ints.pop_max().value] == ["a", "d"]
    assert [item.value for item in ints.pop_many(2, end="max")] == ["c", "b"]


def test_integers_and_floats_stand_in_numeric_order(floats):
    """A float queue orders 2 after 0.31, which the tuple layer alone would not."""
    floats.push_many([(p, p) for p in (2, 0.31, -1, -0.5, 0, 6.4, 3)])
    assert [item.value for item in floats.pop_many(10)] == [-1, -0.5, 0, 0.31, 2, 3, 6.4]


def test_minus_zero_is_zero(floats):
    """-0.0 and 0.0 are one priority, in order of push."""
    floats.push_many([("first", 0.0), ("second", -0.0), ("third", 0)])
    assert [item.value for item in floats.pop_many(3)] == ["first", "second", "third"]


def test_the_whole_64_bit_range_is_ordered(ints):
    """The least and the greatest 64-bit integers are the ends."""
    ints.push_many([("high", 2**63 - 1), ("low", -(2**63)), ("zero", 0)])
    assert [item.value for item in ints.pop_many(3)] == ["low", "zero", "high"]


def test_earthquakes_come_strongest_first(floats):
    """69 of 1,707 magnitudes are integers and some are negative: each pop_max is the max."""
    records = [json.loads(line) for line in EARTHQUAKES.read_text(encoding="utf-8").splitlines()]
    assert floats.push_many([(record, record["magnitude"]) for record in records]) == 1707
    popped = []
    while items := floats.pop_many(400, end="max"):
        popped += items
    assert popped[0].value["magnitude"] == 6.4
    assert "Hualian" in popped[0].value["place"]
    magnitudes = [item.priority for item in popped]
    assert magnitudes == sorted(magnitudes, reverse=True)
    assert sorted(item.value["id"] for item in popped) == sorted(r["id"] for r in records)


def test_an_item_says_when_it_was_pushed(fifo):
    """pushed_at is the pusher's clock, in UTC, the same for the pusher and the popper."""
    before = datetime.datetime.now(datetime.timezone.utc)
    pushed = fifo.push("x")
    popped = fifo.pop()
    assert popped == pushed
    assert before <= popped.pushed_at <= datetime.datetime.now(datetime.timezone.utc)
    assert popped.pushed_at.tzinfo is datetime.timezone.utc
