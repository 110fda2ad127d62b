"""Remove the receipts of clients that have not written for a time."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from fdbqueue.engines.protocols import Database, Transaction
from fdbqueue.exceptions import InvalidInput
from fdbqueue.service.receipts import (
    MIN_SWEPT_SECONDS,
    VERSIONS_PER_SECOND,
    place_of,
    version_of,
)
from fdbqueue.service.storage.item_keys import bounds
from fdbqueue.service.transactions import run

_SWEPT_AT_ONCE = 1_000


def sweep(database: Database, *, older_than_seconds: float = 86_400) -> int:
    """Remove the receipts of clients that have not written for a time.

    Runs in bounded transactions. An idle client loses nothing: its next operation writes a new
    receipt. A call that was cut off from the database for 600 seconds, right after a commit
    with an unknown outcome, and then finds no receipt, raises ``OutcomeUnknown``.

    Args:
        database: Anything with ``create_transaction()``.
        older_than_seconds: Remove the receipts whose last operation is older than this, by
            the database's versions; at least 600.

    Returns:
        How many were removed.

    Raises:
        InvalidInput: The time is too short.
    """
    return _walk(database, older_than_seconds, _clear)


def count_stale(database: Database, *, older_than_seconds: float = 86_400) -> int:
    """Return how many receipts :func:`sweep` would remove."""
    return _walk(database, older_than_seconds, lambda *_: None)


def _walk(
    database: Database, older_than_seconds: float, visit: Callable[[Transaction, list[bytes]], None]
) -> int:
    """Visit the keys of old receipts, some in each transaction; return how many."""
    if not MIN_SWEPT_SECONDS <= older_than_seconds < math.inf:
        raise InvalidInput(older_than_seconds=older_than_seconds, least=MIN_SWEPT_SECONDS)
    begin, end = bounds(place_of(database))
    age = int(older_than_seconds * VERSIONS_PER_SECOND)

    def visit_some(tr: Transaction, begin: bytes) -> tuple[int, bytes | None]:
        newest = tr.get_read_version().wait() - age
        rows = list(tr.snapshot.get_range(begin, end, limit=_SWEPT_AT_ONCE))
        stale = [row.key for row in rows if version_of(bytes(row.value)) < newest]
        visit(tr, stale)
        more = len(rows) == _SWEPT_AT_ONCE
        return len(stale), rows[-1].key + b"\x00" if more else None

    total = 0
    following: bytes | None = begin
    while following is not None:
        count, following = run(database, functools.partial(visit_some, begin=following))
        total += count
    return total


def _clear(tr: Transaction, keys: list[bytes]) -> None:
    for key in keys:
        tr.add_read_conflict_key(key)
        tr.clear(key)
