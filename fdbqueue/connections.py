"""Django's database connections of threads that call a project's own functions, one after another.

What a function leaves behind in a connection of its thread would be the next one's: a transaction
that it did not end, as by ``transaction.atomic().__enter__()`` or a generator that nothing
finishes. So its thread closes that connection, which rolls the transaction back, and forgets it.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any

from django.db import close_old_connections, connections

logger = logging.getLogger(__name__)


def close_unfit() -> None:
    """Close the connections of this thread that no function is to go on with.

    Call it before and after each function: stale connections are closed, as Django does for each
    request, and those whose transaction was left open.
    """
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            facts = {"database": connection.alias}
            logger.warning("a transaction was left open, and is rolled back", extra=facts)
            _drop(connection)
    close_old_connections()


def drop_all() -> None:
    """Close the connections of this thread, and forget what is known of them."""
    for connection in connections.all(initialized_only=True):
        _drop(connection)


def _drop(connection: Any) -> None:
    own = connection.connection if connection.vendor == "sqlite" else None
    with contextlib.suppress(Exception):
        connection.close()
    if own is not None:  # Django closes none that is in memory
        own.close()
    with contextlib.suppress(AttributeError):
        del connections[connection.alias]
