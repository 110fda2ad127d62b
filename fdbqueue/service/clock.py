"""The clock of this client, for leases, delays and the history; moments and durations.

Clients' clocks differ by their skew, so leases and delays should be much longer than that.
"""

from __future__ import annotations

import datetime
import time
from typing import Any

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service.sizes import MAX_SECONDS

#: A moment that another client took for the present, and that is so much later than the present
#: here, is wrong.
MAX_AHEAD_US = 60_000_000

_ahead_us = 0
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def now_us() -> int:
    """Return the microseconds since the Unix epoch."""
    return time.time_ns() // 1000 + _ahead_us


def is_machines(database: Database) -> bool:
    """Tell whether all clients of a database have the clock of one machine."""
    return getattr(database, "is_of_one_machine", False)


def shared_us(tr: Transaction, database: Database) -> int:
    """Return microseconds that all clients of a database count alike, whatever their clocks say.

    They are the versions of a cluster, which it counts by its time. The versions of a file stand
    still while nothing is committed, so there it is the machine's clock.
    """
    return now_us() if is_machines(database) else int(tr.get_read_version().wait())


def set_ahead(microseconds: int) -> None:
    """Move this process's clock ahead, for tests; a negative number moves it back."""
    global _ahead_us  # noqa: PLW0603  # a process has one clock
    _ahead_us += microseconds


def duration(queue: str, name: str, given: Any) -> int:
    """Return a number of seconds, or a ``timedelta``, in microseconds.

    Args:
        queue: The queue's name, for errors.
        name: The name of the argument, for errors.
        given: The number, or the ``timedelta``.

    Raises:
        InvalidInput: It is neither, or not from 0 to ten years.
    """
    seconds = given
    if not isinstance(given, int | float):  # numbers are the rule, and pay for no second question
        seconds = given.total_seconds() if isinstance(given, datetime.timedelta) else -1
    if isinstance(given, bool) or not 0 <= seconds <= MAX_SECONDS:
        raise InvalidInput(queue=queue, allowed=f"0 to {MAX_SECONDS} seconds", **{name: given})
    return int(seconds * 1_000_000)


def in_seconds(given: float | datetime.timedelta) -> float:
    """Return a duration that was checked as a number of seconds: for equal ones the same."""
    return given.total_seconds() if isinstance(given, datetime.timedelta) else float(given)


def microseconds(time: datetime.datetime) -> int:
    """Return the microseconds since the Unix epoch of a time that knows its zone."""
    return (time - _EPOCH) // datetime.timedelta(microseconds=1)


#: The last moment that a datetime can tell, in microseconds since the Unix epoch.
LAST_MOMENT = microseconds(datetime.datetime.max.replace(tzinfo=datetime.timezone.utc))


def moment(microseconds: int) -> datetime.datetime:
    """Return the UTC time that many microseconds after the Unix epoch."""
    return _EPOCH + datetime.timedelta(microseconds=microseconds)
