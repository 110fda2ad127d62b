"""The Django application."""

from __future__ import annotations

from django.apps import AppConfig


class FdbQueueConfig(AppConfig):
    """FoundationDB queues: the model's permissions, the pages, the commands, the checks."""

    name = "fdbqueue"
    verbose_name = "Queues"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks."""
        from fdbqueue.checks import register_checks

        register_checks()
