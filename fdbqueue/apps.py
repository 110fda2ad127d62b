"""The Django application."""

from __future__ import annotations

import sys

import django
from django.apps import AppConfig
from django.core.exceptions import ImproperlyConfigured

_OLDEST_DJANGO = (5, 2)


class FdbQueueConfig(AppConfig):
    """Queues on FoundationDB: permissions, pages, commands and checks."""

    name = "fdbqueue"
    verbose_name = "Queues"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, and the API's schema if its views are loaded.

        Raises:
            ImproperlyConfigured: This Django is too old.
        """
        if django.VERSION < _OLDEST_DJANGO:
            raise ImproperlyConfigured(
                f"fdbqueue needs Django {'.'.join(map(str, _OLDEST_DJANGO))} or newer; "
                f"this is Django {django.get_version()}."
            )
        from fdbqueue.checks import register_checks

        register_checks()
        viewsets = sys.modules.get("fdbqueue.api.viewsets")
        if viewsets is not None:  # a module of models has imported it
            viewsets.describe()
