"""The app of the metrics: ``"fdbqueue.metrics"`` in ``INSTALLED_APPS``."""

from __future__ import annotations

from django.apps import AppConfig


class MetricsConfig(AppConfig):
    """Metrics of queues; nothing is measured without this app."""

    name = "fdbqueue.metrics"
    label = "fdbqueue_metrics"
    verbose_name = "Metrics of queues"

    def ready(self) -> None:
        """Start measuring, and register the checks."""
        from django.core.checks import Tags, register

        from fdbqueue.metrics.checks import check_folder, check_token
        from fdbqueue.metrics.exposition import install

        install()
        register(check_folder, Tags.compatibility)
        register(check_token, Tags.security)
