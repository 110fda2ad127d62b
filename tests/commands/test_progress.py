"""What is told of a long command."""

from __future__ import annotations

import math
import re

from fdbqueue.management.console import ProgressMeter


def test_lines():
    """A line has the count, the rate, and, where the total is known, the time left."""
    lines = []
    with ProgressMeter(lines.append, 4_000, line_seconds=0) as progress:
        progress.advance(1_500)
        progress.advance(2_600)
    assert re.fullmatch(r"1,500 items, [\d,]+ per second, 4,000 in total, 0 seconds left", lines[0])
    assert re.fullmatch(r"4,100 items, [\d,]+ per second", lines[1])
    assert progress.done == 4_100


def test_an_unknown_total():
    """Where nobody knows how many there will be, no time is told."""
    lines = []
    with ProgressMeter(lines.append, None, line_seconds=0) as progress:
        progress.advance(7)
    assert re.fullmatch(r"7 items, [\d,]+ per second", lines[0])


def test_no_lines():
    """A command without an end prints none; one item is not called items."""
    lines = []
    with ProgressMeter(lines.append, None, line_seconds=math.inf) as progress:
        progress.advance(1)
    assert not any(lines)
    with ProgressMeter(lines.append, None, line_seconds=0) as progress:
        progress.advance(1)
    assert lines[1].startswith("1 item, ")


def test_not_too_often():
    """Lines come now and then, not with each batch."""
    lines = []
    with ProgressMeter(lines.append, 100) as progress:
        for _ in range(100):
            progress.advance(1)
    assert not any(lines)
