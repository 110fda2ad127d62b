"""The address of the metrics: ``path("metrics/", include("fdbqueue.metrics.urls"))``."""

from __future__ import annotations

from django.urls import path

from fdbqueue.metrics.views import MetricsView

app_name = "fdbqueue-metrics"
urlpatterns = [path("", MetricsView.as_view(), name="metrics")]
