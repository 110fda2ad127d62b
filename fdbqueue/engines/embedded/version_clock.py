"""The clock of versions: microseconds of real time, the same in every process.

They never go back, whatever the wall clock says (:func:`next_version`). Processes share the counter
only on Linux, in one time namespace.
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

    By the anchor, version ``V`` was due when its counter read ``R`` and the wall clock ``W``. If
    they read ``r`` and ``w`` now, the version is

    1. ``V + (r - R)`` by the same counter, which cannot be set and counts during sleep;
    2. ``V + (w - W)`` by another: the machine was started again, the file was moved, or, without
       one counter for all processes, another process has committed;
    3. the newest plus one, if that is not above the newest.

    After 2 or 3 what was found is the new anchor.

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
