"""A database whose transactions give up: no request and no command waits for ever.

A cluster that has gone away is otherwise waited for until it is back. Where a commit times
out, it is not known whether it took effect: the service then raises ``OutcomeUnknown``.
"""

from __future__ import annotations

import contextvars
import time
import weakref
from collections.abc import Callable
from typing import Any

from fdbqueue import conf
from fdbqueue.engines.protocols import Database
from fdbqueue.exceptions import DeadlineExceeded
from fdbqueue.service import Catalog

#: For how long a transaction may take, and until when one may begin.
_limits: contextvars.ContextVar[tuple[float, float, bool]] = contextvars.ContextVar("limits")
_UNLIMITED = (5.0, float("inf"), False)
#: FoundationDB's own limit of a timeout: 24 days.
_MAX_MILLISECONDS = 2**31 - 1


class TimedDatabase:
    """Any database whose transactions, their retries included, fail with 1031 in time.

    Args:
        database: Anything with ``create_transaction()``.
        seconds: Called for each transaction; how long that may take.
    """

    def __init__(self, database: Database, seconds: Callable[[], float]) -> None:
        #: The same without the limit: what other threads of the process use for all.
        self.patient = getattr(database, "patient", database)
        self._database = database
        self.time_limit = seconds

    def create_transaction(self) -> Any:
        """Return a new transaction with a timeout."""
        seconds = self.time_limit()
        transaction = self._database.create_transaction()
        milliseconds = min(max(1, int(seconds * 1_000)), _MAX_MILLISECONDS)
        transaction.options.set_timeout(milliseconds)
        return transaction


def _left_of_request() -> float:
    """Return how long a transaction may take that is begun in this thread.

    All of the timeout, for it may serve others who have just come; where a request only
    reads, what is left of it. What :func:`begin` was last told in this thread decides.

    Raises:
        DeadlineExceeded: It is too late to begin one.
    """
    timeout_seconds, end, reads_only = _limits.get(_UNLIMITED)
    left = end - time.monotonic()
    if left < 0:
        raise DeadlineExceeded
    return min(left, timeout_seconds) if reads_only else timeout_seconds


def is_half_over() -> bool:
    """Tell whether half of the time is over that :func:`begin` has given this thread."""
    timeout_seconds, end, _ = _limits.get(_UNLIMITED)
    return time.monotonic() > end - timeout_seconds / 2


_impatient: weakref.WeakKeyDictionary[Catalog, Catalog] = weakref.WeakKeyDictionary()


def begin(timeout_seconds: float, wait_seconds: float = 0, *, reads_only: bool = False) -> Catalog:
    """Begin the time that this thread has for a request, and return the setting's queues.

    It holds until the next call. What is begun within it may go on for as long again, unless
    the request only reads.

    Args:
        timeout_seconds: How long to begin transactions, and how long each may take.
        wait_seconds: How long to wait for items besides.
        reads_only: Whether nothing is taken off the queues, which might be for others too.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    end = time.monotonic() + timeout_seconds + wait_seconds
    _limits.set((timeout_seconds, end, reads_only))
    patient = conf.catalog()
    if patient not in _impatient:
        _impatient[patient] = patient.over(TimedDatabase(patient.database, _left_of_request))
    return _impatient[patient]
