"""Check whether the tables of outboxes are there: for ``check --database`` and ``migrate``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Warning
from django.db import DatabaseError, connections


def check_tables(
    app_configs: Any = None,  # noqa: ARG001  # as Django calls it
    databases: Sequence[str] | None = None,
    **_: Any,
) -> list[CheckMessage]:
    """Report the outboxes of backends whose table is missing in their database."""
    from fdbqueue.tasks.backend import backends
    from fdbqueue.tasks.outbox.models import OutboxTask

    found: list[CheckMessage] = []
    for backend in backends():
        alias = backend.settings.outbox
        if alias is None or alias not in (databases or ()):
            continue
        try:
            names = connections[alias].introspection.table_names()
        except DatabaseError:
            continue  # that it cannot be reached, Django says
        if OutboxTask._meta.db_table not in names:  # noqa: SLF001  # Django's public name for it
            text = f"The outbox of the task backend {backend.alias!r} has no table in {alias!r}."
            hint = f"Run: manage.py migrate fdbqueue_outbox --database {alias}"
            found.append(Warning(text, hint=hint, id="fdbqueue.tasks.W002"))
    return found
