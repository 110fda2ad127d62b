"""The clock of versions: microseconds of real time, the same in every process.

The file holds one anchor: the version ``V`` that was due when a counter read ``R`` and the
wall clock said ``W``. A commit at which they say ``r`` and ``w`` follows this rule:

1. By the same counter its version is ``V + (r - R)``. All processes of a machine read the
   same counter, which cannot be set and which counts while the machine sleeps. So neither
   the wall clock nor which process commits plays a part.
2. By another counter (the machine was started again, or the file came to another one) its
   version is ``V + (w - W)``: the wall clock stands in for the time in between.
3. If that is not above the newest version of the file, it is the newest plus one.
4. A commit that did not get its version by 1 alone makes that version, its counter and its
   times the anchor.

So versions never go back (3), are 1,000,000 for each second of real time while the machine
is up (1), and go on from there, whatever the wall clock says, after it was started again (4).

The counter's name is Linux's boot id, with the time namespace, whose counters are its own.
If there is no boot id (macOS) each process counts for itself, and the wall clock stands
in whenever another process commits: to set it forward then makes versions leap once.
"""

from __future__ import annotations

import functools
import os
import time
import uuid
from pathlib import Path
from typing import NamedTuple

#: On Linux the clock that counts while the machine sleeps, too.
_COUNTER = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIME_NAMESPACE = "/proc/self/ns/time"


class Anchor(NamedTuple):
    """The version that was due at a moment, as the file holds it."""

    counter: str
    reading: int
    version: int
    unix_microseconds: int


def next_version(anchor: Anchor, newest: int) -> tuple[int, Anchor]:
    """Return the version of a commit made now, and the anchor of later ones.

    Args:
        anchor: The file's.
        newest: The version of the newest commit.
    """
    now = reading()
    is_same = anchor.counter == counter()
    if is_same:
        version = anchor.version + now - anchor.reading
        if version > newest:
            return version, anchor
    wall = unix_microseconds()
    due = 0 if is_same else anchor.version + wall - anchor.unix_microseconds
    version = max(due, newest + 1)
    return version, Anchor(counter(), now, version, wall)


#: Return what the counter reads, in seconds; a function in C, for what is asked often.
seconds = functools.partial(time.clock_gettime, _COUNTER)


def reading() -> int:
    """Return what the counter reads, in microseconds."""
    return time.clock_gettime_ns(_COUNTER) // 1000


def unix_microseconds() -> int:
    """Return the wall clock's time."""
    return time.time_ns() // 1000


@functools.cache
def counter() -> str:
    """Return the name of the counter, which differs if readings cannot be compared."""
    try:
        boot = _BOOT_ID.read_text().strip()
    except OSError:
        return uuid.uuid4().hex
    try:
        return f"{boot} {os.readlink(_TIME_NAMESPACE)}"
    except OSError:  # a kernel without time namespaces
        return boot
