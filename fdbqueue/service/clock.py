"""The clock of this client, for what is hidden until a time and for the history.

Clients' clocks differ by their skew: keep leases and delays long against it.
"""

from __future__ import annotations

import time

_ahead_us = 0


def now_us() -> int:
    """Return the microseconds since the Unix epoch."""
    return time.time_ns() // 1000 + _ahead_us


def set_ahead(microseconds: int) -> None:
    """Set this process's clock ahead by so much more, for tests; negative to set it back."""
    global _ahead_us  # noqa: PLW0603  # a process has one clock
    _ahead_us += microseconds
