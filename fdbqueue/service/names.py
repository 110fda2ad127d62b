"""Names of queues, and patterns of names: what they may be, and which names fit which patterns."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence

from fdbqueue.exceptions import InvalidInput

#: What a queue may be called; fits a URL, a file name and a command line as it is.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
#: The same with ``*`` for any characters: a pattern of names.
PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9_.*-]{0,99}")


def check_pattern(name: str) -> None:
    """Check that a text is a pattern of names.

    Raises:
        InvalidInput: It is not.
    """
    if not PATTERN.fullmatch(name):
        raise InvalidInput(name=name, reason="it is not a pattern of names")


def fits_of(patterns: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a function that returns which of the patterns a name fits."""
    tests = [(one, re.compile(fnmatch.translate(one)).match) for one in patterns]
    return lambda name: [one for one, matches in tests if matches(name)]


def covers(pattern: str, other: str) -> bool:
    """Tell whether every name that fits the other pattern fits this one, too.

    No literal of a pattern is a ``*``. So those of the other are covered by those of this one.
    """
    return fnmatch.fnmatchcase(other, pattern)


def share_a_name(one: str, other: str) -> bool:
    """Tell whether a text fits two patterns, in which ``*`` stands for any characters."""
    reached = {(0, 0)}
    left = [(0, 0)]
    while left:
        a, b = left.pop()
        if (a, b) == (len(one), len(other)):
            return True
        steps = []
        if one[a : a + 1] == "*":
            steps += [(a + 1, b), (a, b + 1)]
        if other[b : b + 1] == "*":
            steps += [(a, b + 1), (a + 1, b)]
        if one[a : a + 1] == other[b : b + 1]:
            steps.append((a + 1, b + 1))
        new = {step for step in steps if step[0] <= len(one) and step[1] <= len(other)} - reached
        reached |= new
        left.extend(new)
    return False
