"""The monotonic clock of the machine, by which the package measures durations and ends waits.

A test may hold time still: freezegun puts functions of its own in the place of Python's, such as
``time.monotonic``, in every module that has them, and ``time_machine`` changes those that tell the
date. Neither touches what is below; so a wait in such a test ends, and workers go on.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

#: Seconds, and nanoseconds, from some moment on: functions in C, because each pop asks several
#: times.
monotonic: Callable[[], float] = functools.partial(time.clock_gettime, time.CLOCK_MONOTONIC)
monotonic_ns: Callable[[], int] = functools.partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC)
