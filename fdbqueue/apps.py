"""The Django application."""

from __future__ import annotations

import importlib

from django.apps import AppConfig, apps


class FdbQueueConfig(AppConfig):
    """FoundationDB queues: the model's permissions, the pages, the commands, the checks."""

    name = "fdbqueue"
    verbose_name = "Queues"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, and what the API's schema says."""
        from fdbqueue.checks import register_checks

        register_checks()
        if apps.is_installed("drf_spectacular"):
            importlib.import_module("fdbqueue.api.schema")
