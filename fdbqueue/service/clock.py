"""The clock of this client, for what is hidden until a time and for the history.

Clients' clocks differ by their skew: keep leases and delays long against it.
"""

from __future__ import annotations

import time


def now_us() -> int:
    """Return the microseconds since the Unix epoch."""
    return time.time_ns() // 1000
