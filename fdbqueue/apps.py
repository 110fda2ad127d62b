"""The Django application."""

from django.apps import AppConfig


class FdbQueueConfig(AppConfig):
    """FoundationDB queues."""

    name = "fdbqueue"
    verbose_name = "Queues"
    default_auto_field = "django.db.models.BigAutoField"
