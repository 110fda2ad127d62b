"""The clock of this client, for leases, delays and the history.

Clients' clocks differ by their skew, so leases and delays should be much longer than that.
"""

from __future__ import annotations

import time
from typing import Any

from fdbqueue.exceptions import InvalidInput
from fdbqueue.service.limits import MAX_SECONDS

_ahead_us = 0


def now_us() -> int:
    """Return the microseconds since the Unix epoch."""
    return time.time_ns() // 1000 + _ahead_us


def set_ahead(microseconds: int) -> None:
    """Move this process's clock ahead, for tests; a negative number moves it back."""
    global _ahead_us  # noqa: PLW0603  # a process has one clock
    _ahead_us += microseconds


def duration(queue: str, name: str, seconds: Any) -> int:
    """Return a number of seconds in microseconds.

    Args:
        queue: The queue's name, for errors.
        name: The name of the argument, for errors.
        seconds: The number.

    Raises:
        InvalidInput: It is not a number from 0 to ten years.
    """
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= MAX_SECONDS:
        raise InvalidInput(queue=queue, allowed=f"0 to {MAX_SECONDS} seconds", **{name: seconds})
    return int(seconds * 1_000_000)
