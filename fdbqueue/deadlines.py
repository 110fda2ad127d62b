"""Limit the time of transactions, so that no request and no command waits for ever.

Without a limit, a transaction waits until a cluster that does not respond is back. When a commit
times out, it is not known whether it took effect: the service then raises ``OutcomeUnknown``.
"""

from __future__ import annotations

import contextvars
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from fdbqueue import conf
from fdbqueue.engines.protocols import Database
from fdbqueue.exceptions import DeadlineExceeded
from fdbqueue.service import Catalog, error_code
from fdbqueue.steady import monotonic

#: How long a transaction may take, until when one may begin, and whether the request only reads.
_limits: contextvars.ContextVar[tuple[float, float, bool]] = contextvars.ContextVar("limits")
_UNLIMITED = (5.0, float("inf"), False)
#: FoundationDB's own limit of a timeout: 24 days.
_MAX_MILLISECONDS = 2**31 - 1
_TIMED_OUT = 1031


class TimedDatabase:
    """Give the transactions of a database a time limit, retries included; then they fail with 1031.

    Args:
        database: Anything with ``create_transaction()``.
        seconds: Called for each transaction; returns how long it may take.
    """

    def __init__(self, database: Database, seconds: Callable[[], float]) -> None:
        #: The database without the limit, for work that several threads share.
        self.unlimited = getattr(database, "unlimited", database)
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
    """Return how long a transaction that begins now in this thread may take.

    That is the whole timeout, because the transaction may take items for other requests, too;
    for a request that only reads, the rest of it. The last :func:`begin` of the thread counts.

    Raises:
        DeadlineExceeded: It is too late to begin a transaction.
    """
    timeout_seconds, end, reads_only = _limits.get(_UNLIMITED)
    left = end - monotonic()
    if left < 0:
        raise DeadlineExceeded
    return min(left, timeout_seconds) if reads_only else timeout_seconds


def is_half_over() -> bool:
    """Tell whether half of the time that :func:`begin` gave this thread has passed."""
    timeout_seconds, end, _ = _limits.get(_UNLIMITED)
    return monotonic() > end - timeout_seconds / 2


def next_names(
    each: Iterable[str], limit: int, is_wanted: Callable[[str], bool] = lambda _: True
) -> tuple[list[str], str | None]:
    """Return the first of some names, and the name to continue after, None if there are no more.

    They are fewer if half of the time is over before.

    Args:
        each: The names, sorted, each read when it is asked for.
        limit: Return at most this many.
        is_wanted: Tells whether to return a name.
    """
    names: list[str] = []
    last = ""
    for name in each:
        wanted = is_wanted(name)
        if (wanted and len(names) == limit) or (last and is_half_over()):
            return names, last
        if wanted:
            names.append(name)
        last = name
    return names, None


def is_late(error: Exception) -> bool:
    """Tell whether an error says that the time was over, and that nothing was changed."""
    return isinstance(error, DeadlineExceeded) or error_code(error) == _TIMED_OUT


_limited: weakref.WeakKeyDictionary[Catalog, Catalog] = weakref.WeakKeyDictionary()


def limited_catalog(
    timeout_seconds: float, wait_seconds: float = 0, *, reads_only: bool = False
) -> Catalog:
    """Start the time limit of a request in this thread, and return the setting's queues.

    The limit applies until the next call. A transaction that begins in time may take the whole
    timeout again, unless the request only reads.

    Args:
        timeout_seconds: How long transactions may begin, and how long each may take.
        wait_seconds: How long to wait for items, in addition.
        reads_only: Whether the request takes no items.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    end = monotonic() + timeout_seconds + wait_seconds
    _limits.set((timeout_seconds, end, reads_only))
    catalog = conf.catalog()
    if catalog not in _limited:
        _limited[catalog] = catalog.over(TimedDatabase(catalog.database, _left_of_request))
    return _limited[catalog]
