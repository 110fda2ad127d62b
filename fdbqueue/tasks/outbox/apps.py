"""The Django application."""

from __future__ import annotations

from django.apps import AppConfig


class OutboxConfig(AppConfig):
    """The outbox of tasks: a table, which ``enqueue`` writes and workers empty."""

    name = "fdbqueue.tasks.outbox"
    label = "fdbqueue_outbox"
    verbose_name = "Outbox of tasks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the check of the tables."""
        from django.core import checks

        from fdbqueue.tasks.checks import check_tables

        checks.register(check_tables, checks.Tags.database)
