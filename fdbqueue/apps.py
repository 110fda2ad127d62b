"""The Django application."""

from __future__ import annotations

import importlib

from django.apps import AppConfig, apps


class FdbQueueConfig(AppConfig):
    """Queues on FoundationDB: permissions, pages, commands and checks."""

    name = "fdbqueue"
    verbose_name = "Queues"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks and the API's schema."""
        from fdbqueue.checks import register_checks

        register_checks()
        if apps.is_installed("drf_spectacular"):
            importlib.import_module("fdbqueue.api.schema")
