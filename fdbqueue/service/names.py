"""Names of queues, and patterns of names: what they may be, and which names fit which patterns."""

from __future__ import annotations

import fnmatch
import os
import re
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fdbqueue.exceptions import InvalidInput
from fdbqueue.locks import RLock

#: What a queue may be called; fits a URL, a file name and a command line as it is.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
#: The same with ``*`` for any characters: a pattern of names.
PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9_.*-]{0,99}")


#: Names are kept for so many times as long as it took to list them, if that is longer than asked.
_KEPT_TIMES = 20


class KeptNames:
    """The names of all queues, as they were a short time ago.

    One thread lists them, and others wait for it, each at most until its own deadline and that
    one's are over. What was listed before a deadline is kept, too, and the next thread goes on
    from there: so names are known in the end, however long it takes to list them.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        #: When a listing began, how long it has taken, and its names: one that ended, and one
        #: that goes on. Each is replaced as a whole, by who has the lock.
        self._kept: tuple[float, float, list[str]] = float("-inf"), 0.0, []
        self._begun: tuple[float, float, list[str]] = self._kept
        _all.add(self)

    def get(self, seconds: float, list_after: Callable[[str], Iterable[str]]) -> list[str]:
        """Return the names, sorted, as they were within the last seconds.

        Args:
            seconds: They are kept for twenty times as long as it took to list them, if that is
                longer.
            list_after: Lists the names that sort after one.

        Raises:
            Exception: Raised by ``list_after``.
        """
        if _is_fresh(self._kept, seconds):
            return self._kept[2]
        with self.lock:
            if not _is_fresh(self._kept, seconds):
                self._kept = self._list(seconds, list_after)
            return self._kept[2]

    def _list(
        self, seconds: float, list_after: Callable[[str], Iterable[str]]
    ) -> tuple[float, float, list[str]]:
        now = time.monotonic()
        begun = self._begun if _is_fresh(self._begun, seconds) else (now, 0.0, [])
        at, took, names = begun[0], begun[1], [*begun[2]]
        try:
            names.extend(list_after(names[-1] if names else ""))
        finally:
            self._begun = at, took + time.monotonic() - now, names
        found, self._begun = self._begun, (float("-inf"), 0.0, [])
        return found


def _is_fresh(listed: tuple[float, float, list[str]], seconds: float) -> bool:
    at, took, _names = listed
    return time.monotonic() - at <= max(seconds, _KEPT_TIMES * took)


_all: weakref.WeakSet[KeptNames] = weakref.WeakSet()


def _restart_after_fork() -> None:
    """Let no thread list names, as in a forked process, which has one thread."""
    for kept in list(_all):
        kept.lock = RLock()


os.register_at_fork(after_in_child=_restart_after_fork)


def check_pattern(name: str) -> None:
    """Check that a text is a pattern of names.

    Raises:
        InvalidInput: It is not.
    """
    if not PATTERN.fullmatch(name):
        raise InvalidInput(name=name, reason="it is not a pattern of names")


def fits_of(patterns: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a function that returns which of the patterns a name fits."""
    tests = [(one, matcher(one)) for one in patterns]
    return lambda name: [one for one, matches in tests if matches(name)]


def matcher(pattern: str) -> Callable[[str], Any]:
    """Return what matches the names that fit a pattern, without a call of Python code."""
    return re.compile(fnmatch.translate(pattern)).match


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
