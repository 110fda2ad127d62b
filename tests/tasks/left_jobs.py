"""Tasks that leave something behind."""

from __future__ import annotations

import weakref
from typing import Any, NoReturn

from django.contrib.auth.models import Group
from django.db import connection, transaction

from fdbqueue.service.tools.line import Line
from fdbqueue.tasks import at_end, task
from tests.tasks.jobs import never

#: What tasks had in variables.
had: list[Any] = []


@task(backoff=never)
def leave_open(fails: bool) -> None:
    """Write in a transaction, and end neither it nor, perhaps, well."""
    transaction.atomic().__enter__()
    Group.objects.create(name="not kept")
    if fails:
        raise LookupError


@task
def work_for(tenant: str) -> list[str]:
    """Set a tenant, as with django-tenants; return whose the connection was, and is."""
    database: Any = connection
    found = [database.tenant]
    database.set_tenant(tenant)
    return [*found, database.tenant]


@task
def tell_connection() -> int:
    """Return which connection it has."""
    connection.ensure_connection()
    return id(connection.connection)


class Held:
    """What a variable holds."""


def _hold() -> Held:
    held = Held()
    had.append(weakref.ref(held))
    return held


@task(backoff=never)
def fail() -> NoReturn:
    held = _hold()
    raise LookupError(f"with a variable: {held!r}")


@task(backoff=never, timeout=600)
def fail_with_limit() -> NoReturn:
    held = _hold()
    raise LookupError(f"with a variable: {held!r}")


@task(backoff=never)
async def fail_async() -> NoReturn:
    held = _hold()
    raise LookupError(f"with a variable: {held!r}")


@task(backoff=never)
def fail_at_end() -> None:
    """Fail in the transaction of its end."""

    def fail(tr: Any) -> NoReturn:
        held = _hold()
        raise LookupError(f"with a variable: {held!r}")

    at_end(fail)


@task
def break_the_worker() -> None:
    """Let the thread that runs this die right behind it."""

    def end(*_: Any) -> NoReturn:
        raise MemoryError

    Line.end = end  # type: ignore[method-assign]
