"""The addresses of the health checks: ``path("health/", include("fdbqueue.health.urls"))``."""

from __future__ import annotations

from django.urls import path

from fdbqueue.health.views import LiveView, QueuesView, ReadyView

app_name = "fdbqueue-health"
urlpatterns = [
    path("live/", LiveView.as_view(), name="live"),
    path("ready/", ReadyView.as_view(), name="ready"),
    path("queues/", QueuesView.as_view(), name="queues"),
]
