"""Django's database connections of threads that call a project's own functions, one after another.

What a function leaves behind in a connection of its thread would be the next one's: a transaction
that it did not end, as by ``transaction.atomic().__enter__()`` or a generator that nothing
finishes. So its thread closes that connection, which rolls the transaction back, and forgets it.
A tenant whose schema it has set, as with django-tenants, is set back.
"""

from __future__ import annotations

import contextlib
from typing import Any

from django.db import connections

from fdbqueue.logs import get_logger

logger = get_logger(__name__)


class left_in_order(contextlib.AbstractContextManager[None]):  # noqa: N801  # it reads as a verb
    """Let a project's function run, and close the connections of this thread that it leaves unfit.

    Stale connections are closed before and after it, as Django does for each request, and those
    whose transaction it leaves open after it. One that was open before is the caller's own, as that
    of a test case is, and stays.
    """

    def __enter__(self) -> None:
        self._before: set[str] = set()
        #: The tenants of connections, by their names.
        self._tenants: dict[str, Any] = {}
        connection: Any
        for connection in connections.all(initialized_only=True):
            connection.close_if_unusable_or_obsolete()
            if hasattr(connection, "set_tenant"):
                self._tenants[connection.alias] = connection.tenant
            if connection.in_atomic_block:
                self._before.add(connection.alias)

    def __exit__(self, *_: object) -> None:
        for connection in connections.all(initialized_only=True):
            if connection.in_atomic_block and connection.alias not in self._before:
                facts = {"database": connection.alias}
                logger.warning("a transaction was left open, and is rolled back", extra=facts)
                _drop(connection)
            else:
                connection.close_if_unusable_or_obsolete()
                if hasattr(connection, "set_tenant"):
                    self._set_back_tenant(connection)

    def _set_back_tenant(self, connection: Any) -> None:
        if connection.alias not in self._tenants:
            connection.set_schema_to_public()  # as each new connection is
        elif connection.tenant is not self._tenants[connection.alias]:
            connection.set_tenant(self._tenants[connection.alias])


def _drop(connection: Any) -> None:
    own = connection.connection if connection.vendor == "sqlite" else None
    with contextlib.suppress(Exception):
        connection.close()
    if own is not None:  # Django closes none that is in memory
        own.close()
    with contextlib.suppress(AttributeError):
        del connections[connection.alias]
